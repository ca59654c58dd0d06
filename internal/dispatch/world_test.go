package dispatch_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/pipelinebot/pipelinebot/checkpoints"
	"github.com/pipelinebot/pipelinebot/checkpoints/memory"
	"github.com/pipelinebot/pipelinebot/internal/breaker"
	"github.com/pipelinebot/pipelinebot/internal/clock"
	"github.com/pipelinebot/pipelinebot/internal/dispatch"
	"github.com/pipelinebot/pipelinebot/internal/forge"
	"github.com/pipelinebot/pipelinebot/internal/handoff"
	"github.com/pipelinebot/pipelinebot/labels"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func ref(number int) forge.Ref {
	return forge.Ref{Repo: forge.Repo{Owner: "acme", Name: "widgets"}, Number: number}
}

func bot() forge.Actor { return forge.Actor{ID: 1, Login: "pipe[bot]", Bot: true} }
func ada() forge.Actor { return forge.Actor{ID: 5, Login: "ada"} }
func rob() forge.Actor { return forge.Actor{ID: 6, Login: "rob"} }

// fakeForge is a forge as data. fail makes a method fail, by its name.
type fakeForge struct {
	dispatch.Forge

	mu       sync.Mutex
	issues   map[int]forge.Issue
	lost     bool // the repository is out of reach
	log      map[int][]forge.IssueEvent
	may      map[string]forge.Permission
	comments map[int][]forge.Comment
	fail     map[string]error
	calls    []string // writes
	asked    []string // logins whose permission was asked
}

func (f *fakeForge) err(method string) error { return f.fail[method] }

func (f *fakeForge) Self(context.Context) (forge.Actor, error) { return bot(), nil }

func (f *fakeForge) Repository(_ context.Context, r forge.Repo) (forge.Repository, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.lost {
		return forge.Repository{}, &forge.Error{Kind: forge.KindNotFound, Op: "reading " + r.String(), Status: 404}
	}
	return forge.Repository{Repo: r}, nil
}

func (f *fakeForge) Issue(_ context.Context, r forge.Ref) (forge.Issue, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.err("Issue"); err != nil {
		return forge.Issue{}, err
	}
	i, ok := f.issues[r.Number]
	if !ok || f.lost {
		return i, &forge.Error{Kind: forge.KindNotFound, Op: "reading " + r.String(), Status: 404}
	}
	i.Labels = slices.Clone(i.Labels)
	return i, nil
}

func (f *fakeForge) Events(_ context.Context, r forge.Ref) ([]forge.IssueEvent, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.log[r.Number]), f.err("Events")
}

func (f *fakeForge) Permission(_ context.Context, _ forge.Repo, login string) (forge.Permission, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked = append(f.asked, login)
	return f.may[login], f.err("Permission")
}

func (f *fakeForge) AddLabel(_ context.Context, r forge.Ref, name string) error {
	return f.change(r, "+"+name, func(i *forge.Issue) {
		if !labels.Has(i.Labels, name) {
			i.Labels = append(i.Labels, name)
		}
	})
}

func (f *fakeForge) RemoveLabel(_ context.Context, r forge.Ref, name string) error {
	return f.change(r, "-"+name, func(i *forge.Issue) {
		i.Labels = slices.DeleteFunc(i.Labels, func(l string) bool { return labels.Same(l, name) })
	})
}

func (f *fakeForge) change(r forge.Ref, call string, do func(*forge.Issue)) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls = append(f.calls, fmt.Sprintf("#%d %s", r.Number, call))
	if err := f.err("Label"); err != nil {
		return err
	}
	i := f.issues[r.Number]
	i.Labels = slices.Clone(i.Labels)
	do(&i)
	f.issues[r.Number] = i
	return nil
}

func (f *fakeForge) Comments(_ context.Context, r forge.Ref) ([]forge.Comment, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.comments[r.Number]), f.err("Comments")
}

func (f *fakeForge) AddComment(_ context.Context, r forge.Ref, body string) (forge.Comment, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls = append(f.calls, fmt.Sprintf("#%d comment", r.Number))
	if err := f.err("Comment"); err != nil {
		return forge.Comment{}, err
	}
	c := forge.Comment{ID: int64(1000 + len(f.calls)), Author: bot(), Body: body}
	f.comments[r.Number] = append(f.comments[r.Number], c)
	return c, nil
}

// told are the bodies of the bot's comments, without their markers.
func (f *fakeForge) told(number int) []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []string
	for _, c := range f.comments[number] {
		if c.Author.ID == bot().ID {
			_, text, _ := strings.Cut(c.Body, "\n")
			out = append(out, text)
		}
	}
	return out
}

// fakeStarts builds starts without flows. change is applied to each.
type fakeStarts struct {
	err    error
	change func(a handoff.Ask, r *checkpoints.StartReq)
}

func (s *fakeStarts) First(_ context.Context, a handoff.Ask) (checkpoints.StartReq, error) {
	r := checkpoints.StartReq{
		Key: a.Ref.String(), Trigger: a.Trigger, Repo: a.Ref.Repo.String(), Issue: a.Ref.Number, Phase: string(a.Phase), Entry: "a", Flow: a.Flow,
	}
	if a.Shadow {
		r.Key, r.Mode = r.Key+"/shadow", checkpoints.ModeShadow
	}
	if s.change != nil {
		s.change(a, &r)
	}
	return r, s.err
}

// fakeFlows knows who may answer the approvals of runs, by run id, and forks
// runs without looking at their flows.
type fakeFlows struct {
	approvers map[string][]string
	err       error
}

func (f *fakeFlows) Approvers(r checkpoints.Run) ([]string, bool) {
	a, ok := f.approvers[r.ID]
	return a, ok
}

func (f *fakeFlows) Fork(_ context.Context, r checkpoints.Run, node string, edits map[string]json.RawMessage) (checkpoints.StartReq, error) {
	state, err := json.Marshal(edits)
	return checkpoints.StartReq{
		Key: r.Key, Repo: r.Repo, Issue: r.Issue, Phase: r.Phase, Lineage: r.Lineage, Entry: node, State: state, Forked: r.ID, ForkedAt: node, Mode: r.Mode,
	}, errors.Join(err, f.err)
}

// fakeWork is the work in flight.
type fakeWork struct {
	store  *memory.Store
	mu     sync.Mutex
	calls  []string
	cancel func() error // what happens while a cancel is asked for
}

func (w *fakeWork) End(ctx context.Context, id string, e checkpoints.Ended) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	err := w.store.Cancel(ctx, id, e)
	if errors.Is(err, checkpoints.ErrBusy) {
		w.calls = append(w.calls, "cancel "+e.Result+": "+e.Reason)
		if w.cancel != nil {
			if err := w.cancel(); err != nil {
				return err
			}
		}
		err = w.store.Cancel(ctx, id, e)
	}
	if errors.Is(err, checkpoints.ErrBusy) || errors.Is(err, checkpoints.ErrConflict) {
		return nil
	}
	return err
}

func (w *fakeWork) Halt(scope, reason string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calls = append(w.calls, "halt "+scope+": "+reason)
}

type world struct {
	t      *testing.T
	clock  *clock.Fake
	store  *memory.Store
	forge  *fakeForge
	starts *fakeStarts
	flows  *fakeFlows
	work   *fakeWork
	d      *dispatch.Dispatcher
	rows   int
}

// newWorld has open issues 7 and 8 with the given labels, and ada who may
// write, rob who may read.
func newWorld(t *testing.T, on ...string) *world {
	t.Helper()
	w := &world{t: t, clock: clock.NewFake(time.Date(2026, 3, 1, 9, 0, 0, 0, time.UTC)), starts: &fakeStarts{}, work: &fakeWork{}, flows: &fakeFlows{approvers: map[string][]string{}}}
	w.store = memory.New(memory.Options{Clock: w.clock})
	w.work.store = w.store
	w.forge = &fakeForge{
		issues: map[int]forge.Issue{
			7: {Ref: ref(7), Open: true, Labels: on, Author: rob()},
			8: {Ref: ref(8), Open: true, Labels: on, Author: rob()},
		},
		log: map[int][]forge.IssueEvent{}, comments: map[int][]forge.Comment{}, fail: map[string]error{},
		may: map[string]forge.Permission{"ada": forge.Write, "rob": forge.Read},
	}
	w.d = dispatch.New(dispatch.Options{
		Forge: w.forge, Store: w.store, Starts: w.starts, Flows: w.flows, Interrupter: w.work, Clock: w.clock,
		Machine: labels.Machine{Names: labels.Default(), Policy: labels.DefaultPolicy()},
		Breaker: breaker.New(breaker.Options{Forge: w.forge, Store: w.store, Label: labels.Default().Stop, Clock: w.clock, Window: time.Hour, Starts: 3}),
		Status:  w, Comments: 5, LooksADay: 2,
		Log: slog.New(slog.DiscardHandler),
	})
	return w
}

// Say implements dispatch.Status.
func (w *world) Say(_ context.Context, r forge.Ref) (string, error) {
	return "It is where it is: " + r.String(), nil
}

// give puts an event into the inbox and returns the row's id.
func (w *world) give(ev forge.Event) string {
	w.t.Helper()
	body, err := json.Marshal(ev)
	if err != nil {
		w.t.Fatal(err)
	}
	return w.giveRaw(body)
}

func (w *world) giveRaw(body []byte) string {
	w.t.Helper()
	w.rows++
	id := fmt.Sprintf("row%d", w.rows)
	if _, err := w.store.Receive(w.t.Context(), checkpoints.InboxEvent{ID: id, Key: id, Body: body, At: w.clock.Now()}); err != nil {
		w.t.Fatal(err)
	}
	return id
}

// handle works on a row and returns its decision, "" while it is pending.
func (w *world) handle(id string) (string, error) {
	err := w.d.Handle(w.t.Context(), id)
	return w.row(id).Decision, err
}

func (w *world) row(id string) checkpoints.InboxEvent {
	w.t.Helper()
	row, err := w.store.Received(w.t.Context(), id)
	if err != nil {
		w.t.Fatal(err)
	}
	return row
}

// decided gives an event, handles it, and returns the decided row.
func (w *world) decided(ev forge.Event) checkpoints.InboxEvent {
	w.t.Helper()
	id := w.give(ev)
	if got, err := w.handle(id); err != nil || got == "" {
		w.t.Fatalf("decision %q, error %v", got, err)
	}
	return w.row(id)
}

// run starts a run of an issue and brings it to a status.
func (w *world) run(number int, phase labels.Phase, s checkpoints.Status, awaits string) (checkpoints.Run, checkpoints.Lease) {
	w.t.Helper()
	ctx := w.t.Context()
	run, err := w.store.Start(ctx, checkpoints.StartReq{
		Key: ref(number).String(), Repo: "acme/widgets", Issue: number, Phase: string(phase), Entry: "a",
	})
	if err != nil {
		w.t.Fatal(err)
	}
	var l checkpoints.Lease
	if s != checkpoints.Ready {
		_, l, err = w.store.Claim(ctx, run.ID, run.Epoch, "me", time.Hour)
	}
	switch {
	case err != nil:
	case s == checkpoints.Waiting:
		err = w.store.Park(ctx, l, checkpoints.Wait{Node: "a", Event: awaits, Until: w.clock.Now().Add(100 * time.Hour)})
	case s == checkpoints.Halted:
		err = w.store.Halt(ctx, l, "halted", "stop")
	case s == checkpoints.Ending:
		err = w.store.End(ctx, l, checkpoints.Ended{Result: "accepted"})
	}
	if err != nil {
		w.t.Fatal(err)
	}
	return w.get(run.ID), l
}

func (w *world) get(id string) checkpoints.Run {
	w.t.Helper()
	run, err := w.store.Get(w.t.Context(), id)
	if err != nil {
		w.t.Fatal(err)
	}
	return run
}

func (w *world) runs() []checkpoints.Run {
	w.t.Helper()
	all, err := w.store.List(w.t.Context(), checkpoints.Filter{})
	if err != nil {
		w.t.Fatal(err)
	}
	return all
}

func (w *world) stopped(number int) bool {
	w.t.Helper()
	_, on, err := w.store.StopFor(w.t.Context(), "acme/widgets", number)
	if err != nil {
		w.t.Fatal(err)
	}
	return on
}

func (w *world) on(number int) []string { return w.forge.issues[number].Labels }

// labeled is a label event of the poller: it knows its id.
func labeled(label string, by forge.Actor, id int64) forge.Event {
	return forge.Event{Kind: forge.Labeled, Issue: ref(7), Actor: by, Label: label, LogID: id, Source: "poll"}
}

func unlabeled(label string, by forge.Actor, id int64) forge.Event {
	ev := labeled(label, by, id)
	ev.Kind = forge.Unlabeled
	return ev
}

func said(by forge.Actor, id int64, body string) forge.Event {
	return forge.Event{
		Kind: forge.Commented, Issue: ref(7), Actor: by, Source: "webhook",
		Comment: &forge.Comment{ID: id, Author: by, Body: body},
	}
}

func operator(kind forge.EventKind, label string) forge.Event {
	return forge.Event{Kind: kind, Issue: ref(7), Label: label, Source: "cli"}
}
