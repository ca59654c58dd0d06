// Package anthropic is the model backend for the Anthropic Messages API, on
// the vendor's library, streaming so that silence is noticed.
//
// It must not know prompts, phases or money; it may import llm, llm/driver,
// internal/secret and the vendor's library, which nothing else imports.
package anthropic

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/anthropics/anthropic-sdk-go/v2"
	"github.com/anthropics/anthropic-sdk-go/v2/option"

	"github.com/pipelinebot/pipelinebot/internal/secret"
	"github.com/pipelinebot/pipelinebot/llm"
	"github.com/pipelinebot/pipelinebot/llm/driver"
)

// Structured says how an answer is held to a schema.
type Structured string

// The ways to structured output.
const (
	// Schema is the vendor's structured output; all current models have it.
	Schema Structured = "schema"
	// Tool forces the call of a tool whose arguments are the answer, for
	// models before Claude 4.5. Models that always think refuse it.
	Tool Structured = "tool"
)

// Options make a Backend.
type Options struct {
	// Key is the API key; required.
	Key secret.Value
	// BaseURL is the address without "/v1"; "" is the vendor's.
	BaseURL string
	// Structured defaults to Schema.
	Structured Structured
	// Effort is the vendor's word for how much to think ("low" … "max"); ""
	// is the model's default.
	Effort string
	// Idle is how long a connection may be silent; 0 is driver.DefaultIdle.
	Idle time.Duration
	// Total bounds one call; 0 is driver.DefaultTotal.
	Total time.Duration
	// NoStream asks for the answer in one piece, for proxies that can't
	// stream; Idle then bounds the whole wait.
	NoStream bool
	// CAFile is a PEM file of certificate authorities trusted beside the
	// system's; "" for none.
	CAFile string
}

// Backend implements llm.Backend.
type Backend struct {
	messages anthropic.MessageService
	opts     Options
}

// New checks the options and returns a Backend. It opens no connection.
func New(o Options) (*Backend, error) {
	if o.Key.Empty() {
		return nil, errors.New("anthropic: an API key is required")
	}
	switch o.Structured {
	case "":
		o.Structured = Schema
	case Schema, Tool:
	default:
		return nil, fmt.Errorf("anthropic: structured output %q is not one of schema, tool", o.Structured)
	}
	if o.Total <= 0 {
		o.Total = driver.DefaultTotal
	}
	client, err := driver.Client(o.Idle, o.CAFile)
	if err != nil {
		return nil, fmt.Errorf("anthropic: %w", err)
	}
	// The library would otherwise take keys, addresses and headers from the
	// environment, and try again by itself.
	with := []option.RequestOption{
		option.WithoutEnvironmentDefaults(), option.WithEnvironmentProduction(),
		option.WithHTTPClient(client), option.WithMaxRetries(0), option.WithAPIKey(o.Key.Reveal()),
		option.WithRequestTimeout(o.Total),
	}
	if o.BaseURL != "" {
		u, err := url.Parse(o.BaseURL)
		if err != nil || u.Host == "" || (u.Scheme != "https" && u.Scheme != "http") {
			return nil, fmt.Errorf("anthropic: base URL %q is not an http(s) URL", o.BaseURL)
		}
		with = append(with, option.WithBaseURL(o.BaseURL))
	}
	return &Backend{messages: anthropic.NewMessageService(with...), opts: o}, nil
}

// Complete implements llm.Backend.
func (b *Backend) Complete(ctx context.Context, r llm.Request) (llm.Response, error) {
	params, err := b.params(r)
	if err != nil {
		return llm.Response{}, &llm.Error{Kind: llm.KindInvalid, Err: err}
	}
	call, cancel := context.WithTimeout(ctx, b.opts.Total)
	defer cancel()
	call, heard := driver.Listen(call)
	var got received
	if b.opts.NoStream {
		got, err = b.whole(call, params)
	} else {
		got, err = b.stream(call, params)
	}
	if err != nil {
		if ctx.Err() != nil {
			return llm.Response{}, fmt.Errorf("asking %s: %w", r.Model, context.Cause(ctx))
		}
		return llm.Response{}, failure(err, heard, usage(got.message.Usage))
	}
	return b.response(r, got)
}

// received is a complete answer, with the tool arguments as they were
// written: the library replaces those that are no JSON.
type received struct {
	message anthropic.Message
	inputs  map[int64]string
}

func (b *Backend) whole(ctx context.Context, p anthropic.MessageNewParams) (received, error) {
	m, err := b.messages.New(ctx, p)
	if err != nil {
		return received{}, err
	}
	return received{message: *m}, nil
}

// errNoEnd means that a stream ended before the answer did.
var errNoEnd = errors.New("the answer broke off")

func (b *Backend) stream(ctx context.Context, p anthropic.MessageNewParams) (received, error) {
	got := received{inputs: map[int64]string{}}
	s := b.messages.NewStreaming(ctx, p)
	ended := false
	for s.Next() {
		e := s.Current()
		if e.Type == "content_block_delta" && e.Delta.Type == "input_json_delta" {
			got.inputs[e.Index] += e.Delta.PartialJSON
		}
		if err := got.message.Accumulate(e); err != nil {
			return got, errors.Join(fmt.Errorf("%w: %w", errNoEnd, err), s.Close())
		}
		ended = ended || e.Type == "message_stop"
	}
	if err := s.Err(); err != nil {
		// Nothing is open after a failed request, and the stream's own error
		// says more than that of closing it.
		if ctx.Err() == nil && got.message.ID != "" {
			_ = s.Close()
		}
		return got, err
	}
	if err := s.Close(); err != nil {
		return got, fmt.Errorf("closing the stream: %w", err)
	}
	if !ended {
		return got, errNoEnd
	}
	return got, nil
}
