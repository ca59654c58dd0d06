package actuators_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pipelinebot/pipelinebot/flows"
	"github.com/pipelinebot/pipelinebot/llm"
	"github.com/pipelinebot/pipelinebot/llm/llmtest"
	"github.com/pipelinebot/pipelinebot/phases/actuators"
)

type verdict struct {
	Kind  string   `json:"kind" enum:"bug,feature" jsonschema:"what it is"`
	Files []string `json:"files"`
	Note  string   `json:"note,omitempty"`
}

// Check makes a rule that the schema can't say.
func (v verdict) Check() error {
	if v.Note == "forbidden" {
		return errors.New("note must not be forbidden")
	}
	return nil
}

func TestAsk(t *testing.T) {
	t.Parallel()
	good := verdict{Kind: "bug", Files: []string{"a.go"}}
	m := &meter{}
	s := script(t, llmtest.JSON(good))
	got, err := actuators.Ask[verdict](t.Context(), call(m), one(s), prompt())
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(good, got); d != "" {
		t.Errorf("answer (-want +got):\n%s", d)
	}
	r := s.Asked()[0]
	if r.Model != "m-1" || r.MaxTokens != 500 || r.Prompt != "test/do@1" {
		t.Errorf("request = %+v", r)
	}
	if !strings.HasPrefix(r.System, "You do it.") || strings.Contains(r.System, "now") {
		t.Errorf("the system text must be static: %q", r.System)
	}
	if text := r.Messages[0].Text; !strings.Contains(text, "<data name=\"Issue\"") || strings.Contains(text, "and more") {
		t.Errorf("first message = %q", text)
	}
	want := flows.Usage{InputTokens: 100, OutputTokens: 10, ModelCalls: 1, MicroUSD: 100*3 + 10*15}
	if d := cmp.Diff([]flows.Usage{want}, m.settled); d != "" {
		t.Errorf("settled (-want +got):\n%s", d)
	}
	if e := m.reserved[0]; e.OutputTokens != 500 || e.InputTokens < int64(len(r.System))/4 || e.MicroUSD < e.InputTokens*3+500*15 {
		t.Errorf("reserved = %+v", e)
	}
}

func TestAskRepairs(t *testing.T) {
	t.Parallel()
	good := verdict{Kind: "bug", Files: []string{}}
	for name, bad := range map[string]llmtest.Turn{
		"prose":        llmtest.Say("It is a bug."),
		"unknown word": llmtest.JSON(map[string]any{"kind": "riddle", "files": []string{}}),
		"null list":    llmtest.JSON(map[string]any{"kind": "bug", "files": nil}),
		"own rule":     llmtest.JSON(verdict{Kind: "bug", Files: []string{}, Note: "forbidden"}),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := &meter{}
			s := script(t, bad, llmtest.JSON(good))
			got, err := actuators.Ask[verdict](t.Context(), call(m), one(s), prompt())
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(good, got); d != "" {
				t.Errorf("answer (-want +got):\n%s", d)
			}
			second := s.Asked()[1].Messages
			if len(second) != 3 || second[1].Role != llm.Assistant || !strings.Contains(second[2].Text, "can't be used") {
				t.Errorf("repair turn = %+v", second)
			}
			if n := m.spent().ModelCalls; n != 2 {
				t.Errorf("%d calls paid, want 2", n)
			}
		})
		t.Run(name+" twice", func(t *testing.T) {
			t.Parallel()
			_, err := actuators.Ask[verdict](t.Context(), call(&meter{}), one(script(t, bad, bad)), prompt())
			if !errors.Is(err, actuators.ErrInvalidAnswer) || actuators.Code(err) != "invalid-answer" {
				t.Errorf("error = %v", err)
			}
		})
	}
}

func TestAskFailures(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		err  error
		code string
		// charged says whether anything was.
		charged bool
	}{
		{"rate limited", &llm.Error{Kind: llm.KindRateLimited, Status: 429, RetryAfter: 9 * time.Second}, "rate-limited", false},
		{"overloaded", &llm.Error{Kind: llm.KindOverloaded, Status: 529}, "overloaded", false},
		{"cut", &llm.Error{Kind: llm.KindTransient, Err: errors.New("reset")}, "transient", true},
		{"refused", &llm.Error{Kind: llm.KindRefused, Status: 200, Usage: llm.Usage{Input: 10, Output: 2}}, "refused", true},
		{"too long", &llm.Error{Kind: llm.KindTooLong, Status: 400}, "context-too-long", false},
		{"key", &llm.Error{Kind: llm.KindAuth, Status: 401}, "model-access", false},
		{"request", &llm.Error{Kind: llm.KindInvalid, Status: 400}, "model-error", false},
		{"untyped", errors.New("boom"), "model-error", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			m := &meter{}
			_, err := actuators.Ask[verdict](t.Context(), call(m), one(script(t, llmtest.Fail(c.err))), prompt())
			if got := actuators.Code(err); got != c.code {
				t.Errorf("code = %q, want %q (%v)", got, c.code, err)
			}
			var retry *flows.Retry
			want, typed := llm.AsError(c.err)
			if errors.As(err, &retry) != (typed && want.Retryable()) {
				t.Errorf("error %v: retry is wrong", err)
			}
			if retry != nil && retry.After != want.RetryAfter {
				t.Errorf("after %s, want %s", retry.After, want.RetryAfter)
			}
			if len(m.settled) != 1 || (m.settled[0].MicroUSD > 0) != c.charged {
				t.Errorf("settled = %+v, charged must be %t", m.settled, c.charged)
			}
		})
	}
}

func TestAskBudget(t *testing.T) {
	t.Parallel()
	s := script(t, llmtest.JSON(map[string]any{}))
	_, err := actuators.Ask[verdict](t.Context(), call(&meter{most: 1}), one(s), prompt())
	if !errors.Is(err, flows.ErrBudget) || actuators.Code(err) != "budget" {
		t.Errorf("error = %v", err)
	}
	if n := len(s.Asked()); n != 1 {
		t.Errorf("%d calls were made, want 1: the second was not paid for", n)
	}
}

// TestAskCancelled: a reservation is settled though the context is over.
func TestAskCancelled(t *testing.T) {
	t.Parallel()
	m := &meter{}
	why := errors.New("stop label")
	ctx, cancel := context.WithCancelCause(t.Context())
	started := make(chan struct{})
	go func() { <-started; cancel(why) }()
	_, err := actuators.Ask[verdict](ctx, call(m), one(script(t, llmtest.Block(started))), prompt())
	if !errors.Is(err, why) {
		t.Errorf("error = %v, want the cause", err)
	}
	if len(m.settled) != 1 || m.ctxErrs[0] != nil {
		t.Errorf("settled %v with context errors %v", m.settled, m.ctxErrs)
	}
}

// Covers: AR20.
func TestUnknownUsage(t *testing.T) {
	t.Parallel()
	m := &meter{}
	s := script(t, llmtest.Respond(llm.Response{Text: `{"kind":"bug","files":[]}`, Usage: llm.Usage{Unknown: true}}))
	if _, err := actuators.Ask[verdict](t.Context(), call(m), one(s), prompt()); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(m.reserved, m.settled); d != "" {
		t.Errorf("without figures the reservation stands (-reserved +settled):\n%s", d)
	}
}

func TestUnknownPrice(t *testing.T) {
	t.Parallel()
	answer := llmtest.JSON(verdict{Kind: "bug", Files: []string{}})
	for _, c := range []struct {
		name  string
		m     flows.Meter
		allow bool
		ok    bool
	}{
		{"may be limited", &meter{}, false, false},
		{"allowed", &meter{}, true, true},
		{"not limited", &open{}, false, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var turns []llmtest.Turn
			if c.ok {
				turns = []llmtest.Turn{answer}
			}
			m := one(script(t, turns...))
			m.Price, m.AllowUnknownPrice = actuators.Price{}, c.allow
			_, err := actuators.Ask[verdict](t.Context(), call(c.m), m, prompt())
			if (err == nil) != c.ok || (!c.ok && !errors.Is(err, actuators.ErrUnknownPrice)) {
				t.Errorf("error = %v", err)
			}
		})
	}
}

type noModels struct{}

func (noModels) For(p string) (actuators.Model, error) {
	return actuators.Model{}, fmt.Errorf("no model for %s", p)
}

func TestBadUse(t *testing.T) {
	t.Parallel()
	if _, err := actuators.Ask[[]string](t.Context(), call(&meter{}), one(nil), prompt()); err == nil {
		t.Error("a list was accepted as an answer")
	}
	if _, err := actuators.Ask[verdict](t.Context(), call(&meter{}), noModels{}, prompt()); err == nil {
		t.Error("no model, no error")
	}
	if _, err := actuators.Ask[verdict](t.Context(), call(&meter{}), one(nil), prompt()); err == nil {
		t.Error("no backend, no error")
	}
}

func TestCost(t *testing.T) {
	t.Parallel()
	p := actuators.Price{InputMicroUSD: 2_000_000, CachedMicroUSD: 200_000, CacheWriteMicroUSD: 2_500_000, OutputMicroUSD: 10_000_000,
		LongAbove: 1000, LongInputPercent: 200, LongOutputPercent: 150, Known: true}
	for _, c := range []struct {
		u    llm.Usage
		want int64
	}{
		{llm.Usage{}, 0},
		{llm.Usage{Input: 1}, 2},
		{llm.Usage{Input: 100, Cached: 60, CacheWrite: 20, Output: 5}, 20*2 + 12 + 50 + 50},
		{llm.Usage{Input: 1, Cached: 1}, 1}, // rounded up
		{llm.Usage{Input: 2000, Output: 100}, 8000 + 1500},
	} {
		if got := p.Cost(c.u); got != c.want {
			t.Errorf("cost of %+v = %d, want %d", c.u, got, c.want)
		}
	}
	if got := (actuators.Price{InputMicroUSD: 5}).Cost(llm.Usage{Input: 1e6}); got != 0 {
		t.Errorf("an unknown price costs %d", got)
	}
}

func TestPrices(t *testing.T) {
	t.Parallel()
	p := actuators.DefaultPrices()
	for model, in := range map[string]int64{
		"claude-opus-5-5": 4_000_000, "claude-opus-5": 5_000_000, "claude-haiku-4-5-20251001": 1_000_000, "claude-haiku-5-5": 100_000,
		"gpt-6-sol-2026-09-22": 2_000_000, "claude-sonnet-4-6-latest": 3_000_000,
	} {
		if got := p.Of(model); !got.Known || got.InputMicroUSD != in {
			t.Errorf("%s: %+v, want %d", model, got, in)
		}
	}
	for _, model := range []string{"", "gpt-5.5-pro", "claude-opus-5-6", "claude-opus", "llama-3", "-20251001"} {
		if got := p.Of(model); got.Known {
			t.Errorf("%s has a price: %+v", model, got)
		}
	}
	own := p.With(actuators.Prices{"llama-3": {Known: true}, "gpt-6-sol": {InputMicroUSD: 1, Known: true}})
	if !own.Of("llama-3").Known || own.Of("gpt-6-sol").InputMicroUSD != 1 || p.Of("llama-3").Known {
		t.Error("With did not put the prices over a copy")
	}
	for name, price := range p {
		if price.InputMicroUSD <= 0 || price.CachedMicroUSD <= 0 || price.OutputMicroUSD <= price.InputMicroUSD || price.CachedMicroUSD >= price.InputMicroUSD {
			t.Errorf("%s: implausible %+v", name, price)
		}
	}
}
