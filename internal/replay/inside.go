package replay

import (
	"context"
	"errors"
	"log/slog"
	"sync"

	"github.com/pipelinebot/pipelinebot/internal/app"
	"github.com/pipelinebot/pipelinebot/internal/config"
	"github.com/pipelinebot/pipelinebot/internal/mockworld/scenario"
)

// Inside runs the program within this process, for a view of what it does. A
// kill is then only a hard stop.
type Inside struct {
	Log      *slog.Logger
	Observer app.Observer
	// Started is told the sandbox once the program is built; may be nil.
	Started func(sandbox string)
}

// Start implements scenario.Launcher.
func (i Inside) Start(ctx context.Context, b scenario.Bot) (scenario.Process, error) {
	path, secrets, err := write(b)
	if err != nil {
		return nil, err
	}
	cfg, err := config.Load(path, func(name string) (string, bool) { v, ok := secrets[name]; return v, ok })
	if err != nil {
		return nil, err
	}
	ready := make(chan string, 1)
	a, err := app.New(ctx, cfg, app.Options{
		Log: i.Log, Observer: i.Observer, Moment: Tell(b.MomentsURL), Ready: func(addr string) { ready <- addr },
	})
	if err != nil {
		return nil, err
	}
	if i.Started != nil {
		i.Started(a.Sandbox())
	}
	runCtx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	p := &inside{cfg: cfg, cancel: cancel, gone: make(chan struct{})}
	go func() {
		p.err = a.Run(runCtx)
		close(p.gone)
	}()
	select {
	case p.addr = <-ready:
		return p, nil
	case <-p.gone:
		cancel()
		return nil, errors.Join(errors.New("the program ended before it was ready"), p.err)
	}
}

type inside struct {
	cfg    *config.Config
	addr   string
	cancel context.CancelFunc
	gone   chan struct{}
	err    error
	once   sync.Once
}

// Kill implements scenario.Process.
func (p *inside) Kill() { p.Terminate() }

// Terminate implements scenario.Process.
func (p *inside) Terminate() { p.once.Do(p.cancel) }

// Wait implements scenario.Process.
func (p *inside) Wait(ctx context.Context) error {
	select {
	case <-p.gone:
		return p.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// WebhookURL implements scenario.Process.
func (p *inside) WebhookURL() string {
	if !p.cfg.GitHub.Webhooks {
		return ""
	}
	return "http://" + p.addr + "/webhook"
}

// Runs implements scenario.Process.
func (p *inside) Runs(ctx context.Context) ([]scenario.RunView, error) { return readRuns(ctx, p.cfg) }
