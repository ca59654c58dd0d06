package app_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/pipelinebot/pipelinebot/checkpoints"
	"github.com/pipelinebot/pipelinebot/checkpoints/memory"
	"github.com/pipelinebot/pipelinebot/internal/app"
)

// start makes a run for issue n.
func start(t *testing.T, s *memory.Store, n int) checkpoints.Run {
	t.Helper()
	run, err := s.Start(t.Context(), checkpoints.StartReq{
		Key: fmt.Sprintf("acme/widgets#%d", n), Repo: "acme/widgets", Issue: n, Phase: "triage", Flow: "triage", Round: 1,
		Entry: "snapshot", State: []byte(`{}`), Definition: []byte("name: triage"), DefinitionHash: "abc",
	})
	if err != nil {
		t.Fatal(err)
	}
	return run
}

func TestFindRun(t *testing.T) {
	t.Parallel()
	s := memory.New(memory.Options{})
	one, two := start(t, s, 1), start(t, s, 2)
	tests := []struct {
		name, id string
		want     string
		err      error
	}{
		{name: "whole id", id: one.ID, want: one.ID},
		{name: "end of an id", id: two.ID[len(two.ID)-8:], want: two.ID},
		{name: "beginning of all ids", id: one.ID[:4], err: app.ErrAmbiguous},
		{name: "no such run", id: "zzzzzzzz", err: app.ErrNoRun},
		{name: "too short to look for", id: one.ID[len(one.ID)-3:], err: app.ErrNoRun},
		{name: "nothing", id: "", err: app.ErrNoRun},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			run, err := app.FindRun(t.Context(), s, tt.id)
			if run.ID != tt.want || !errors.Is(err, tt.err) {
				t.Errorf("FindRun(%q) = %q, %v; want %q, %v", tt.id, run.ID, err, tt.want, tt.err)
			}
		})
	}
}

// broken is a store that cannot be read.
type broken struct{ app.Reader }

var errBroken = errors.New("disk on fire")

func (broken) Get(context.Context, string) (checkpoints.Run, error) {
	return checkpoints.Run{}, errBroken
}

// A store that fails is not the same as a run that is not there.
func TestFindRunInBrokenStore(t *testing.T) {
	t.Parallel()
	_, err := app.FindRun(t.Context(), broken{}, "abcdef")
	if !errors.Is(err, errBroken) || errors.Is(err, app.ErrNoRun) {
		t.Errorf("got %v, want the store's error", err)
	}
}

func TestAwaitDecision(t *testing.T) {
	t.Parallel()
	s := memory.New(memory.Options{})
	ctx := t.Context()
	for _, id := range []string{"decided", "pending"} {
		if _, err := s.Receive(ctx, checkpoints.InboxEvent{ID: id, Kind: "manual_run", Body: []byte(`{}`), At: time.Now()}); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Decided(ctx, "decided", "refuse", "because"); err != nil {
		t.Fatal(err)
	}
	row, err := app.AwaitDecision(ctx, s, "decided", time.Hour)
	if err != nil || row.Decision != "refuse" || row.Explanation != "because" {
		t.Errorf("decided: %+v, %v", row, err)
	}
	row, err = app.AwaitDecision(ctx, s, "pending", time.Millisecond)
	if err != nil || row.Decision != "" {
		t.Errorf("pending: %+v, %v", row, err)
	}
	if _, err := app.AwaitDecision(ctx, s, "absent", time.Hour); !errors.Is(err, checkpoints.ErrNotFound) {
		t.Errorf("absent: %v, want ErrNotFound", err)
	}
}
