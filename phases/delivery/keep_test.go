package delivery_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/pipelinebot/pipelinebot/checkpoints"
	"github.com/pipelinebot/pipelinebot/flows"
	"github.com/pipelinebot/pipelinebot/phases/delivery"
	"github.com/pipelinebot/pipelinebot/phases/phasetest"
	"github.com/pipelinebot/pipelinebot/phases/tree"
)

// shadow is the effects of a run that writes nothing outside.
type shadow struct{}

// Once implements flows.Effects.
func (shadow) Once(ctx context.Context, _ string, find checkpoints.Find, _ checkpoints.Do) (json.RawMessage, error) {
	if v, found, err := find(ctx); found || err != nil {
		return v, err
	}
	return json.RawMessage("null"), nil
}

// Work of a run that was cut is kept on a branch, once however often the run
// ends; newer work replaces it; a shadow run keeps none.
//
// Covers: BL18.
func TestKeep(t *testing.T) {
	t.Parallel()
	origin := phasetest.NewOrigin(t, map[string]string{"a.txt": "a\n"})
	trees := tree.New(origin, phasetest.NewForge())
	var told []string
	k := delivery.Keeper{
		Trees: trees, Identity: delivery.Identity{Name: "bot", Email: "b@x"},
		Saved: func(_ context.Context, _, branch string) error { told = append(told, branch); return nil },
	}
	c := phasetest.Call(t, map[string]any{"base_sha": origin.Head("trunk")})
	c.Ended = &flows.Ended{How: "halted"}
	branch := delivery.WIPBranch(7, c.Run.Lineage)
	act := k.Action("workspace.save", "base_sha")
	work := func(text string) {
		w, err := trees.Open(t.Context(), c, tree.At{Base: origin.Head("trunk")})
		if err != nil {
			t.Fatal(err)
		}
		phasetest.Write(t, w.Dir(), "a.txt", text)
	}
	work("shadow\n")
	real := c.Effects
	c.Effects = shadow{}
	r, err := act.Run(t.Context(), c)
	if err != nil || !strings.Contains(r.Note, "shadow") || origin.Head(branch) != "" || len(told) != 0 {
		t.Errorf("a shadow: %q, %v, branch at %q, told %v", r.Note, err, origin.Head(branch), told)
	}
	c.Effects = real
	for _, text := range []string{"first\n", "first\n", "second\n"} {
		work(text)
		if _, err := act.Run(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		if got := origin.Show(branch, "a.txt"); got != text {
			t.Errorf("kept %q, want %q", got, text)
		}
	}
	if len(told) != 3 || told[0] != branch {
		t.Errorf("told %v", told)
	}
}
