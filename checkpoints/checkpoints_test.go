package checkpoints_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pipelinebot/pipelinebot/checkpoints"
	"github.com/pipelinebot/pipelinebot/checkpoints/memory"
)

func TestIDsSortByTime(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC)
	last := ""
	for range 100 {
		id := checkpoints.NewID(at)
		if len(id) != 26 || id <= last {
			t.Fatalf("%q after %q", id, last)
		}
		last, at = id, at.Add(time.Microsecond)
	}
	if a, b := checkpoints.NewID(at), checkpoints.NewID(at); a == b {
		t.Fatal("two ids of one instant are equal")
	}
}

// A crash at any instant leaves one effect in the world.
func TestOnce(t *testing.T) {
	t.Parallel()
	boom := errors.New("boom")
	found := func(v string, err error) checkpoints.Find {
		return func(context.Context) (json.RawMessage, bool, error) { return json.RawMessage(v), v != "", err }
	}
	for _, c := range []struct {
		name     string
		recorded string
		find     checkpoints.Find
		do       error
		want     string
		done     int
		err      error
	}{
		{name: "recorded", recorded: `1`, find: found(`2`, nil), want: `1`},
		{name: "in the world", find: found(`2`, nil), want: `2`},
		{name: "nowhere", find: found("", nil), want: `3`, done: 1},
		{name: "can't look", find: found("", boom), err: boom},
		{name: "no way to look", want: `3`, done: 1},
		{name: "can't do", do: boom, done: 1, err: boom},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := memory.New(memory.Options{})
			if c.recorded != "" {
				if err := s.RecordEffect(t.Context(), "k", json.RawMessage(c.recorded)); err != nil {
					t.Fatal(err)
				}
			}
			done := 0
			got, err := checkpoints.Once(t.Context(), s, "k", c.find, func(context.Context) (json.RawMessage, error) {
				done++
				return json.RawMessage(`3`), c.do
			})
			if !errors.Is(err, c.err) || string(got) != c.want && err == nil || done != c.done {
				t.Fatalf("got %s, %v, done %d times", got, err, done)
			}
			if err != nil {
				return
			}
			again, err := s.Effect(t.Context(), "k")
			if diff := cmp.Diff(c.want, string(again)); err != nil || diff != "" {
				t.Fatalf("recorded: %v (-want +got):\n%s", err, diff)
			}
		})
	}
}
