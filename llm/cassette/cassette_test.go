package cassette_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/pipelinebot/pipelinebot/llm"
	"github.com/pipelinebot/pipelinebot/llm/cassette"
	"github.com/pipelinebot/pipelinebot/llm/llmtest"
)

const token = "tok-1234567890"

func scrub(s string) string { return strings.ReplaceAll(s, token, "****") }

// rich is a request with everything that is hard to store.
func rich() llm.Request {
	return llm.Request{
		Model: "m", Prompt: "plan/draft@2", MaxTokens: 9, System: "Be good.\n  indented \ttab\n\nend ",
		Messages: []llm.Message{
			{Role: llm.User, Text: "yes\n2026-01-02\n# not a comment: " + token + "\x07 bell \xff broken"},
			{Role: llm.Assistant, Opaque: json.RawMessage(`["signed"]`), Calls: []llm.ToolCall{
				{ID: "1", Name: "t", Input: json.RawMessage(`{"b":1,"a":[1.5,1e3,12345678901234567890,null,true,"2026-01-02","yes","<<"],"<<":{"1":""}}`)},
				{ID: "2", Name: "t", Input: json.RawMessage(`{"cut`)},
			}},
			{Role: llm.User, Results: []llm.ToolResult{{ID: "1", Text: "- a\n- b"}, {ID: "2", Text: "no", Error: true}}},
		},
		Tools:  []llm.Tool{{Name: "t", Description: "d", Input: json.RawMessage(`{"type":"object"}`)}},
		Schema: json.RawMessage(`{"type":"object","properties":{"x":{"type":"number"}}}`),
	}
}

func TestRoundTrip(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "c.yaml")
	answers := []llmtest.Turn{
		llmtest.JSON(map[string]any{"x": 1.5, "token": token}),
		llmtest.Respond(llm.Response{Stop: llm.ToolUse, Opaque: json.RawMessage(`[]`), Calls: []llm.ToolCall{
			{ID: "1", Name: "t", Input: json.RawMessage(`{"p":"a.go"}`)}, {ID: "2", Name: "t", Input: json.RawMessage(`{"p":`)},
		}, Usage: llm.Usage{Input: 5, Output: 6, Cached: 2, CacheWrite: 1}}),
		llmtest.JSON(map[string]any{"x": "text"}),
		llmtest.Fail(&llm.Error{Kind: llm.KindRateLimited, Status: 429, RetryAfter: 17 * time.Second, Err: errors.New("slow " + token)}),
	}
	rec := cassette.Record(path, llmtest.NewScript(t, map[string][]llmtest.Turn{"plan/draft": answers}), scrub)
	type answer struct {
		Resp llm.Response
		Text string // of the error
		Err  llm.Error
	}
	ask := func(b llm.Backend) []answer {
		var out []answer
		for range answers { // the same request four times, answered in order
			resp, err := b.Complete(t.Context(), rich())
			a := answer{Resp: resp}
			if e, ok := llm.AsError(err); ok {
				a.Text, a.Err = scrub(err.Error()), *e
			}
			out = append(out, a)
		}
		return out
	}
	want := ask(rec)
	if err := rec.Save(); err != nil {
		t.Fatal(err)
	}
	if len(rec.Unused()) != 0 {
		t.Error("a recording has nothing unused")
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(b), token) || strings.Contains(string(b), "signed") {
		t.Errorf("the file holds what it must not:\n%s", b)
	}

	play, err := cassette.Replay(path, scrub)
	if err != nil {
		t.Fatalf("%v\n%s", err, b)
	}
	if n := len(play.Unused()); n != 4 {
		t.Errorf("%d unused before, want 4", n)
	}
	got := ask(play)
	// What was scrubbed stays scrubbed.
	want[0].Resp.JSON = json.RawMessage(`{"token":"****","x":1.5}`)
	want[0].Resp.Text = `{"token":"****","x":1.5}`
	opts := cmp.Options{cmpopts.IgnoreFields(llm.Response{}, "Opaque"), cmpopts.IgnoreFields(llm.Error{}, "Err")}
	if d := cmp.Diff(want, got, opts); d != "" {
		t.Errorf("replayed (-recorded +got):\n%s", d)
	}
	if n := len(play.Unused()); n != 0 {
		t.Errorf("%d unused after", n)
	}
	_, err = play.Complete(t.Context(), rich())
	if !errors.Is(err, cassette.ErrMiss) || !strings.Contains(err.Error(), "recorded 4 times") {
		t.Errorf("a fifth time: %v", err)
	}
}

func TestMiss(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "c.yaml")
	ask := func(prompt, text string) llm.Request {
		return llm.Request{Model: "m", Prompt: prompt, MaxTokens: 9, System: "s", Messages: []llm.Message{{Role: llm.User, Text: "first\n" + text + "\nlast"}}}
	}
	rec := cassette.Record(path, llmtest.NewScript(t, map[string][]llmtest.Turn{
		"a/b": {llmtest.Say("1"), llmtest.Say("2")}, "c/d": {llmtest.Say("3")},
	}), nil)
	for _, r := range []llm.Request{ask("a/b@1", "red"), ask("a/b@1", "green\nmore"), ask("c/d@1", "blue")} {
		if _, err := rec.Complete(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	if err := rec.Save(); err != nil {
		t.Fatal(err)
	}
	play, err := cassette.Replay(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	_, err = play.Complete(t.Context(), ask("a/b@1", "blue"))
	e, ok := llm.AsError(err)
	if !ok || e.Kind != llm.KindInvalid || !errors.Is(err, cassette.ErrMiss) {
		t.Fatalf("error = %v", err)
	}
	for _, want := range []string{"nearest is number 1", "-         red", "+         blue", "  "} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in:\n%v", want, err)
		}
	}
	if err := play.Save(); err == nil {
		t.Error("a replay was saved")
	}
	if got := play.Unused(); len(got) != 3 || !strings.HasPrefix(got[2], "number 3, c/d@1, ") {
		t.Errorf("unused = %q", got)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := play.Complete(ctx, ask("c/d@1", "blue")); !errors.Is(err, context.Canceled) || len(play.Unused()) != 3 {
		t.Errorf("cancelled: %v", err)
	}
}

const small = `version: 1
interactions:
  - request:
      model: m
      prompt: a/b@1
      max_tokens: 1
      system: s
      messages:
        - role: user
          text: hello
    response:
      stop: end_turn
      text: hi
      usage: {}
`

func load(t *testing.T, text string) error {
	t.Helper()
	path := filepath.Join(t.TempDir(), "c.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := cassette.Replay(path, nil)
	return err
}

func TestStrict(t *testing.T) {
	t.Parallel()
	if err := load(t, small); err != nil {
		t.Fatalf("the good one: %v", err)
	}
	for want, text := range map[string]string{
		"empty":                 "",
		"version 2":             strings.Replace(small, "version: 1", "version: 2", 1),
		"line 15":               small + "      colour: red\n",
		"more than one":         small + "---\nversion: 1\n",
		"does not belong":       strings.Replace(small, "- request", "- key: 00\n    request", 1),
		"stop reason \"bored\"": strings.Replace(small, "end_turn", "bored", 1),
		"must have a response":  strings.SplitAfter(small, "text: hello\n")[0],
		"kind \"odd\"":          strings.SplitAfter(small, "text: hello\n")[0] + "    error: {kind: odd, message: x}\n",
		"has no request":        "version: 1\ninteractions:\n  - response: {stop: end_turn, usage: {}}\n",
		"put it in quotes":      small + "      json: {at: 2026-01-02}\n",
		"no number":             small + "      json: {x: .inf}\n",
		"there twice":           small + "      json: {x: 1, x: 2}\n",
		"aliases":               small + "      json: {x: &a 1, y: *a}\n",
	} {
		if err := load(t, text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error = %v, want %q in it", err, want)
		}
	}
	if _, err := cassette.Replay(filepath.Join(t.TempDir(), "missing"), nil); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("missing file: %v", err)
	}
}
