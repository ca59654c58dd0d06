// Package app is the composition root: the only place that knows every
// package. The command line, the tests and the demo run the program that it
// builds from a configuration.
//
// It must not decide anything about issues or runs; it only puts together. It
// may import everything below it.
package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/pipelinebot/pipelinebot/checkpoints"
	"github.com/pipelinebot/pipelinebot/checkpoints/artifacts"
	"github.com/pipelinebot/pipelinebot/checkpoints/sqlite"
	"github.com/pipelinebot/pipelinebot/flows/engine"
	"github.com/pipelinebot/pipelinebot/internal/breaker"
	"github.com/pipelinebot/pipelinebot/internal/clock"
	"github.com/pipelinebot/pipelinebot/internal/config"
	"github.com/pipelinebot/pipelinebot/internal/dispatch"
	"github.com/pipelinebot/pipelinebot/internal/forge"
	"github.com/pipelinebot/pipelinebot/internal/gh"
	"github.com/pipelinebot/pipelinebot/internal/handoff"
	"github.com/pipelinebot/pipelinebot/internal/queue/river"
	"github.com/pipelinebot/pipelinebot/internal/report"
	"github.com/pipelinebot/pipelinebot/internal/secret"
	"github.com/pipelinebot/pipelinebot/internal/worker"
	"github.com/pipelinebot/pipelinebot/labels"
	"github.com/pipelinebot/pipelinebot/phases/tree"
)

// Options are what New needs beside the configuration.
type Options struct {
	// Log is the daemon's log; required.
	Log *slog.Logger
	// Observer is told what happens, for a live view; may be nil.
	Observer Observer
	// Only, when set, is the one issue that is worked on.
	Only *forge.Ref
	// Trouble is told of work that could not be done and comes again, e.g.
	// since GitHub cannot be reached; may be nil. It must return at once.
	Trouble func(err error)
	// Ready is called once the server listens, with its address.
	Ready func(addr string)
	// Moment is told of each commit and each command, for whoever tries what a
	// crash there does; may be nil. The program waits while it is told.
	Moment func(Moment)
}

// App is the whole program.
type App struct {
	Options
	cfg      *config.Config
	clock    clock.Clock
	scrub    *secret.Scrubber
	store    *sqlite.Store
	queue    *river.Queue
	forge    *gh.Client
	worker   *worker.Worker
	engine   *engine.Engine
	trees    *tree.Trees
	dispatch *dispatch.Dispatcher
	reporter *report.Reporter
	sandbox  string
}

// New builds the program and opens its store. Close it afterwards, or let Run
// do so.
func New(ctx context.Context, cfg *config.Config, o Options) (_ *App, err error) {
	if err := os.MkdirAll(cfg.DataDir, 0o700); err != nil {
		return nil, setup(fmt.Errorf("making the data folder: %w: correct its rights, or set another data_dir", err))
	}
	a := &App{Options: o, cfg: cfg, clock: clock.Real{}, scrub: secret.NewScrubber(secretsOf(cfg)...)}
	a.store, err = sqlite.Open(ctx, sqlite.Options{
		Path: filepath.Join(cfg.DataDir, databaseFile), Clock: a.clock, Owner: "pipelinebot",
		Synchronous: sqlite.Synchronous(cfg.Store.Synchronous), Logger: o.Log, OnCommit: a.committed(),
	})
	if err != nil {
		return nil, setup(err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, a.store.Close())
		}
	}()
	a.queue, err = river.New(ctx, river.Options{DB: a.store.DB(), Workers: cfg.Workers, Logger: o.Log})
	if err != nil {
		return nil, setup(err)
	}
	a.store.SetEnqueuer(a.queue.Enqueue)
	if a.forge, err = newForge(cfg, a.scrub, o.Log); err != nil {
		return nil, setup(err)
	}
	if err := a.assemble(); err != nil { //nolint:contextcheck // the sandbox's probe has a deadline of its own
		return nil, setup(err)
	}
	return a, nil
}

// assemble puts the parts together that work on runs.
func (a *App) assemble() error {
	kept, err := artifacts.New(artifacts.Options{Dir: filepath.Join(a.cfg.DataDir, "artifacts"), Scrub: a.scrubBytes})
	if err != nil {
		return fmt.Errorf("opening the artifacts: %w", err)
	}
	a.reporter = report.New(a.forge, a.store, a.cfg.Labels, a.scrub)
	tools, err := a.newTools()
	if err != nil {
		return err
	}
	a.sandbox = tools.runner.Name()
	if a.Moment != nil {
		tools.runner = telling{tools.runner, a.Moment}
	}
	reg, err := registry(a.phaseDeps(tools))
	if err != nil {
		return err
	}
	catalog, err := Catalog(reg, a.cfg.FlowsDir)
	if err != nil {
		return err
	}
	if err := usable(catalog); err != nil {
		return err
	}
	a.warnInvalid(catalog)
	eng := engine.New(engine.Options{
		Store: a.store, Registry: reg, Artifacts: kept, Clock: a.clock, Log: a.Log,
		Limits: a.limits,
		Scrub:  a.scrub.Scrub, Hooks: a.hooks(),
	})
	starts := handoff.Builder{Flows: phaseFlows{catalog}, Freezer: eng, Runs: a.store}
	breaks := breaker.New(breaker.Options{
		Forge: a.forge, Store: a.store, Label: a.cfg.Labels.Stop, Clock: a.clock, Window: a.cfg.Breaker.Window, Starts: a.cfg.Breaker.Starts,
	})
	a.worker = worker.New(worker.Options{
		Store: a.store, Forge: a.forge, Walker: eng, Next: starts, Names: a.cfg.Labels, Clock: a.clock, Log: a.Log,
		Reporter: a.reporter, Policy: a.cfg.Policy, Breaker: breaks,
		Owner: fmt.Sprintf("pid-%d", os.Getpid()), Lease: leaseTime, Ended: a.ended,
	})
	a.engine, a.trees = eng, tools.trees
	a.dispatch = dispatch.New(dispatch.Options{
		Forge: a.forge, Store: a.store, Starts: starts, Flows: runFlows{reg, eng}, Interrupter: a.worker, Clock: a.clock, Log: a.Log,
		Machine: labels.Machine{Names: a.cfg.Labels, Policy: a.cfg.Policy}, AllowedBots: a.cfg.AllowedBots,
		Breaker: breaks, Status: a.reporter, Comments: a.cfg.Breaker.Comments, LooksADay: a.cfg.Triage.Outsiders.PerDay,
	})
	return nil
}

// limits are a run's spend limits; a look at an outsider's issue has its own.
func (a *App) limits(run checkpoints.Run) checkpoints.Limits {
	l := a.cfg.Limits
	if handoff.IsLook(run) {
		l.Run = a.cfg.Triage.Outsiders.Budget
	}
	return l
}

// Sandbox names what confines repository commands.
func (a *App) Sandbox() string { return a.sandbox }

// Store is the open store, for commands that run the program themselves.
func (a *App) Store() checkpoints.Store { return a.store }

// Close closes the store of a program that is not running.
func (a *App) Close() error { return a.store.Close() }

func (a *App) scrubBytes(content []byte) []byte { return []byte(a.scrub.Known(string(content))) }

func secretsOf(cfg *config.Config) []secret.Value {
	all := append([]secret.Value{cfg.GitHub.Token}, cfg.GitHub.WebhookSecrets...)
	if cfg.GitHub.App != nil {
		all = append(all, cfg.GitHub.App.Key)
	}
	for _, b := range cfg.Models.Backends {
		all = append(all, b.Key)
	}
	return all
}
