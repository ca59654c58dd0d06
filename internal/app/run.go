package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/pipelinebot/pipelinebot/checkpoints"
	"github.com/pipelinebot/pipelinebot/internal/clock"
	"github.com/pipelinebot/pipelinebot/internal/forge"
	"github.com/pipelinebot/pipelinebot/internal/intake"
	"github.com/pipelinebot/pipelinebot/internal/queue"
	"github.com/pipelinebot/pipelinebot/phases/status"
)

const (
	// leaseTime is how long a claim lasts without renewal.
	leaseTime = 15 * time.Second
	// sweepEvery is how often expired leases, past deadlines and lost tokens
	// are looked for; tokenAge is when a token counts as lost.
	sweepEvery = time.Second
	tokenAge   = 10 * time.Second
	// graceTime is how long nodes in flight may go on when a shutdown begins,
	// drainTime how long the whole may take.
	graceTime = 5 * time.Second
	drainTime = 20 * time.Second
)

// Run serves until ctx ends, then drains and closes the store.
func (a *App) Run(ctx context.Context) (err error) {
	defer func() { err = errors.Join(err, a.Close()) }()
	// The only daemon on the file: whatever was claimed is claimed no more.
	if err := a.store.ExpireAll(ctx); err != nil {
		return fmt.Errorf("freeing the runs of an earlier process: %w", err)
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", a.cfg.Listen)
	if err != nil {
		return setup(fmt.Errorf("listening on %s: %w: end what listens there, or set another server.listen", a.cfg.Listen, err))
	}
	in := a.newBoundary()
	if err := in.recall(ctx); err != nil {
		return errors.Join(err, listener.Close())
	}
	in.remember()
	server := &http.Server{
		Handler: a.routes(in), ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 15 * time.Second, IdleTimeout: 2 * time.Minute,
		MaxHeaderBytes: 64 << 10, ErrorLog: slog.NewLogLogger(a.Log.Handler(), slog.LevelDebug),
	}
	if err := a.queue.Start(ctx, a.handle); err != nil {
		return errors.Join(err, listener.Close())
	}
	background, stop := context.WithCancel(context.WithoutCancel(ctx))
	var group sync.WaitGroup
	failed := make(chan error, 2)
	group.Go(func() {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			failed <- fmt.Errorf("serving webhooks: %w", err)
		}
	})
	group.Go(func() { a.sweep(background) })
	group.Go(func() { a.live(background) })
	group.Go(func() { in.discover(background) })
	group.Go(func() { in.learn(background) })
	group.Go(func() {
		if err := in.poller.Run(background); err != nil && background.Err() == nil {
			failed <- fmt.Errorf("polling: %w", err)
		}
	})
	a.Log.InfoContext(ctx, "ready", "listen", listener.Addr().String(), "sandbox", a.sandbox,
		"webhooks", a.cfg.GitHub.Webhooks, "repositories", len(a.cfg.Repositories))
	if a.Ready != nil {
		a.Ready(listener.Addr().String())
	}
	select {
	case <-ctx.Done():
	case err = <-failed:
	}
	a.Log.InfoContext(background, "shutting down: no node begins, those in flight may end")
	err = errors.Join(err, a.shutdown(background, server))
	stop()
	group.Wait()
	return err
}

func (a *App) shutdown(ctx context.Context, server *http.Server) error {
	ctx, cancel := context.WithTimeout(ctx, drainTime)
	defer cancel()
	// No node begins; those in flight may end, then they are cut.
	a.engine.Drain()
	go func() {
		if clock.Sleep(ctx, a.clock, graceTime) == nil {
			a.worker.Drain()
		}
	}()
	return errors.Join(server.Shutdown(ctx), a.queue.Stop(ctx))
}

// handle is the queue's handler.
func (a *App) handle(ctx context.Context, t queue.Token) error {
	if mine, err := a.mine(ctx, t); err != nil || !mine {
		return err
	}
	var err error
	if t.Kind == queue.Event {
		err = a.dispatch.Handle(ctx, t.ID)
	} else {
		err = a.worker.Handle(ctx, t)
	}
	if err != nil && ctx.Err() == nil && a.Trouble != nil {
		a.Trouble(err)
	}
	return err
}

// mine reports that a token concerns the one issue that is worked on, if there
// is such a one; other work stays for the next daemon.
func (a *App) mine(ctx context.Context, t queue.Token) (bool, error) {
	if a.Only == nil {
		return true, nil
	}
	if t.Kind == queue.Run {
		run, err := a.store.Get(ctx, t.ID)
		return run.Issue == a.Only.Number && strings.EqualFold(run.Repo, a.Only.Repo.String()), err
	}
	row, err := a.store.Received(ctx, t.ID)
	if err != nil {
		return false, err
	}
	var ev forge.Event
	if err := json.Unmarshal(row.Body, &ev); err != nil {
		return false, nil //nolint:nilerr // not ours to judge
	}
	return strings.EqualFold(ev.Issue.String(), a.Only.String()), nil
}

// sweep looks for work that nobody holds: at once, then every second.
func (a *App) sweep(ctx context.Context) {
	for {
		if _, err := a.store.Sweep(ctx, tokenAge); err != nil && ctx.Err() == nil {
			a.Log.ErrorContext(ctx, "sweep failed", "error", err)
		}
		if clock.Sleep(ctx, a.clock, sweepEvery) != nil {
			return
		}
	}
}

func (a *App) routes(in *boundary) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte("ok\n"))
	})
	if a.cfg.GitHub.Webhooks {
		mux.Handle("/webhook", intake.Handler(in.handler()))
	}
	return mux
}

// ownStatus reports that a comment is the bot's own status comment, whose many
// edits nobody needs to decide on. When in doubt it is not.
func (a *App) ownStatus(c forge.Comment) bool {
	if !strings.HasPrefix(c.Body, status.Marker) {
		return false
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	self, err := a.forge.Self(ctx)
	return err == nil && self.ID != 0 && self.ID == c.Author.ID
}

// interest is the issues to watch although they may have no label: those with
// an open run or a stop.
func (a *App) interest(ctx context.Context) ([]forge.Ref, error) {
	runs, err := a.store.List(ctx, checkpoints.Filter{Limit: 100_000, Statuses: open()})
	if err != nil {
		return nil, fmt.Errorf("looking for open runs: %w", err)
	}
	stops, err := a.store.ListStops(ctx)
	if err != nil {
		return nil, fmt.Errorf("looking for stops: %w", err)
	}
	seen := map[string]bool{}
	var refs []forge.Ref
	add := func(key string) {
		ref, err := forge.ParseRef(key)
		if err == nil && !seen[key] {
			seen[key] = true
			refs = append(refs, ref)
		}
	}
	for _, r := range runs {
		add(fmt.Sprintf("%s#%d", r.Repo, r.Issue))
	}
	for _, s := range stops {
		add(s.Scope)
	}
	return refs, nil
}
