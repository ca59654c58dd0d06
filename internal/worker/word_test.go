package worker_test

import (
	"context"
	"errors"
	"testing"

	"github.com/pipelinebot/pipelinebot/checkpoints"
	"github.com/pipelinebot/pipelinebot/flows"
	"github.com/pipelinebot/pipelinebot/internal/forge"
	"github.com/pipelinebot/pipelinebot/internal/handoff"
	"github.com/pipelinebot/pipelinebot/labels"
)

// Outside effects stop when the person on whose word a run works may not have
// such work done any more; who is not known, or is an operator, stops nothing.
//
// A later phase works on the word of the one before it.
func TestWord(t *testing.T) {
	t.Parallel()
	ada := handoff.Voucher{ID: 5, Login: "ada"}
	for name, tt := range map[string]struct {
		v     *handoff.Voucher
		may   forge.Permission
		fails error
		halts bool
		err   bool
	}{
		"still may":         {v: &ada, may: forge.Write},
		"may more":          {v: &ada, may: forge.Admin},
		"may read":          {v: &ada, may: forge.Read, halts: true, err: true},
		"left":              {v: &ada, fails: notFound(), halts: true, err: true},
		"account deleted":   {v: &handoff.Voucher{Login: "ghost"}, may: forge.Admin, halts: true, err: true},
		"cannot be asked":   {v: &ada, may: forge.Write, fails: transient(), err: true},
		"operator":          {v: &handoff.Voucher{Operator: true}},
		"nobody knows whom": {},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.w.Policy = labels.DefaultPolicy()
			w.forge.set(func(i *forge.Issue) { i.Labels = []string{labels.Default().Plan} })
			w.forge.may = map[string]forge.Permission{"ada": tt.may, "ghost": tt.may}
			w.forge.fail["permission"] = tt.fails
			run := w.start(labels.Plan)
			if tt.v != nil {
				if err := handoff.Vouch(t.Context(), w.store, run.ID, *tt.v); err != nil {
					t.Fatal(err)
				}
			}
			next := run
			next.ID, next.Trigger = "later", "after/"+run.ID
			for _, r := range []checkpoints.Run{run, next} {
				err := w.w.CheckEffect(t.Context(), r)
				if (err != nil) != tt.err || errors.Is(err, flows.ErrHalted) != tt.halts {
					t.Errorf("run %s: %v", r.ID, err)
				}
			}
		})
	}
}

type tripping struct{ tripped []string }

func (b *tripping) Check(_ context.Context, _ forge.Ref, p labels.Phase) (string, error) {
	return "the " + string(p) + " phase leads nowhere", nil
}

func (b *tripping) Trip(_ context.Context, r forge.Ref, source, why string) error {
	b.tripped = append(b.tripped, r.String()+" "+source+": "+why)
	return nil
}

// A phase that would be started again to no end is not: the run ends here, and
// the issue is stopped once, though the process dies in between.
func TestLeadsNowhere(t *testing.T) {
	t.Parallel()
	n := labels.Default()
	w := newWorld(t, n.Review)
	b := &tripping{}
	w.w.Breaker = b
	w.ends("changes_requested")
	run := w.start(labels.Review)
	if err := w.handle(run.ID); err != nil {
		t.Fatal(err)
	}
	w.want(run.ID, checkpoints.Failed, "error", "breaker")
	if w.open() != "" || len(b.tripped) != 1 || !labels.Has(w.forge.issue.Labels, n.NeedsHuman) {
		t.Errorf("open %q, tripped %q, labels %v", w.open(), b.tripped, w.forge.issue.Labels)
	}
}
