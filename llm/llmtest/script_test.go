package llmtest_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/pipelinebot/pipelinebot/llm"
	"github.com/pipelinebot/pipelinebot/llm/llmtest"
)

// spy is a testing.TB that notes failures instead of failing.
type spy struct {
	testing.TB
	failed  []string
	cleanup []func()
}

func (s *spy) Error(args ...any)            { s.failed = append(s.failed, fmt.Sprint(args...)) }
func (s *spy) Errorf(f string, args ...any) { s.failed = append(s.failed, fmt.Sprintf(f, args...)) }
func (s *spy) Cleanup(f func())             { s.cleanup = append(s.cleanup, f) }
func (s *spy) Helper()                      {}

func TestScript(t *testing.T) {
	t.Parallel()
	tb := &spy{TB: t}
	s := llmtest.NewScript(tb, map[string][]llmtest.Turn{
		"a/b@1": {llmtest.Say("versioned")}, "a/b": {llmtest.Call("f", map[string]int{"x": 1})}, "c/d": {llmtest.Say("never asked")},
	})
	r := llmtest.Ask("x")
	r.Prompt = "a/b@1"
	if got, err := s.Complete(t.Context(), r); err != nil || got.Text != "versioned" || got.Model != llmtest.Model {
		t.Errorf("first = %+v, %v", got, err)
	}
	if got, err := s.Complete(t.Context(), r); err != nil || len(got.Calls) != 1 || string(got.Calls[0].Input) != `{"x":1}` || got.Stop != llm.ToolUse {
		t.Errorf("second = %+v, %v", got, err)
	}
	if len(tb.failed) != 0 {
		t.Errorf("failed early: %q", tb.failed)
	}
	if _, err := s.Complete(t.Context(), r); err == nil {
		t.Error("a miss is no error")
	}
	for _, f := range tb.cleanup {
		f()
	}
	if len(tb.failed) != 2 || !strings.Contains(tb.failed[0], "request 3 of a/b@1") || !strings.Contains(tb.failed[1], "1 turns left for c/d") {
		t.Errorf("failures = %q", tb.failed)
	}
	if n := len(s.Asked()); n != 3 {
		t.Errorf("%d asked", n)
	}
}

func TestScriptChecksAnswers(t *testing.T) {
	t.Parallel()
	s := llmtest.NewScript(t, map[string][]llmtest.Turn{"suite/ask": {llmtest.JSON(1)}})
	r := llmtest.Ask("x")
	r.Schema = json.RawMessage(`{"type":"object"}`)
	got, err := s.Complete(t.Context(), r)
	if e, ok := llm.AsError(err); !ok || e.Kind != llm.KindInvalidOutput || got.Text != "1" || got.JSON != nil {
		t.Errorf("got %+v, %v", got, err)
	}
}
