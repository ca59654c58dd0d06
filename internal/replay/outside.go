package replay

import (
	"context"

	"github.com/pipelinebot/pipelinebot/internal/mockworld/scenario"
)

// Outside stands for a program that somebody else starts: it is told of
// nothing but by Ready, and its books are not read.
type Outside struct {
	// Webhook is where the program takes webhooks, "" when it polls.
	Webhook string
	// Ready is called with what the program must be told.
	Ready func(b scenario.Bot)
}

// Start implements scenario.Launcher.
func (o Outside) Start(ctx context.Context, b scenario.Bot) (scenario.Process, error) {
	o.Ready(b)
	return outside{o.Webhook, ctx}, nil
}

//nolint:containedctx // its end is the only end that an outside program has here
type outside struct {
	webhook string
	ctx     context.Context
}

func (outside) Kill()      {}
func (outside) Terminate() {}

// Wait implements scenario.Process: an outside program is gone as soon as it
// is asked to go, and before that only when the world ends.
func (o outside) Wait(ctx context.Context) error {
	select {
	case <-o.ctx.Done():
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (o outside) WebhookURL() string { return o.webhook }

func (outside) Runs(context.Context) ([]scenario.RunView, error) { return nil, nil }
