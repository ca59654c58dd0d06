package actuators

import (
	"slices"

	"github.com/pipelinebot/pipelinebot/llm"
)

const (
	// keepRecent messages at the end are never touched: the last three turns.
	keepRecent = 6
	dropped    = "[This old result was dropped to save room. Call the tool again if you need it.]"
)

// trim keeps what the model sees below the room. It drops old tool results,
// all at once so that the vendor's cache is lost rarely, and, where that is
// not enough, the oldest whole turns. The first message always stays.
func (l *loop) trim() {
	if estimateMessages(l.context) <= l.room || len(l.context) <= keepRecent+1 {
		return
	}
	l.log.Trims++
	end := len(l.context) - keepRecent
	for i := 1; i < end; i++ {
		l.context[i].Results = slices.Clone(l.context[i].Results)
		for j, r := range l.context[i].Results {
			if len(r.Text) > len(dropped) {
				l.context[i].Results[j] = llm.ToolResult{ID: r.ID, Text: dropped, Error: r.Error}
			}
		}
	}
	// A turn is the model's message and the answer to it.
	for estimateMessages(l.context) > l.room && len(l.context) > keepRecent+2 {
		l.context = slices.Delete(slices.Clone(l.context), 1, 3)
	}
	for i := range l.context {
		l.context[i].Opaque = nil // it vouches for a past that is no more
	}
	l.repeats.changed("") // a dropped result may be asked for again
}
