package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/pipelinebot/pipelinebot/checkpoints"
	"github.com/pipelinebot/pipelinebot/checkpoints/sqlite"
	"github.com/pipelinebot/pipelinebot/internal/clock"
	"github.com/pipelinebot/pipelinebot/internal/config"
	"github.com/pipelinebot/pipelinebot/internal/forge"
)

// databaseFile is the store's file in the data folder.
const databaseFile = "pipelinebot.db"

// Reader is what a command reads of the store, beside a daemon.
type Reader interface {
	Get(ctx context.Context, id string) (checkpoints.Run, error)
	List(ctx context.Context, f checkpoints.Filter) ([]checkpoints.Run, error)
	History(ctx context.Context, id string) ([]checkpoints.NodeRecord, error)
	Branches(ctx context.Context, runID string) ([]checkpoints.BranchRecord, error)
	Versions(ctx context.Context, flow string) ([]checkpoints.FlowVersion, error)
	Audits(ctx context.Context, runID string) ([]checkpoints.AuditLine, error)
	Inbox(ctx context.Context, limit int) ([]checkpoints.InboxEvent, error)
	Received(ctx context.Context, id string) (checkpoints.InboxEvent, error)
	Close() error
}

// OpenReader opens the store to read beside a daemon.
func OpenReader(ctx context.Context, cfg *config.Config) (Reader, error) {
	s, err := sqlite.Open(ctx, sqlite.Options{Path: filepath.Join(cfg.DataDir, databaseFile), Mode: sqlite.ReadOnly})
	if err != nil {
		return nil, setup(err)
	}
	return s, nil
}

// What FindRun fails with; the texts say what to do.
var (
	ErrNoRun     = errors.New("`pipelinebot runs list` shows what there is")
	ErrAmbiguous = errors.New("give more of the id")
)

const (
	// shortestID is how much of an id is enough to look for it.
	shortestID = 4
	// searched is how many runs, newest first, a part of an id is looked for in.
	searched = 10_000
)

// FindRun returns the run whose id is, or begins with, the given text; the end
// of an id is accepted too, since the beginnings of recent ids are alike. It
// fails with ErrNoRun or ErrAmbiguous.
func FindRun(ctx context.Context, r Reader, id string) (checkpoints.Run, error) {
	run, err := r.Get(ctx, id)
	if err == nil {
		return run, nil
	}
	if !errors.Is(err, checkpoints.ErrNotFound) {
		return run, fmt.Errorf("looking for run %s: %w", id, err)
	}
	if len(id) < shortestID {
		return run, fmt.Errorf("there is no run %q, and a part of an id needs at least %d characters: %w", id, shortestID, ErrNoRun)
	}
	runs, err := r.List(ctx, checkpoints.Filter{Limit: searched})
	if err != nil {
		return run, fmt.Errorf("looking for run %s: %w", id, err)
	}
	runs = slices.DeleteFunc(runs, func(run checkpoints.Run) bool {
		return !strings.HasPrefix(run.ID, id) && !strings.HasSuffix(run.ID, id)
	})
	switch len(runs) {
	case 1:
		return runs[0], nil
	case 0:
		return run, fmt.Errorf("there is no run %q: %w", id, ErrNoRun)
	}
	return run, fmt.Errorf("%d runs match %q: %w", len(runs), id, ErrAmbiguous)
}

// Receive puts an operator's event into the inbox of this program.
func (a *App) Receive(ctx context.Context, ev forge.Event) (rowID string, err error) {
	return receive(ctx, a.store, ev)
}

// receive stores an operator's event.
func receive(ctx context.Context, in checkpoints.Inbox, ev forge.Event) (string, error) {
	now := clock.Real{}.Now()
	ev.Source, ev.At = "cli", now
	body, err := json.Marshal(ev)
	if err != nil {
		return "", fmt.Errorf("encoding the event: %w", err)
	}
	row := checkpoints.InboxEvent{ID: checkpoints.NewID(now), Kind: string(ev.Kind), Body: body, At: now}
	row.Key = operatorKey + row.ID
	if _, err := in.Receive(ctx, row); err != nil {
		return "", fmt.Errorf("storing the event: %w", err)
	}
	return row.ID, nil
}

// AwaitDecision waits until an inbox row is decided, or for at most limit; the
// row's Decision is then still empty.
func AwaitDecision(ctx context.Context, r Reader, rowID string, limit time.Duration) (checkpoints.InboxEvent, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for {
		row, err := r.Received(context.WithoutCancel(ctx), rowID)
		if err != nil {
			return row, fmt.Errorf("reading inbox row %s: %w", rowID, err)
		}
		if row.Decision != "" || clock.Sleep(ctx, clock.Real{}, 50*time.Millisecond) != nil {
			return row, nil
		}
	}
}
