package app

import (
	"context"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/pipelinebot/pipelinebot/internal/command"
)

// Moment is an instant between which and the next a process may die with
// another outcome: what was on the disk, or outside, is there, the rest is not.
type Moment struct {
	// Kind is commit or command.
	Kind string `json:"kind"`
	// Stage is before or after; a commit is only told of after.
	Stage string `json:"stage"`
	// Name tells moments of a kind apart: the store's method, or the program.
	Name string `json:"name"`
}

// committed tells Options.Moment of a transaction.
func (a *App) committed() func(int64) {
	if a.Moment == nil {
		return nil
	}
	return func(int64) { a.Moment(Moment{Kind: "commit", Stage: "after", Name: storeCall()}) }
}

// storeCall is the store's method that called, "several" when a transaction
// was begun for others.
func storeCall() string {
	var pcs [32]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs[:])])
	name := "several"
	for {
		f, more := frames.Next()
		if _, method, ok := strings.Cut(f.Function, "checkpoints/sqlite.(*Store)."); ok && !strings.Contains(method, ".") {
			name = method // the outermost counts
		}
		if !more {
			break
		}
	}
	switch name {
	case "committed", "serve", "write", "alone":
		return "several"
	}
	return name
}

// telling runs commands and tells of each.
type telling struct {
	command.Runner
	tell func(Moment)
}

// Run implements command.Runner.
func (t telling) Run(ctx context.Context, s command.Spec) (command.Result, error) {
	name := ""
	if len(s.Argv) > 0 {
		name = filepath.Base(s.Argv[0])
	}
	t.tell(Moment{Kind: "command", Stage: "before", Name: name})
	res, err := t.Runner.Run(ctx, s)
	t.tell(Moment{Kind: "command", Stage: "after", Name: name})
	return res, err
}
