// Package openai is the model backend for every server that speaks OpenAI's
// Chat Completions: the vendor itself, gateways, and local servers.
//
// It must not know prompts, phases or money; it may import llm, llm/driver,
// internal/secret and go-openai, which nothing else imports.
package openai

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/sashabaranov/go-openai"

	"github.com/pipelinebot/pipelinebot/internal/secret"
	"github.com/pipelinebot/pipelinebot/llm"
	"github.com/pipelinebot/pipelinebot/llm/driver"
)

// DefaultBaseURL is the vendor's own server.
const DefaultBaseURL = "https://api.openai.com/v1"

// JSONMode says how an answer is held to a schema.
type JSONMode string

// The modes. The answer is checked against the schema in each of them.
const (
	// Schema is response_format json_schema.
	Schema JSONMode = "schema"
	// Tool forces the call of a function whose arguments are the answer.
	Tool JSONMode = "tool"
	// Object is response_format json_object, with the schema in words.
	Object JSONMode = "object"
)

// Options make a Backend.
type Options struct {
	// BaseURL is the address with "/v1"; "" is DefaultBaseURL.
	BaseURL string
	// Key is the API key; local servers often want none.
	Key secret.Value
	// JSONMode defaults to Schema.
	JSONMode JSONMode
	// Effort is reasoning_effort; "" leaves it to the model. Some models take
	// tools over this API only with "none".
	Effort string
	// Idle is how long the server may be silent, which here is the whole time
	// until it answers; 0 is driver.DefaultIdle.
	Idle time.Duration
	// Total bounds one call; 0 is driver.DefaultTotal.
	Total time.Duration
	// CAFile is a PEM file of certificate authorities trusted beside the
	// system's; "" for none.
	CAFile string
}

// Backend implements llm.Backend.
type Backend struct {
	client *openai.Client
	opts   Options
}

// New checks the options and returns a Backend. It opens no connection.
func New(o Options) (*Backend, error) {
	if o.BaseURL == "" {
		o.BaseURL = DefaultBaseURL
	}
	u, err := url.Parse(o.BaseURL)
	if err != nil || u.Host == "" || (u.Scheme != "https" && u.Scheme != "http") {
		return nil, fmt.Errorf("openai: base URL %q is not an http(s) URL", o.BaseURL)
	}
	if o.BaseURL == DefaultBaseURL && o.Key.Empty() {
		return nil, errors.New("openai: an API key is required for " + DefaultBaseURL)
	}
	switch o.JSONMode {
	case "":
		o.JSONMode = Schema
	case Schema, Tool, Object:
	default:
		return nil, fmt.Errorf("openai: json mode %q is not one of schema, tool, object", o.JSONMode)
	}
	if o.Total <= 0 {
		o.Total = driver.DefaultTotal
	}
	client, err := driver.Client(o.Idle, o.CAFile)
	if err != nil {
		return nil, fmt.Errorf("openai: %w", err)
	}
	cfg := openai.DefaultConfig(o.Key.Reveal())
	cfg.BaseURL = strings.TrimRight(o.BaseURL, "/")
	cfg.HTTPClient = client
	return &Backend{client: openai.NewClientWithConfig(cfg), opts: o}, nil
}

// Complete implements llm.Backend.
func (b *Backend) Complete(ctx context.Context, r llm.Request) (llm.Response, error) {
	req, err := b.request(r)
	if err != nil {
		return llm.Response{}, &llm.Error{Kind: llm.KindInvalid, Err: err}
	}
	call, cancel := context.WithTimeout(ctx, b.opts.Total)
	defer cancel()
	call, heard := driver.Listen(call)
	resp, err := b.client.CreateChatCompletion(call, req)
	if err != nil {
		if ctx.Err() != nil {
			return llm.Response{}, fmt.Errorf("asking %s: %w", r.Model, context.Cause(ctx))
		}
		return llm.Response{}, failure(err, heard, r)
	}
	return b.response(r, resp)
}
