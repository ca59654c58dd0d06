package sqlite

import (
	"strings"
	"testing"

	"github.com/pipelinebot/pipelinebot/checkpoints"
)

// The state at the start reads back whatever its size, before and after the
// run has moved on.
func TestInitial(t *testing.T) {
	t.Parallel()
	s := openStore(t)
	for _, state := range []string{
		`{}`, `{"n":1}`, `{"x":"` + strings.Repeat("abc", 171) + `"}`, `{"x":"` + strings.Repeat("x", 1<<20) + `"}`,
	} {
		r, err := s.Start(t.Context(), checkpoints.StartReq{Key: checkpoints.NewID(s.clock.Now()), Entry: "a", State: []byte(state)})
		if err != nil {
			t.Fatal(err)
		}
		_, l, err := s.Claim(t.Context(), r.ID, r.Epoch, "w", 1e9)
		if err != nil {
			t.Fatal(err)
		}
		for seq := range int64(2) {
			r, err := s.Get(t.Context(), r.ID)
			if err != nil || string(r.Initial) != state {
				t.Fatalf("after %d nodes the state at the start is %.80s, %v, want %.80s", seq, r.Initial, err, state)
			}
			if history, err := s.History(t.Context(), r.ID); err != nil || int64(len(history)) != seq {
				t.Fatalf("%d nodes, %v, want %d", len(history), err, seq)
			}
			if err := s.Commit(t.Context(), l, step(seq+1, 1)); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func FuzzInitial(f *testing.F) {
	f.Add([]byte("{}"))
	f.Add([]byte{0xff, 0x00})
	var d deflater // what it has compressed before leaves no trace
	f.Fuzz(func(t *testing.T, text []byte) {
		if b, err := d.deflate(text); err != nil {
			t.Fatal(err)
		} else if got, err := readInitial(1, b); err != nil || string(got) != string(text) {
			t.Fatalf("%q came back as %q, %v", text, got, err)
		}
		_, _ = readInitial(1, text) // whatever it is, no panic
	})
}
