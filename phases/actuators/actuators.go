// Package actuators is how a node uses a model: Ask for one structured answer,
// Work for a tool loop in a directory. Both are metered before they are paid
// for, validate what came back, and treat everything a model or a repository
// says as data.
//
// It must not know phases, GitHub, vendors or stores; it may import flows,
// llm, internal/command and a JSON Schema library.
package actuators

import (
	"errors"

	"github.com/pipelinebot/pipelinebot/flows"
	"github.com/pipelinebot/pipelinebot/llm"
)

// Price is what a model costs, in millionths of a US dollar per million
// tokens (so that 1 token costs the figure divided by a million).
type Price struct {
	InputMicroUSD  int64
	CachedMicroUSD int64
	OutputMicroUSD int64
	// CacheWriteMicroUSD is the price of input written to the vendor's cache;
	// 0 means that it costs what other input costs.
	CacheWriteMicroUSD int64
	// LongAbove is the input of one request, in tokens, above which the whole
	// request costs LongInputPercent and LongOutputPercent of the figures; 0
	// is never.
	LongAbove                           int64
	LongInputPercent, LongOutputPercent int64
	// Known is false when nobody knows the price; the figures mean nothing
	// then.
	Known bool
}

// Cost is what usage costs, rounded up; 0 when the price is not known.
func (p Price) Cost(u llm.Usage) int64 {
	if !p.Known {
		return 0
	}
	write := p.CacheWriteMicroUSD
	if write == 0 {
		write = p.InputMicroUSD
	}
	plain := max(u.Input-u.Cached-u.CacheWrite, 0)
	in := plain*p.InputMicroUSD + u.Cached*p.CachedMicroUSD + u.CacheWrite*write
	out := u.Output * p.OutputMicroUSD
	if p.LongAbove > 0 && u.Input > p.LongAbove {
		in, out = in/100*p.LongInputPercent, out/100*p.LongOutputPercent
	}
	return (in + out + 999_999) / 1_000_000
}

// dearest is the price of a call of which nothing is known to be cached, for
// reservations.
func (p Price) dearest(input, output int64) int64 {
	if p.CacheWriteMicroUSD > p.InputMicroUSD {
		p.InputMicroUSD = p.CacheWriteMicroUSD
	}
	return p.Cost(llm.Usage{Input: input, Output: output})
}

// Model is a backend with the name, the price and the output bound to use.
type Model struct {
	Backend llm.Backend
	// Name is the vendor's name of the model.
	Name  string
	Price Price
	// MaxOutput is the most output tokens of one call; 0 means 8192.
	MaxOutput int
	// AllowUnknownPrice lets a model without a known price be used, counted
	// as free. Otherwise such a model is refused wherever money is limited.
	AllowUnknownPrice bool
}

// Models chooses the model for a prompt.
type Models interface {
	// For returns the model for a prompt id such as "triage/classify@1"; the
	// phase is the part before the slash.
	For(prompt string) (Model, error)
}

// OneModel is a Models that always gives the same one.
type OneModel Model

// For implements Models.
func (m OneModel) For(string) (Model, error) { return Model(m), nil }

// Errors that a caller may decide by; test with errors.Is. Budget errors wrap
// flows.ErrBudget, errors that may go away are a *flows.Retry.
var (
	// ErrStuck means that the tool loop did not advance: the same calls again
	// and again, or no turn left. Its text says which.
	ErrStuck = errors.New("actuators: the model is stuck")
	// ErrInvalidAnswer means that the answer did not fit its schema, twice.
	ErrInvalidAnswer = errors.New("actuators: the model gave no valid answer")
	// ErrRefused means that the model declined.
	ErrRefused = errors.New("actuators: the model refused")
	// ErrTooLong means that the request does not fit the model's context.
	ErrTooLong = errors.New("actuators: the request is too long for the model")
	// ErrUnknownPrice means that money is limited and the price not known.
	ErrUnknownPrice = errors.New("actuators: the price of the model is unknown")
)

// Code is a stable word for an error of this package, for a Result's reason
// or a Stop: "stuck", "invalid-answer", "refused", "context-too-long",
// "unknown-price", "budget", "rate-limited", "overloaded", "transient",
// "model-access" (the key is not accepted) or "model-error"; "" for nil.
func Code(err error) string {
	var retry *flows.Retry
	var call *llm.Error
	switch {
	case err == nil:
		return ""
	case errors.Is(err, ErrStuck):
		return "stuck"
	case errors.Is(err, ErrInvalidAnswer):
		return "invalid-answer"
	case errors.Is(err, ErrRefused):
		return "refused"
	case errors.Is(err, ErrTooLong):
		return "context-too-long"
	case errors.Is(err, ErrUnknownPrice):
		return "unknown-price"
	case errors.Is(err, flows.ErrBudget):
		return "budget"
	case errors.As(err, &retry):
		return retry.Cause
	case errors.As(err, &call) && call.Kind == llm.KindAuth:
		return "model-access"
	default:
		return "model-error"
	}
}
