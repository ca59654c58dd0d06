// Package llm is the contract of a model backend: one request, one response,
// structured output, tool calls, usage and typed errors.
//
// It must not know vendors, prompts, phases or money, and imports only the
// standard library. Drivers live in llm/{anthropic,openai}, what they share in
// llm/driver; record and replay in llm/cassette; the suite they pass in
// llm/llmtest.
package llm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// Backend completes one request. Implementations are safe for concurrent use,
// do not retry by themselves (the caller decides, by Error.Kind), and return
// the cause of ctx when it ends. With KindInvalidOutput the Response holds, in
// Text, what the model wrote, so that it can be shown its mistake.
type Backend interface {
	Complete(ctx context.Context, r Request) (Response, error)
}

// Request is one call of a model.
type Request struct {
	// Model is the vendor's model name.
	Model string `json:"model"`
	// Prompt names the versioned prompt, e.g. "triage/classify@1". It opens
	// the system text on the wire ("[prompt triage/classify@1]"), so that
	// transcripts and cassettes can be told apart by it.
	Prompt string `json:"prompt"`
	// System is the static part, identical over a run's calls, so that
	// vendors can cache it.
	System   string    `json:"system"`
	Messages []Message `json:"messages"`
	Tools    []Tool    `json:"tools,omitempty"`
	// Schema, when set, demands a JSON object of this JSON Schema as the
	// final answer, in Response.JSON. Drivers use the vendor's structured
	// output and validate what came back: a mismatch is KindInvalidOutput.
	Schema json.RawMessage `json:"schema,omitempty"`
	// MaxTokens bounds the output; required.
	MaxTokens int `json:"max_tokens"`
}

// Role says who speaks.
type Role string

// The roles.
const (
	User      Role = "user"
	Assistant Role = "assistant"
)

// Message is one turn. A turn has text, tool calls (assistant) or tool
// results (user), or several of these.
type Message struct {
	Role    Role         `json:"role"`
	Text    string       `json:"text,omitempty"`
	Calls   []ToolCall   `json:"calls,omitempty"`
	Results []ToolResult `json:"results,omitempty"`
	// Opaque is Response.Opaque of the same turn, to be sent back unchanged.
	// Some vendors bind it to all that was said before: drop it from every
	// message of a conversation whose earlier part was changed.
	Opaque json.RawMessage `json:"opaque,omitempty"`
}

// Tool is something the model may ask for.
type Tool struct {
	Name        string `json:"name"`
	Description string `json:"description"`
	// Input is the JSON Schema of its arguments.
	Input json.RawMessage `json:"input"`
}

// ToolCall is a model's wish to use a tool.
type ToolCall struct {
	ID   string `json:"id"`
	Name string `json:"name"`
	// Input is what the model wrote; it may be invalid JSON, which the tool
	// loop answers with an error result.
	Input json.RawMessage `json:"input"`
}

// ToolResult answers a ToolCall.
type ToolResult struct {
	ID    string `json:"id"`
	Text  string `json:"text"`
	Error bool   `json:"error,omitempty"`
}

// StopReason says why the model stopped.
type StopReason string

// The stop reasons.
const (
	EndTurn   StopReason = "end_turn"
	ToolUse   StopReason = "tool_use"
	MaxTokens StopReason = "max_tokens"
)

// Response is what came back.
type Response struct {
	Text  string     `json:"text,omitempty"`
	Calls []ToolCall `json:"calls,omitempty"`
	// JSON is the structured answer when Request.Schema was set and the model
	// gave its final answer; it is valid under the schema.
	JSON  json.RawMessage `json:"json,omitempty"`
	Stop  StopReason      `json:"stop"`
	Usage Usage           `json:"usage"`
	// Model is the model that answered, as the vendor names it.
	Model string `json:"model"`
	// Opaque is what only the vendor understands of this turn (signed
	// reasoning); see Message.Opaque. Nil when there is nothing of the kind.
	Opaque json.RawMessage `json:"opaque,omitempty"`
}

// Usage is what the vendor says it counted.
type Usage struct {
	// Input includes Cached (read from cache) and CacheWrite.
	Input      int64 `json:"input"`
	Output     int64 `json:"output"`
	Cached     int64 `json:"cached,omitempty"`
	CacheWrite int64 `json:"cache_write,omitempty"`
	// Unknown says that the vendor gave no usage; it is never guessed.
	Unknown bool `json:"unknown,omitempty"`
}

// Kind is the reason of an Error, from status codes and the vendor's typed
// fields, never from words in a message.
type Kind string

// The kinds. KindAuth covers everything that the account must put right: key,
// permission, credit, spend limit.
const (
	KindRateLimited   Kind = "rate-limited"
	KindOverloaded    Kind = "overloaded"
	KindTransient     Kind = "transient" // network, 5xx, cut stream
	KindTooLong       Kind = "context-too-long"
	KindRefused       Kind = "refused"
	KindInvalidOutput Kind = "invalid-output"
	KindAuth          Kind = "auth"
	KindInvalid       Kind = "invalid-request"
)

// Error is what Complete returns when it fails.
type Error struct {
	Kind Kind
	// RetryAfter is the vendor's wish, 0 when it gave none.
	RetryAfter time.Duration
	// Status is the HTTP status, 0 when there was none.
	Status int
	// Usage is what the failed call cost, if known.
	Usage Usage
	Err   error
}

// Error implements error.
func (e *Error) Error() string { return fmt.Sprintf("model call: %s: %v", e.Kind, e.Err) }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Retryable reports that the same request may succeed later.
func (e *Error) Retryable() bool {
	return e.Kind == KindRateLimited || e.Kind == KindOverloaded || e.Kind == KindTransient
}

// AsError finds the Error in err's chain.
func AsError(err error) (*Error, bool) {
	var e *Error
	ok := errors.As(err, &e)
	return e, ok
}
