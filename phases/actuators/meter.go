package actuators

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pipelinebot/pipelinebot/flows"
	"github.com/pipelinebot/pipelinebot/llm"
)

const (
	defaultMaxOutput = 8192
	// bytesPerToken is low on purpose: code and JSON have about 3 to 4 bytes
	// a token, and a reservation should not be too small.
	bytesPerToken = 3
	// settleTime bounds the settling of a reservation after the node's own
	// context has ended.
	settleTime = 10 * time.Second
)

// moneyLimited is an optional method of a Meter. The node sees only its own
// budget in Left; the run's, issue's and day's limits are the store's to know.
type moneyLimited interface {
	// MoneyLimited reports that some limit on money applies to this node.
	MoneyLimited() bool
}

// metered is a model whose calls are reserved before and settled after.
type metered struct {
	call  flows.Call
	model Model
}

func newMetered(c flows.Call, m Models, prompt string) (metered, error) {
	model, err := m.For(prompt)
	if err != nil {
		return metered{}, fmt.Errorf("choosing a model for %s: %w", prompt, err)
	}
	if model.Backend == nil {
		return metered{}, fmt.Errorf("choosing a model for %s: model %q has no backend", prompt, model.Name)
	}
	if model.MaxOutput <= 0 {
		model.MaxOutput = defaultMaxOutput
	}
	if !model.Price.Known && !model.AllowUnknownPrice && limited(c.Meter) {
		return metered{}, fmt.Errorf("%w: %q, used by %s; put its price in the configuration, or allow the unknown price there",
			ErrUnknownPrice, model.Name, prompt)
	}
	return metered{c, model}, nil
}

// limited fails closed: a meter that can't tell may have limits elsewhere.
func limited(m flows.Meter) bool {
	if l, ok := m.(moneyLimited); ok {
		return l.MoneyLimited()
	}
	return true
}

// complete is one paid call. On KindInvalidOutput the response holds what the
// model wrote.
func (m metered) complete(ctx context.Context, r llm.Request) (llm.Response, error) {
	r.Model, r.MaxTokens = m.model.Name, m.model.MaxOutput
	in := estimate(r)
	est := flows.Usage{
		InputTokens: in, OutputTokens: int64(r.MaxTokens), ModelCalls: 1,
		MicroUSD: m.model.Price.dearest(in, int64(r.MaxTokens)),
	}
	held, err := m.call.Meter.Reserve(ctx, est)
	if err != nil {
		return llm.Response{}, fmt.Errorf("reserving %d tokens for %s: %w", est.Tokens(), r.Prompt, err)
	}
	resp, err := m.model.Backend.Complete(ctx, r)
	after, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTime)
	defer cancel()
	if serr := held.Settle(after, m.used(resp, err, est)); serr != nil {
		return resp, errors.Join(fmt.Errorf("settling the cost of %s: %w", r.Prompt, serr), err)
	}
	if err != nil && ctx.Err() != nil {
		return resp, fmt.Errorf("asking %s: %w", r.Prompt, context.Cause(ctx))
	}
	return resp, mapped(err, r.Prompt)
}

// used is what a call is charged with. Where the vendor gave no figures, the
// reservation stands for an answer that came, and its input part for a call
// that broke after it was sent: too much is an inconvenience, too little a
// hole in the budget. A call that was turned down with a status cost nothing.
func (m metered) used(resp llm.Response, err error, est flows.Usage) flows.Usage {
	u := resp.Usage
	if err != nil {
		u = llm.Usage{}
		e, typed := llm.AsError(err)
		switch {
		case typed && e.Usage != (llm.Usage{}) && !e.Usage.Unknown:
			u = e.Usage
		case typed && e.Kind == llm.KindInvalidOutput:
			u.Unknown = true
		case !typed || e.Status == 0:
			u.Input = est.InputTokens
		}
	}
	if u.Unknown {
		return est
	}
	return flows.Usage{
		InputTokens: u.Input, OutputTokens: u.Output, CachedTokens: u.Cached,
		ModelCalls: 1, MicroUSD: m.model.Price.Cost(u),
	}
}

// tool asks the meter for one tool call.
func (m metered) tool(ctx context.Context) error {
	one := flows.Usage{ToolCalls: 1}
	held, err := m.call.Meter.Reserve(ctx, one)
	if err != nil {
		return fmt.Errorf("reserving a tool call: %w", err)
	}
	if err := held.Settle(ctx, one); err != nil {
		return fmt.Errorf("settling a tool call: %w", err)
	}
	return nil
}

// mapped turns a backend's error into the engine's terms. Errors that are not
// of llm's type stay as they are.
func mapped(err error, prompt string) error {
	if err == nil {
		return nil
	}
	e, ok := llm.AsError(err)
	if !ok {
		return fmt.Errorf("asking %s: %w", prompt, err)
	}
	if e.Retryable() {
		return &flows.Retry{Cause: string(e.Kind), After: e.RetryAfter, Err: fmt.Errorf("asking %s: %w", prompt, err)}
	}
	switch e.Kind {
	case llm.KindRefused:
		return fmt.Errorf("asking %s: %w: %w", prompt, ErrRefused, err)
	case llm.KindTooLong:
		return fmt.Errorf("asking %s: %w: %w", prompt, ErrTooLong, err)
	default:
		return fmt.Errorf("asking %s: %w", prompt, err)
	}
}

// estimate is a request's input in tokens, too high rather than too low.
func estimate(r llm.Request) int64 {
	n := len(r.System) + len(r.Schema) + len(r.Prompt) + 16
	for _, t := range r.Tools {
		n += len(t.Name) + len(t.Description) + len(t.Input) + 16
	}
	return int64(n/bytesPerToken+1) + estimateMessages(r.Messages)
}

func estimateMessages(ms []llm.Message) int64 {
	n := 0
	for _, m := range ms {
		n += len(m.Text) + 16
		for _, c := range m.Calls {
			n += len(c.Name) + len(c.Input) + len(c.ID) + 16
		}
		for _, r := range m.Results {
			n += len(r.Text) + len(r.ID) + 16
		}
	}
	return int64(n/bytesPerToken + 1)
}
