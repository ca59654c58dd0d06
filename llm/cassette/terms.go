package cassette

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/pipelinebot/pipelinebot/llm"
)

// request is llm.Request in the file. JSON values are kept as YAML values, so
// that people can read them; what only the vendor understands is left out.
type request struct {
	Model     string    `yaml:"model"`
	Prompt    string    `yaml:"prompt"`
	MaxTokens int       `yaml:"max_tokens"`
	System    string    `yaml:"system"`
	Messages  []message `yaml:"messages" json:",omitempty"`
	Tools     []tool    `yaml:"tools,omitempty" json:",omitempty"`
	Schema    *value    `yaml:"schema,omitempty"`
}

type message struct {
	Role    string   `yaml:"role"`
	Text    string   `yaml:"text,omitempty"`
	Calls   []call   `yaml:"calls,omitempty" json:",omitempty"`
	Results []result `yaml:"results,omitempty" json:",omitempty"`
}

type tool struct {
	Name        string `yaml:"name"`
	Description string `yaml:"description,omitempty"`
	Input       *value `yaml:"input,omitempty"`
}

type call struct {
	ID    string `yaml:"id"`
	Name  string `yaml:"name"`
	Input *value `yaml:"input,omitempty"`
}

type result struct {
	ID    string `yaml:"id"`
	Text  string `yaml:"text,omitempty"`
	Error bool   `yaml:"error,omitempty"`
}

type usage struct {
	Input      int64 `yaml:"input,omitempty"`
	Output     int64 `yaml:"output,omitempty"`
	Cached     int64 `yaml:"cached,omitempty"`
	CacheWrite int64 `yaml:"cache_write,omitempty"`
	Unknown    bool  `yaml:"unknown,omitempty"`
}

type response struct {
	Model string `yaml:"model,omitempty"`
	Stop  string `yaml:"stop"`
	Text  string `yaml:"text,omitempty"`
	Calls []call `yaml:"calls,omitempty"`
	JSON  *value `yaml:"json,omitempty"`
	Usage usage  `yaml:"usage"`
}

type failure struct {
	Kind       string        `yaml:"kind"`
	Status     int           `yaml:"status,omitempty"`
	RetryAfter time.Duration `yaml:"retry_after,omitempty"`
	Message    string        `yaml:"message"`
	Usage      usage         `yaml:"usage,omitempty"`
	// Wrote is what came with the error (llm.KindInvalidOutput).
	Wrote *response `yaml:"wrote,omitempty"`
}

func newRequest(r llm.Request, scrub func(string) string) request {
	q := request{
		Model: r.Model, Prompt: r.Prompt, MaxTokens: r.MaxTokens, System: scrub(r.System), Schema: newValue(r.Schema, scrub),
	}
	for _, m := range r.Messages {
		out := message{Role: string(m.Role), Text: scrub(m.Text), Calls: newCalls(m.Calls, scrub)}
		for _, r := range m.Results {
			out.Results = append(out.Results, result{r.ID, scrub(r.Text), r.Error})
		}
		q.Messages = append(q.Messages, out)
	}
	for _, t := range r.Tools {
		q.Tools = append(q.Tools, tool{t.Name, scrub(t.Description), newValue(t.Input, scrub)})
	}
	return q
}

func newCalls(calls []llm.ToolCall, scrub func(string) string) []call {
	var out []call
	for _, c := range calls {
		out = append(out, call{c.ID, c.Name, newValue(c.Input, scrub)})
	}
	return out
}

func newResponse(r llm.Response, scrub func(string) string) *response {
	return &response{
		Model: r.Model, Stop: string(r.Stop), Text: scrub(r.Text), Calls: newCalls(r.Calls, scrub), JSON: newValue(r.JSON, scrub), Usage: usage(r.Usage),
	}
}

func newFailure(e *llm.Error, r llm.Response, scrub func(string) string) *failure {
	f := &failure{Kind: string(e.Kind), Status: e.Status, RetryAfter: e.RetryAfter, Usage: usage(e.Usage)}
	if e.Err != nil {
		f.Message = scrub(e.Err.Error())
	}
	if r.Text != "" || len(r.Calls) > 0 || r.JSON != nil {
		f.Wrote = newResponse(r, scrub)
	}
	return f
}

// back is the response as a backend gives it.
func (r *response) back() (llm.Response, error) {
	out := llm.Response{Model: r.Model, Stop: llm.StopReason(r.Stop), Text: r.Text, JSON: r.JSON.raw(), Usage: llm.Usage(r.Usage)}
	for _, c := range r.Calls {
		out.Calls = append(out.Calls, llm.ToolCall{ID: c.ID, Name: c.Name, Input: c.Input.raw()})
	}
	return out, nil
}

func (f *failure) back() (llm.Response, error) {
	var out llm.Response
	if f.Wrote != nil {
		out, _ = f.Wrote.back()
	}
	return out, &llm.Error{
		Kind: llm.Kind(f.Kind), Status: f.Status, RetryAfter: f.RetryAfter, Usage: llm.Usage(f.Usage), Err: errors.New(f.Message),
	}
}

// key is the hash of all that the request says. It is taken of JSON, whose
// form does not depend on a YAML library's version.
func (q request) key() (string, error) {
	b, err := json.Marshal(q)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:]), nil
}

// lines are the request as people read it.
func (q request) lines() []string {
	b, err := yaml.Marshal(q)
	if err != nil {
		return []string{q.Prompt}
	}
	return strings.Split(strings.TrimSuffix(string(b), "\n"), "\n")
}
