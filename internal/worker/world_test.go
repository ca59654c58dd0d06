package worker_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/pipelinebot/pipelinebot/checkpoints"
	"github.com/pipelinebot/pipelinebot/checkpoints/memory"
	"github.com/pipelinebot/pipelinebot/flows/engine"
	"github.com/pipelinebot/pipelinebot/internal/clock"
	"github.com/pipelinebot/pipelinebot/internal/forge"
	"github.com/pipelinebot/pipelinebot/internal/queue"
	"github.com/pipelinebot/pipelinebot/internal/report"
	"github.com/pipelinebot/pipelinebot/internal/worker"
	"github.com/pipelinebot/pipelinebot/labels"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const lease = 15 * time.Second

// fakeForge is one issue as data. fail makes a call fail, by its words.
type fakeForge struct {
	mu     sync.Mutex
	issue  forge.Issue
	gone   bool
	lost   bool // the repository is out of reach
	fail   map[string]error
	before map[string]func(context.Context) // runs before a call, without the lock
	calls  []string                         // label changes
	may    map[string]forge.Permission
}

func notFound() error { return &forge.Error{Kind: forge.KindNotFound, Op: "reading", Status: 404} }
func transient() error {
	return &forge.Error{Kind: forge.KindTransient, Op: "calling", Status: 502}
}

func denied() error {
	return &forge.Error{Kind: forge.KindDenied, Op: "adding label", Status: 403, Needs: "issues=write"}
}

// begin notes a call and returns its planned failure.
func (f *fakeForge) begin(ctx context.Context, call string) error {
	f.mu.Lock()
	hook, err := f.before[call], f.fail[call]
	f.mu.Unlock()
	if hook != nil {
		hook(ctx)
	}
	if ctx.Err() != nil {
		return &forge.Error{Kind: forge.KindTransient, Op: call, Err: ctx.Err()}
	}
	return err
}

func (f *fakeForge) Repository(ctx context.Context, r forge.Repo) (forge.Repository, error) {
	err := f.begin(ctx, "repository")
	if f.lost {
		err = notFound()
	}
	return forge.Repository{Repo: r}, err
}

func (f *fakeForge) Issue(ctx context.Context, _ forge.Ref) (forge.Issue, error) {
	if err := f.begin(ctx, "issue"); err != nil {
		return forge.Issue{}, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.gone || f.lost {
		return forge.Issue{}, notFound()
	}
	i := f.issue
	i.Labels = slices.Clone(i.Labels)
	return i, nil
}

func (f *fakeForge) Permission(ctx context.Context, _ forge.Repo, login string) (forge.Permission, error) {
	err := f.begin(ctx, "permission")
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.may[login], err
}

func (f *fakeForge) AddLabel(ctx context.Context, _ forge.Ref, name string) error {
	return f.change(ctx, "+"+name, func(on []string) []string { return append(on, name) })
}

func (f *fakeForge) RemoveLabel(ctx context.Context, _ forge.Ref, name string) error {
	return f.change(ctx, "-"+name, func(on []string) []string { return without(on, name) })
}

func without(on []string, name string) []string {
	return slices.DeleteFunc(on, func(l string) bool { return labels.Same(l, name) })
}

func (f *fakeForge) change(ctx context.Context, call string, do func([]string) []string) error {
	if err := f.begin(ctx, call); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls = append(f.calls, call)
	f.issue.Labels = do(slices.Clone(f.issue.Labels))
	return nil
}

func (f *fakeForge) set(change func(*forge.Issue)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change(&f.issue)
}

// walk is what a fake walker does with a run.
type walk func(ctx context.Context, run checkpoints.Run, l checkpoints.Lease) (engine.Outcome, error)

// walker is the world's walker.
type walker struct{ w *world }

func (f walker) Walk(ctx context.Context, run checkpoints.Run, l checkpoints.Lease) (engine.Outcome, error) {
	return f.w.walk(ctx, run, l)
}

// ChildEnded notes the end of a child, as its parent is told.
func (f walker) ChildEnded(_ context.Context, child checkpoints.Run) error {
	f.w.mu.Lock()
	defer f.w.mu.Unlock()
	f.w.told = append(f.w.told, child.ID+" "+child.Result)
	return nil
}

// fakeNext builds the start of a next phase.
type fakeNext struct{ err error }

func (n *fakeNext) Next(_ context.Context, done checkpoints.Run, p labels.Phase) (checkpoints.StartReq, error) {
	return checkpoints.StartReq{
		Key: done.Key, Trigger: "after/" + done.ID, Lineage: done.Lineage, Repo: done.Repo, Issue: done.Issue, Phase: string(p), Entry: "a",
	}, n.err
}

// fakeReporter notes posts.
type fakeReporter struct {
	mu    sync.Mutex
	posts []string
	hook  func(context.Context, report.State)
}

func (r *fakeReporter) Post(ctx context.Context, run checkpoints.Run, s report.State) error {
	r.mu.Lock()
	hook := r.hook
	post := string(s)
	if s == report.Ended {
		post += " " + run.Result + " " + run.Code
	}
	r.posts = append(r.posts, post)
	r.mu.Unlock()
	if hook != nil {
		hook(ctx, s)
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return nil
}

type world struct {
	t        *testing.T
	clock    *clock.Fake
	memory   *memory.Store
	store    worker.Store // memory unless a test wraps it
	forge    *fakeForge
	next     *fakeNext
	reporter *fakeReporter
	walk     walk
	w        *worker.Worker

	mu    sync.Mutex
	ended []string
	told  []string // parents, of ends
}

// newWorld has an open issue with the given labels. The walker ends runs with
// the result "accepted".
func newWorld(t *testing.T, on ...string) *world {
	t.Helper()
	w := &world{
		t: t, clock: clock.NewFake(time.Date(2026, 3, 1, 9, 0, 0, 0, time.UTC)), next: &fakeNext{}, reporter: &fakeReporter{},
		forge: &fakeForge{
			issue: forge.Issue{Open: true, Labels: on}, fail: map[string]error{}, before: map[string]func(context.Context){},
		},
	}
	w.memory = memory.New(memory.Options{Clock: w.clock})
	w.store = w.memory
	w.ends("accepted")
	w.build()
	return w
}

// build makes a worker of the world's parts: the program, or the next one
// after a crash.
func (w *world) build() {
	w.w = worker.New(worker.Options{
		Store: w.store, Forge: w.forge, Next: w.next, Reporter: w.reporter, Names: labels.Default(), Clock: w.clock,
		Log: slog.New(slog.DiscardHandler), Owner: "me", Lease: lease,
		Walker: walker{w},
		Ended: func(run checkpoints.Run, s checkpoints.Status) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.ended = append(w.ended, run.Result+" "+string(s))
		},
	})
}

// ends makes the walker end runs with a result, or as their context says.
func (w *world) ends(result string) {
	w.walk = func(ctx context.Context, run checkpoints.Run, l checkpoints.Lease) (engine.Outcome, error) {
		if ctx.Err() != nil {
			return w.interrupted(ctx, run, l)
		}
		return w.end(ctx, run, l, engine.Outcome{How: engine.Ended, Result: result})
	}
}

// blocks makes the walker work until its context ends; the channel tells that
// it has begun.
func (w *world) blocks() <-chan struct{} {
	began := make(chan struct{}, 10)
	w.walk = func(ctx context.Context, run checkpoints.Run, l checkpoints.Lease) (engine.Outcome, error) {
		began <- struct{}{}
		<-ctx.Done()
		return w.interrupted(ctx, run, l)
	}
	return began
}

func (w *world) end(ctx context.Context, run checkpoints.Run, l checkpoints.Lease, o engine.Outcome) (engine.Outcome, error) {
	err := w.store.End(context.WithoutCancel(ctx), l, checkpoints.Ended{Result: o.Result, Code: o.Code, Reason: o.Reason})
	run.Status, run.Result, run.Code, run.Reason = checkpoints.Ending, o.Result, o.Code, o.Reason
	o.Run = run
	return o, err
}

// interrupted does what the engine does when its context ends.
func (w *world) interrupted(ctx context.Context, run checkpoints.Run, l checkpoints.Lease) (engine.Outcome, error) {
	after := context.WithoutCancel(ctx)
	switch cause := context.Cause(ctx).(type) { //nolint:errorlint // the causes are given as they are
	case engine.Cancel:
		return w.end(ctx, run, l, engine.Outcome{How: engine.Cancelled, Result: cause.Result, Code: cause.Code, Reason: cause.Reason})
	case engine.Halt:
		return engine.Outcome{How: engine.Halted, Code: "halted", Reason: cause.Reason, Run: run}, w.store.Halt(after, l, "halted", cause.Reason)
	default:
		if cause == checkpoints.ErrLost { //nolint:errorlint // as above
			return engine.Outcome{How: engine.Lost, Err: cause, Run: run}, nil
		}
		return engine.Outcome{How: engine.Released, Run: run}, w.store.Release(after, l)
	}
}

// start makes a run of a phase.
func (w *world) start(phase labels.Phase) checkpoints.Run {
	w.t.Helper()
	run, err := w.memory.Start(w.t.Context(), checkpoints.StartReq{
		Key: "acme/widgets#7", Repo: "acme/widgets", Issue: 7, Phase: string(phase), Entry: "a",
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return run
}

// handle works on a run as it is in the store.
func (w *world) handle(id string) error {
	return w.w.Handle(w.t.Context(), queue.Token{Kind: queue.Run, ID: id, Epoch: w.get(id).Epoch})
}

// begin works on a run in the background; the returned function waits for the
// end.
func (w *world) begin(id string) (wait func() error) {
	tok := queue.Token{Kind: queue.Run, ID: id, Epoch: w.get(id).Epoch}
	done := make(chan error, 1)
	go func() { done <- w.w.Handle(w.t.Context(), tok) }()
	return func() error {
		select {
		case err := <-done:
			return err
		case <-time.After(10 * time.Second):
			return fmt.Errorf("run %s is still in work", id)
		}
	}
}

// sweep ends the lease and sweeps, as a minute of real time would.
func (w *world) sweep() {
	w.t.Helper()
	w.clock.Advance(time.Minute)
	if _, err := w.memory.Sweep(w.t.Context(), time.Second); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) get(id string) checkpoints.Run {
	w.t.Helper()
	run, err := w.memory.Get(w.t.Context(), id)
	if err != nil {
		w.t.Fatal(err)
	}
	return run
}

// want checks where a run stands: status, result and code.
func (w *world) want(id string, status checkpoints.Status, result, code string) {
	w.t.Helper()
	run := w.get(id)
	if run.Status != status || run.Result != result || run.Code != code {
		w.t.Errorf("run is %s, result %q, code %q (%s); want %s, %q, %q", run.Status, run.Result, run.Code, run.Reason, status, result, code)
	}
}

// open is the issue's open run, "" when there is none.
func (w *world) open() string {
	w.t.Helper()
	runs, err := w.memory.List(w.t.Context(), checkpoints.Filter{})
	if err != nil {
		w.t.Fatal(err)
	}
	for _, r := range runs {
		if !r.Status.Final() {
			return r.Phase
		}
	}
	return ""
}
