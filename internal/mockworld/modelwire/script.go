package modelwire

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Duration is a time.Duration written as "10m" in YAML and JSON.
type Duration time.Duration

// D is the standard library's type.
func (d Duration) D() time.Duration { return time.Duration(d) }

// UnmarshalText implements encoding.TextUnmarshaler.
func (d *Duration) UnmarshalText(b []byte) error {
	v, err := time.ParseDuration(string(b))
	if err != nil {
		return fmt.Errorf("duration %q: want a number with a unit, such as 300ms or 10m", b)
	}
	if v < 0 {
		return fmt.Errorf("duration %q: must not be negative", b)
	}
	*d = Duration(v)
	return nil
}

// MarshalText implements encoding.TextMarshaler.
func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

// Script is what the model says, by prompt id. A key is a prompt's id with its
// version ("triage/classify@1") or without ("triage/classify"); the one with
// the version is preferred.
type Script map[string][]Reply

// Reply is one answer. It says exactly one of: json, text, calls, status.
// (Text may go with calls, as models talk while they call tools, and with
// status, where it is the error's message.)
type Reply struct {
	// JSON is the final structured answer. It reaches the wire as the request
	// asks for it: as JSON text when it demands a schema, as a call of the
	// tool that it forces, or as a call of the tool "finish" in a tool loop.
	// It must be valid under the demanded schema, unless OffSchema is set.
	JSON any `yaml:"json,omitempty" json:"json,omitempty"`
	// Text is plain prose.
	Text string `yaml:"text,omitempty" json:"text,omitempty"`
	// Calls are the tools that the model wants to use.
	Calls []Call `yaml:"calls,omitempty" json:"calls,omitempty"`
	// Usage is what the vendor says it counted; without it a quarter of the
	// bytes is counted each way.
	Usage *Usage `yaml:"usage,omitempty" json:"usage,omitempty"`
	// Delay holds the request until it has passed or the client gives up.
	Delay Duration `yaml:"delay,omitempty" json:"delay,omitempty"`
	// Status answers an error: 400 means "prompt too long", 401, 403, 429,
	// 500, 503, 529 what they mean everywhere.
	Status int `yaml:"status,omitempty" json:"status,omitempty"`
	// RetryAfter is sent with Status, in whole seconds.
	RetryAfter Duration `yaml:"retry_after,omitempty" json:"retry_after,omitempty"`
	// Cut breaks the connection in the middle of the answer.
	Cut bool `yaml:"cut,omitempty" json:"cut,omitempty"`
	// Malformed makes the arguments of the calls (or the JSON text) invalid.
	Malformed bool `yaml:"malformed,omitempty" json:"malformed,omitempty"`
	// OffSchema allows JSON or a tool's input that its schema refuses.
	OffSchema bool `yaml:"off_schema,omitempty" json:"off_schema,omitempty"`
	// Truncated says that the answer stopped at max_tokens.
	Truncated bool `yaml:"truncated,omitempty" json:"truncated,omitempty"`
	// IfLastContains is a claim about the request: the last message (its text
	// and tool results) must contain it. Otherwise it is a violation.
	IfLastContains string `yaml:"if_last_contains,omitempty" json:"if_last_contains,omitempty"`
	// IfContains is the same claim about the whole request, system text
	// included; Unless is its opposite.
	IfContains string `yaml:"if_contains,omitempty" json:"if_contains,omitempty"`
	Unless     string `yaml:"unless_contains,omitempty" json:"unless_contains,omitempty"`
	// Times is how often the reply is given before the next one; 0 means 1.
	Times int `yaml:"times,omitempty" json:"times,omitempty"`
	// Repeat gives the reply for ever; only the last of a prompt may say so.
	Repeat bool `yaml:"repeat,omitempty" json:"repeat,omitempty"`
}

// Call is one use of a tool.
type Call struct {
	Name  string         `yaml:"name" json:"name"`
	Input map[string]any `yaml:"input,omitempty" json:"input,omitempty"`
}

// Usage is a count of tokens. Input includes Cached.
type Usage struct {
	Input  int64 `yaml:"input" json:"input"`
	Output int64 `yaml:"output" json:"output"`
	Cached int64 `yaml:"cached,omitempty" json:"cached,omitempty"`
}

// Problem is a reply that cannot be played.
type Problem struct {
	Prompt string
	// Reply is its place, from 0; -1 means the prompt itself.
	Reply int
	Text  string
}

// Problems are all of them, by prompt.
func (s Script) Problems() []Problem {
	var out []Problem
	for _, prompt := range slices.Sorted(maps.Keys(s)) {
		if len(s[prompt]) == 0 {
			out = append(out, Problem{prompt, -1, "no replies"})
		}
		for i, r := range s[prompt] {
			for _, p := range r.problems(i == len(s[prompt])-1) {
				out = append(out, Problem{prompt, i, p})
			}
		}
	}
	return out
}

// Check is Problems as one error.
func (s Script) Check() error {
	var errs []error
	for _, p := range s.Problems() {
		where := "model script of " + p.Prompt
		if p.Reply >= 0 {
			where += fmt.Sprintf(", reply %d", p.Reply+1)
		}
		errs = append(errs, fmt.Errorf("%s: %s", where, p.Text))
	}
	return errors.Join(errs...)
}

func (r Reply) problems(last bool) []string {
	var out []string
	said := 0
	for _, has := range []bool{r.JSON != nil, len(r.Calls) > 0, r.Status != 0} {
		if has {
			said++
		}
	}
	switch {
	case said > 1:
		out = append(out, "json, calls and status exclude each other")
	case said == 0 && r.Text == "":
		out = append(out, "says nothing: give json, text, calls or status")
	case r.JSON != nil && r.Text != "":
		out = append(out, "json and text exclude each other")
	}
	if r.Status != 0 && (r.Status < 400 || r.Status > 599) {
		out = append(out, fmt.Sprintf("status %d: want an error, 400 to 599", r.Status))
	}
	if r.RetryAfter != 0 && r.Status == 0 {
		out = append(out, "retry_after goes with status")
	}
	if r.Repeat && !last {
		out = append(out, "repeat: true is for the last reply; use times for others")
	}
	if r.Times < 0 || (r.Times > 0 && r.Repeat) {
		out = append(out, "times must be positive and excludes repeat")
	}
	if _, err := json.Marshal(r.JSON); err != nil {
		out = append(out, "json: "+err.Error())
	}
	for _, c := range r.Calls {
		if c.Name == "" {
			out = append(out, "a call without a name")
		}
		if _, err := json.Marshal(c.Input); err != nil {
			out = append(out, "input of "+c.Name+": "+err.Error())
		}
	}
	return out
}

// take finds and uses up the next reply, and opens the request's record.
func (s *Server) take(q asked) (Reply, int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	bare, _, _ := strings.Cut(q.prompt, "@")
	key := q.prompt
	if _, ok := s.script[key]; !ok {
		key = bare
	}
	if g, ok := s.repeated(key, bare, q); ok {
		s.records = append(s.records, Record{
			Vendor: q.vendor, Prompt: bare, Nth: g.nth, Model: q.model, Turn: q.turns + 1, Hash: q.hash, Again: true, At: s.clock.Now(),
		})
		s.given = append(s.given, g)
		s.bump()
		return g.reply, len(s.records) - 1, nil
	}
	s.calls[bare]++
	s.records = append(s.records, Record{
		Vendor: q.vendor, Prompt: bare, Nth: s.calls[bare], Model: q.model,
		Turn: q.turns + 1, Hash: q.hash, At: s.clock.Now(),
	})
	index := len(s.records) - 1
	r, ok := nth(s.script[key], s.taken[key])
	if !ok {
		s.close(index, func(rec *Record) { rec.Status = 400 })
		return Reply{}, 0, fmt.Errorf("request %d of prompt %s (turn %d): the script has no reply left for it (it holds %d); its last message begins: %s",
			s.calls[bare], q.prompt, q.turns+1, len(s.script[key]), clip(q.last, 300))
	}
	for _, claim := range []struct {
		bad  bool
		text string
	}{
		{r.IfLastContains != "" && !strings.Contains(q.last, r.IfLastContains), fmt.Sprintf("the last message must contain %q", r.IfLastContains)},
		{r.IfContains != "" && !strings.Contains(q.all, r.IfContains), fmt.Sprintf("the request must contain %q", r.IfContains)},
		{r.Unless != "" && strings.Contains(q.all, r.Unless), fmt.Sprintf("the request must not contain %q", r.Unless)},
	} {
		if claim.bad {
			s.close(index, func(rec *Record) { rec.Status = 400 })
			return Reply{}, 0, fmt.Errorf("request %d of prompt %s: %s; its last message is: %s", s.calls[bare], q.prompt, claim.text, clip(q.last, 2000))
		}
	}
	s.taken[key]++
	s.given = append(s.given, given{key: key, hash: q.hash, nth: s.calls[bare], turn: q.turns + 1, reply: r})
	s.bump()
	return r, index, nil
}

// nth is the reply after used ones, Times and Repeat considered.
func nth(list []Reply, used int) (Reply, bool) {
	for _, r := range list {
		if r.Repeat || used < max(r.Times, 1) {
			return r, true
		}
		used -= max(r.Times, 1)
	}
	return Reply{}, false
}

func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + "…"
}
