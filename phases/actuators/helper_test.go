package actuators_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/pipelinebot/pipelinebot/flows"
	"github.com/pipelinebot/pipelinebot/internal/command"
	"github.com/pipelinebot/pipelinebot/llm"
	"github.com/pipelinebot/pipelinebot/llm/llmtest"
	"github.com/pipelinebot/pipelinebot/phases/actuators"
)

// meter is a flows.Meter that records, and refuses from a number of
// reservations on.
type meter struct {
	mu       sync.Mutex
	most     int // reservations allowed; 0 is all
	reserved []flows.Usage
	settled  []flows.Usage
	ctxErrs  []error
}

func (m *meter) Reserve(_ context.Context, est flows.Usage) (flows.Reservation, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.most > 0 && len(m.reserved) >= m.most {
		return nil, fmt.Errorf("the run's tokens: %w", flows.ErrBudget)
	}
	m.reserved = append(m.reserved, est)
	return m, nil
}

func (m *meter) Settle(ctx context.Context, used flows.Usage) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.settled = append(m.settled, used)
	m.ctxErrs = append(m.ctxErrs, ctx.Err())
	return nil
}

func (m *meter) Left() flows.Usage { return flows.Usage{MicroUSD: -1} }

// spent sums what was settled.
func (m *meter) spent() flows.Usage {
	m.mu.Lock()
	defer m.mu.Unlock()
	var sum flows.Usage
	for _, u := range m.settled {
		sum = sum.Add(u)
	}
	return sum
}

// open is a meter that says there is no limit on money.
type open struct{ meter }

func (*open) MoneyLimited() bool { return false }

func call(m flows.Meter) flows.Call {
	return flows.Call{Node: "n", Meter: m, Beat: func(string) {}, Log: slog.New(slog.DiscardHandler)}
}

// price makes an input token cost 3 and an output token 15 micro-dollars.
func price() actuators.Price {
	return actuators.Price{InputMicroUSD: 3_000_000, CachedMicroUSD: 300_000, OutputMicroUSD: 15_000_000, Known: true}
}

func one(b llm.Backend) actuators.OneModel {
	return actuators.OneModel{Backend: b, Name: "m-1", Price: price(), MaxOutput: 500}
}

func script(t *testing.T, turns ...llmtest.Turn) *llmtest.Script {
	t.Helper()
	return llmtest.NewScript(t, map[string][]llmtest.Turn{"test/do": turns})
}

func prompt() actuators.Prompt {
	return actuators.Prompt{ID: "test/do@1", System: "You do it.", Sections: []actuators.Section{
		{Title: "Issue", Text: "Do it <!-- and more -->now", Untrusted: true}, {Title: "Task", Text: "Do."},
	}}
}

// tree writes files and returns their folder.
func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		p := filepath.Join(dir, filepath.FromSlash(name))
		if err := errors.Join(os.MkdirAll(filepath.Dir(p), 0o755), os.WriteFile(p, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func read(t *testing.T, dir, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(name)))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// runner is a command.Runner by a function.
type runner func(ctx context.Context, s command.Spec) (command.Result, error)

func (r runner) Run(ctx context.Context, s command.Spec) (command.Result, error) { return r(ctx, s) }
func (runner) Name() string                                                      { return "test" }
