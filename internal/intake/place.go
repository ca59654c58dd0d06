package intake

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pipelinebot/pipelinebot/internal/forge"
)

// place is how far the poller has read an issue; it is the value of the
// issue's cursor, as JSON.
type place struct {
	Updated time.Time `json:"updated"`
	Labels  []string  `json:"labels"` // folded, sorted
	Body    string    `json:"body"`   // hash
	Log     marks     `json:"log"`
	Talk    marks     `json:"talk"`
	// Edited is when comments that were edited were edited last, by id.
	Edited map[int64]time.Time `json:"edited,omitempty"`
	// Behind means that the log did not yet explain the labels: read it again.
	Behind bool `json:"behind,omitempty"`
}

func placeName(ref forge.Ref) string { return "poll/" + fold(ref) }

func fold(ref forge.Ref) string { return strings.ToLower(ref.String()) }

// readPlace decodes a cursor; known is false for the empty one.
func readPlace(text string) (p place, known bool, err error) {
	if text == "" {
		return place{}, false, nil
	}
	if err := json.Unmarshal([]byte(text), &p); err != nil {
		return place{}, false, fmt.Errorf("reading the poller's place: %w", err)
	}
	return p, true, nil
}

func (p place) text() (string, error) {
	b, err := json.Marshal(p)
	return string(b), err
}

// snapshot is what the issue itself shows.
func snapshot(i forge.Issue) place {
	labels := make([]string, len(i.Labels))
	for n, l := range i.Labels {
		labels[n] = strings.ToLower(l)
	}
	slices.Sort(labels)
	sum := sha256.Sum256([]byte(i.Body))
	return place{Updated: i.Updated, Labels: labels, Body: hex.EncodeToString(sum[:8])}
}

// unchanged reports that the issue shows nothing new.
func (p place) unchanged(now place) bool {
	return !p.Behind && p.Updated.Equal(now.Updated) && p.Body == now.Body && slices.Equal(p.Labels, now.Labels)
}

// keptMarks is how many ids are remembered one by one.
const keptMarks = 64

// marks are the ids that were seen: all up to Floor, and the recent ones. An
// entry that shows up late, with an id below the newest, is still new.
type marks struct {
	Floor  int64   `json:"floor,omitempty"`
	Recent []int64 `json:"recent,omitempty"`
}

func (m marks) fresh(id int64) bool { return id > m.Floor && !slices.Contains(m.Recent, id) }

// through returns the marks when all the given ids are seen, besides those
// that were.
func (m marks) through(ids []int64) marks {
	all := append(slices.Clone(m.Recent), ids...)
	slices.Sort(all)
	all = slices.Compact(all)
	next := marks{Floor: m.Floor}
	if cut := len(all) - keptMarks; cut > 0 {
		next.Floor = max(next.Floor, all[cut-1])
		all = all[cut:]
	}
	for _, id := range all {
		if id > next.Floor {
			next.Recent = append(next.Recent, id)
		}
	}
	return next
}
