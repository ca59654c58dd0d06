package intake

import (
	"testing"

	"pgregory.net/rapid"
)

// Whatever the order in which ids show up, each is fresh exactly once, as
// long as it is among the newest that are remembered.
func TestMarksTellEachIDOnce(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		ids := rapid.SliceOfNDistinct(rapid.Int64Range(1, 1000), 0, keptMarks, rapid.ID[int64]).Draw(t, "ids")
		var m marks
		for _, id := range ids {
			if !m.fresh(id) {
				t.Fatalf("%d is not fresh in %+v", id, m)
			}
			m = m.through([]int64{id})
			if m.fresh(id) {
				t.Fatalf("%d is fresh again in %+v", id, m)
			}
		}
	})
}

func TestMarksAreBounded(t *testing.T) {
	t.Parallel()
	var m marks
	for id := int64(1); id <= 1000; id++ {
		m = m.through([]int64{id})
	}
	if len(m.Recent) != keptMarks || m.Floor != 1000-keptMarks || m.fresh(3) || !m.fresh(1001) {
		t.Errorf("got %+v", m)
	}
}

func FuzzReadPlace(f *testing.F) {
	f.Add(`{"labels":["a"],"log":{"floor":3,"recent":[4,5]}}`)
	f.Fuzz(func(t *testing.T, text string) {
		p, known, err := readPlace(text)
		if err != nil || !known {
			return
		}
		again, err := p.text()
		if err != nil {
			t.Skip("a time outside of JSON's years")
		}
		if _, known, err := readPlace(again); !known || err != nil {
			t.Errorf("%s does not survive its own round trip: %v", again, err)
		}
	})
}
