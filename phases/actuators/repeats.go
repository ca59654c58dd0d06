package actuators

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"strings"

	"github.com/pipelinebot/pipelinebot/llm"
)

// maxRefusals is how many refused repetitions in a row end the loop.
const maxRefusals = 3

// repeats sees when the model does the same again. A look may be repeated
// once something was changed; the same change is counted for ever, so that
// doing and undoing is noticed.
type repeats struct {
	looks, changes map[string]int
	refused        int
	last           string
}

// see counts a call: the second equal one gets a note, the third is refused.
func (r *repeats) see(call llm.ToolCall, writes bool) (note string, refused bool) {
	if r.looks == nil {
		r.looks, r.changes = map[string]int{}, map[string]int{}
	}
	counts := r.looks
	if writes {
		counts = r.changes
	}
	key := call.Name + " " + canonical(call.Input)
	counts[key]++
	switch n := counts[key]; n {
	case 1:
		r.refused = 0
		return "", false
	case 2:
		return "[You made this same call before, and nothing was changed since that could change its result.]\n", false
	default:
		r.refused++
		r.last = call.Name
		return fmt.Sprintf("Refused: this very call was made %d times now. Its result will not change. "+
			"Do something else, or call finish and say what stands in the way.", n), true
	}
}

// changed forgets the looks: they may show something new now. Those of the
// tool except, if any, are kept.
func (r *repeats) changed(except string) {
	maps.DeleteFunc(r.looks, func(key string, _ int) bool {
		return except == "" || !strings.HasPrefix(key, except+" ")
	})
}

// stuck is ErrStuck once nothing but refused calls came.
func (r *repeats) stuck(prompt string) error {
	if r.refused < maxRefusals {
		return nil
	}
	return fmt.Errorf("%w: %s repeated the same call of %s although it was refused, %d refusals in a row", ErrStuck, prompt, r.last, r.refused)
}

// canonical is JSON with sorted keys and no blanks.
func canonical(raw json.RawMessage) string {
	var v any
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if d.Decode(&v) != nil {
		return string(raw)
	}
	b, err := json.Marshal(v)
	if err != nil {
		return string(raw)
	}
	return string(b)
}
