package report_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pipelinebot/pipelinebot/checkpoints"
	"github.com/pipelinebot/pipelinebot/checkpoints/memory"
	"github.com/pipelinebot/pipelinebot/internal/clock"
	"github.com/pipelinebot/pipelinebot/internal/forge"
	"github.com/pipelinebot/pipelinebot/internal/handoff"
	"github.com/pipelinebot/pipelinebot/internal/report"
	"github.com/pipelinebot/pipelinebot/internal/secret"
	"github.com/pipelinebot/pipelinebot/labels"
	"github.com/pipelinebot/pipelinebot/phases/status"
)

func bot() forge.Actor { return forge.Actor{ID: 1, Login: "pipe[bot]", Bot: true} }

// fakeForge keeps the comments of one issue. fail makes a method fail.
type fakeForge struct {
	mu sync.Mutex // Live works beside the test

	comments []forge.Comment
	pulls    map[int]forge.Pull
	fail     map[string]error
	calls    []string
	next     int64
}

func (f *fakeForge) Self(context.Context) (forge.Actor, error) { return bot(), f.fail["Self"] }

func (f *fakeForge) Comments(context.Context, forge.Ref) ([]forge.Comment, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls = append(f.calls, "list")
	return f.comments, f.fail["Comments"]
}

func (f *fakeForge) AddComment(_ context.Context, _ forge.Ref, body string) (forge.Comment, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls = append(f.calls, "add")
	if err := f.fail["AddComment"]; err != nil {
		return forge.Comment{}, err
	}
	f.next++
	id := 900 + f.next
	c := forge.Comment{ID: id, Author: bot(), Body: body, HTMLURL: fmt.Sprintf("https://x/acme/widgets/issues/7#issuecomment-%d", id)}
	f.comments = append(f.comments, c)
	return c, nil
}

func (f *fakeForge) EditComment(_ context.Context, _ forge.Repo, id int64, body string) (forge.Comment, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls = append(f.calls, fmt.Sprintf("edit %d", id))
	if err := f.fail["EditComment"]; err != nil {
		return forge.Comment{}, err
	}
	for i := range f.comments {
		if f.comments[i].ID == id {
			f.comments[i].Body = body
			return f.comments[i], nil
		}
	}
	return forge.Comment{}, &forge.Error{Kind: forge.KindNotFound, Op: "editing", Status: 404}
}

func (f *fakeForge) Pull(_ context.Context, ref forge.Ref) (forge.Pull, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	p, ok := f.pulls[ref.Number]
	if err := f.fail["Pull"]; err != nil {
		return p, err
	}
	if !ok {
		return p, &forge.Error{Kind: forge.KindNotFound, Op: "reading", Status: 404}
	}
	return p, nil
}

type world struct {
	t     *testing.T
	clock *clock.Fake
	store *memory.Store
	forge *fakeForge
	r     *report.Reporter
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{
		t: t, clock: clock.NewFake(time.Date(2026, 3, 1, 9, 0, 0, 0, time.UTC)),
		forge: &fakeForge{pulls: map[int]forge.Pull{}, fail: map[string]error{}},
	}
	w.store = memory.New(memory.Options{Clock: w.clock})
	w.r = report.New(w.forge, w.store, labels.Default(), secret.NewScrubber(secret.New("hunter2hunter2")))
	return w
}

// run is a claimed run of a phase.
func (w *world) run(phase labels.Phase, lineage string) (checkpoints.Run, checkpoints.Lease) {
	w.t.Helper()
	w.clock.Advance(time.Second)
	run, err := w.store.Start(w.t.Context(), checkpoints.StartReq{
		Key: "acme/widgets#7", Repo: "acme/widgets", Issue: 7, Phase: string(phase), Lineage: lineage, Entry: "a",
	})
	if err != nil {
		w.t.Fatal(err)
	}
	run, l, err := w.store.Claim(w.t.Context(), run.ID, run.Epoch, "me", time.Hour)
	if err != nil {
		w.t.Fatal(err)
	}
	return run, l
}

func (w *world) post(run checkpoints.Run, s report.State) {
	w.t.Helper()
	if err := w.r.Post(w.t.Context(), run, s); err != nil {
		w.t.Fatal(err)
	}
}

// body is the status comment's text; there must be exactly one.
func (w *world) body() string {
	w.t.Helper()
	w.forge.mu.Lock()
	defer w.forge.mu.Unlock()
	var found []string
	for _, c := range w.forge.comments {
		if c.Author.ID == bot().ID && strings.HasPrefix(c.Body, status.Marker) {
			found = append(found, c.Body)
		}
	}
	if len(found) != 1 {
		w.t.Fatalf("%d status comments", len(found))
	}
	return found[0]
}

func (w *world) calls(want ...string) {
	w.t.Helper()
	w.forge.mu.Lock()
	defer w.forge.mu.Unlock()
	if len(want) == 0 && len(w.forge.calls) == 0 {
		return
	}
	if diff := cmp.Diff(want, w.forge.calls); diff != "" {
		w.t.Errorf("calls (-want +got):\n%s", diff)
	}
	w.forge.calls = nil
}

func TestOneComment(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	run, _ := w.run(labels.Triage, "")
	w.post(run, report.Working)
	w.calls("list", "add")
	w.post(run, report.Working)
	w.calls() // it says so already
	run.Reason = "one"
	w.post(run, report.Working)
	w.calls("edit 901")
	// A new process finds it by what is stored; the spelling of the name does
	// not matter.
	w.r = report.New(w.forge, w.store, labels.Default(), secret.NewScrubber())
	run.Repo, run.Reason = "Acme/Widgets", "two"
	w.post(run, report.Working)
	w.calls("edit 901")
	// Somebody deletes it.
	w.forge.comments = nil
	run.Reason = "three"
	w.post(run, report.Working)
	w.calls("edit 901", "add")
	run.Reason = "four"
	w.post(run, report.Working)
	w.calls("edit 902")
	w.body()
}

// A comment whose id was not stored, since the process died, is found by its
// marker; only the bot's own counts.
func TestFoundByMarker(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		comment forge.Comment
		calls   []string
	}{
		"the bot's own":   {forge.Comment{ID: 5, Author: bot(), Body: status.Marker + "\nold"}, []string{"list", "edit 5"}},
		"somebody else's": {forge.Comment{ID: 5, Author: forge.Actor{ID: 2}, Body: status.Marker + "\nfake"}, []string{"list", "add"}},
		"quoted":          {forge.Comment{ID: 5, Author: bot(), Body: "> " + status.Marker}, []string{"list", "add"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.forge.comments = []forge.Comment{{ID: 4, Author: forge.Actor{ID: 2}, Body: "hello"}, tt.comment}
			run, _ := w.run(labels.Triage, "")
			w.post(run, report.Working)
			w.calls(tt.calls...)
			w.body()
			run.Reason = "another"
			w.post(run, report.Working)
			if len(w.forge.calls) != 1 { // the id is stored now
				t.Errorf("calls %v", w.forge.calls)
			}
		})
	}
}

func TestFailures(t *testing.T) {
	t.Parallel()
	invalid := &forge.Error{Kind: forge.KindInvalid, Op: "editing", Status: 422}
	for method, calls := range map[string][]string{
		"EditComment": {"edit 901"}, // no second comment because the first is refused
		"Pull":        nil,
	} {
		w := newWorld(t)
		run, _ := w.run(labels.Triage, "")
		w.post(run, report.Working)
		w.forge.calls, w.forge.fail[method] = nil, invalid
		run.State, run.Reason = json.RawMessage(`{"pr":12}`), "another"
		if err := w.r.Post(t.Context(), run, report.Working); !forge.IsKind(err, forge.KindInvalid) {
			t.Errorf("%s: error = %v", method, err)
		}
		w.calls(calls...)
	}
	for _, method := range []string{"Self", "Comments", "AddComment"} {
		w := newWorld(t)
		run, _ := w.run(labels.Triage, "")
		w.forge.fail[method] = invalid
		if err := w.r.Post(t.Context(), run, report.Working); !forge.IsKind(err, forge.KindInvalid) {
			t.Errorf("%s: error = %v", method, err)
		}
		delete(w.forge.fail, method)
		w.post(run, report.Working)
		w.body()
	}
}

func TestBadInput(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	run, _ := w.run(labels.Triage, "")
	for name, change := range map[string]func(*checkpoints.Run){
		"key":   func(r *checkpoints.Run) { r.Repo = "nonsense" },
		"state": func(r *checkpoints.Run) { r.State = json.RawMessage(`{`) },
		"run":   func(r *checkpoints.Run) { r.ID = "unknown" },
	} {
		bad := run
		change(&bad)
		if err := w.r.Post(t.Context(), bad, report.Working); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if err := w.store.RecordEffect(t.Context(), "issue/acme/widgets#7/status", json.RawMessage(`"?"`)); err != nil {
		t.Fatal(err)
	}
	if err := w.r.Post(t.Context(), run, report.Working); err == nil || len(w.forge.comments) != 0 {
		t.Errorf("error = %v, %d comments", err, len(w.forge.comments))
	}
}

// A flow of a user may use our keys for something else.
func TestForeignState(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	run, _ := w.run(labels.Triage, "")
	run.State = json.RawMessage(`{"pr":"twelve","plan_hash":["a"]}`)
	w.post(run, report.Working)
	w.body()
}

// Whoever has claimed the run since writes the comment, not the one before.
func TestStalePost(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	run, l := w.run(labels.Plan, "")
	w.post(run, report.Working)
	before := w.body()
	wait := checkpoints.Wait{Node: "a", Event: "approval"}
	if err := w.store.Park(t.Context(), l, wait); err != nil {
		t.Fatal(err)
	}
	if _, err := w.store.Deliver(t.Context(), run.ID, checkpoints.Event{Key: "k", Kind: "approval"}); err != nil {
		t.Fatal(err)
	}
	if _, _, err := w.store.Claim(t.Context(), run.ID, run.Epoch, "other", time.Hour); err != nil {
		t.Fatal(err)
	}
	run.Status, run.Wait = checkpoints.Waiting, &wait
	w.post(run, report.Waiting)
	if diff := cmp.Diff(before, w.body()); diff != "" {
		t.Errorf("comment (-want +got):\n%s", diff)
	}
}

// Covers: BL20, BL28.
func TestViews(t *testing.T) {
	t.Parallel()
	until := time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)
	tests := []struct {
		name   string
		state  report.State
		change func(*checkpoints.Run)
		has    []string
		hasNot []string
	}{
		{
			name: "working", state: report.Working, change: func(r *checkpoints.Run) { r.Result, r.Reason = "", "" },
			has: []string{"plan (running)", "Working.", "pipeline:stop", "- [ ] a …"}, hasNot: []string{"**Result**"},
		},
		{
			name: "waiting for approval", state: report.Waiting, change: func(r *checkpoints.Run) {
				r.Status, r.Wait = checkpoints.Waiting, &checkpoints.Wait{Event: "approval", Until: until, Why: "waiting for approval"}
				r.State = json.RawMessage(`{"plan_hash":"abcdef0123456789"}`)
			},
			has: []string{"plan (waiting)", "until 2026-03-02 09:00 UTC", "/pipeline approve abcdef01"},
		},
		{
			name: "waiting for an answer", state: report.Waiting, change: func(r *checkpoints.Run) {
				r.Status, r.Wait = checkpoints.Waiting, &checkpoints.Wait{Event: "answer"}
			},
			has: []string{"Waiting for an answer.", "Answer the questions above"},
		},
		{
			name: "backing off", state: report.Waiting, change: func(r *checkpoints.Run) {
				r.Status, r.Wait = checkpoints.Waiting, &checkpoints.Wait{Until: until, Why: "the model is overloaded"}
			},
			has: []string{"plan (backing-off)", "Waiting before another try", "the model is overloaded", "goes on by itself"},
		},
		{
			name: "halted", state: report.Halted, change: func(r *checkpoints.Run) { r.Code, r.Reason = "halted", "@ada stopped the work" },
			has: []string{"plan (halted)", "position is kept", "stopped the work", "pipeline:plan"}, hasNot: []string{"**Result**"},
		},
		{
			name: "halted with the work saved", state: report.Halted, change: func(r *checkpoints.Run) {
				r.Reason = "@ada stopped the work; the unfinished work (2 files) is on branch pipelinebot/wip/7"
			},
			has: []string{"is on branch pipelinebot/wip/7"}, hasNot: []string{"Unfinished work"},
		},
		{
			name: "halted, the reason silent on the saved work", state: report.Halted, change: func(r *checkpoints.Run) { r.Reason = "@ada stopped the work" },
			has: []string{"| **Unfinished work** | `pipelinebot/wip/7` |"},
		},
		{
			name: "ended", state: report.Ended, change: func(r *checkpoints.Run) { r.Result = "approved" },
			has: []string{"plan → approved", "The plan is approved", "`approved`"}, hasNot: []string{"- [ ] a"},
		},
		{
			name: "error", state: report.Ended, change: func(r *checkpoints.Run) {
				r.Result, r.Code, r.Reason = "error", "permission-denied", "adding label: denied; needs permission issues=write"
			},
			has: []string{"plan → error", "permission-denied", "issues=write", "Give the bot the permission", "- [ ] a (failed)"},
		},
		{
			name: "cancelled", state: report.Ended, change: func(r *checkpoints.Run) { r.Result, r.Code = "cancelled", "label-gone" },
			has: []string{"plan → cancelled", "To start again", "- [ ] a (stopped)"},
		},
		{
			name: "pull request", state: report.Ended, change: func(r *checkpoints.Run) {
				r.Result, r.State = "approved", json.RawMessage(`{"pr":12}`)
			},
			has: []string{"[Pull request #", "](https://github.example/acme/widgets/pull/12)"},
		},
		{
			name: "pull request gone", state: report.Ended, change: func(r *checkpoints.Run) {
				r.Result, r.State = "approved", json.RawMessage(`{"pr":13}`)
			},
			has: []string{"plan → approved"}, hasNot: []string{"Pull request #"},
		},
		{
			name: "secrets", state: report.Ended, change: func(r *checkpoints.Run) { r.Result, r.Reason = "error", "the key hunter2hunter2 is bad" },
			has: []string{"is bad"}, hasNot: []string{"hunter2"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.forge.pulls[12] = forge.Pull{HTMLURL: "https://github.example/acme/widgets/pull/12"}
			run, _ := w.run(labels.Plan, "")
			tt.change(&run)
			if err := w.r.Saved(t.Context(), run.ID, "pipelinebot/wip/7"); err != nil {
				t.Fatal(err)
			}
			w.post(run, tt.state)
			body := w.body()
			for _, s := range append(tt.has, run.ID) {
				if !strings.Contains(body, s) {
					t.Errorf("the comment lacks %q:\n%s", s, body)
				}
			}
			for _, s := range tt.hasNot {
				if strings.Contains(body, s) {
					t.Errorf("the comment has %q:\n%s", s, body)
				}
			}
		})
	}
}

// The comment tells of all runs of the pipeline, oldest first, and of no other
// pipeline's.
func TestPipeline(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	finish := func(run checkpoints.Run, l checkpoints.Lease, node, result string) {
		t.Helper()
		err := w.store.Commit(t.Context(), l, checkpoints.Commit{
			Record: checkpoints.NodeRecord{Node: node, Kind: "step", Outcome: "ok", Took: 2 * time.Second},
			Seq:    run.Seq + 1, State: json.RawMessage(`{}`), Ending: &checkpoints.Ended{Result: result},
		})
		if err == nil {
			_, err = w.store.Finish(t.Context(), l, checkpoints.Done, nil)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	stranger, l := w.run(labels.Triage, "")
	finish(stranger, l, "strange_step", "declined")
	first, l := w.run(labels.Triage, "")
	finish(first, l, "first_step", "accepted")
	second, _ := w.run(labels.Plan, first.Lineage)
	w.post(second, report.Working)
	body := w.body()
	a, b := strings.Index(body, "triage: accepted"), strings.Index(body, "plan: running")
	if a < 0 || b < a || !strings.Contains(body, "first step") || strings.Contains(body, "strange step") {
		t.Errorf("comment:\n%s", body)
	}
}

func TestStoreFails(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	run, _ := w.run(labels.Plan, "")
	ctx, cancel := context.WithCancelCause(t.Context())
	down := errors.New("going down")
	cancel(down)
	if err := w.r.Post(ctx, run, report.Working); !errors.Is(err, down) || len(w.forge.calls) != 0 {
		t.Errorf("error = %v, calls %v", err, w.forge.calls)
	}
}

// Two posts on one issue, as two runs of it may make them, give one comment.
func TestPostsDoNotInterleave(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	run, _ := w.run(labels.Plan, "")
	slow := &slowForge{fakeForge: w.forge, first: make(chan struct{}), release: make(chan struct{})}
	r := report.New(slow, w.store, labels.Default(), secret.NewScrubber())
	errs := make(chan error, 2)
	go func() { errs <- r.Post(t.Context(), run, report.Working) }()
	<-slow.first // inside the listing: no comment is there yet
	go func() { errs <- r.Post(t.Context(), run, report.Working) }()
	close(slow.release)
	for range 2 {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	if len(w.forge.comments) != 1 {
		t.Errorf("there are %d comments", len(w.forge.comments))
	}
}

// slowForge holds the first listing of comments until it is let go.
type slowForge struct {
	*fakeForge
	once           sync.Once
	first, release chan struct{}
}

func (f *slowForge) Comments(ctx context.Context, ref forge.Ref) ([]forge.Comment, error) {
	f.once.Do(func() { close(f.first); <-f.release })
	return f.fakeForge.Comments(ctx, ref)
}

// The comment says what a child waits for, or that it is stopped, and does not
// list it among the phases; what it has cost counts once.
//
// Covers: BL28.
func TestChildren(t *testing.T) {
	t.Parallel()
	spent := checkpoints.Usage{MicroUSD: 2_000_000}
	for _, tt := range []struct {
		name    string
		counted bool
		rest    func(w *world, l checkpoints.Lease) error
		has     []string
	}{
		{
			"asks", true, func(w *world, l checkpoints.Lease) error {
				return w.store.Park(w.t.Context(), l, checkpoints.Wait{Node: "ask", Event: "approval", Why: "publish release 2.0"})
			},
			[]string{"implement (waiting)", "Waiting for a person's approval", "publish release 2.0", "`/pipeline approve`", "$2.00"},
		},
		{
			"stopped", false, func(w *world, l checkpoints.Lease) error {
				return w.store.Halt(w.t.Context(), l, "halted", "@ada stopped the work")
			},
			[]string{"implement (halted)", "stopped the work", "$2.00"},
		},
		{
			"drifted", true, func(w *world, l checkpoints.Lease) error {
				return w.store.Halt(w.t.Context(), l, "drift", "agent.read is of another version")
			},
			[]string{"implement (halted)", "another version", "--accept-drift"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			root, l := w.run(labels.Implement, "")
			child, err := w.store.Start(t.Context(), checkpoints.StartReq{
				Key: root.ID + ":release:1", Repo: "acme/widgets", Issue: 7, Phase: "triage", Lineage: root.Lineage, Entry: "a",
				Parent: root.ID, ParentNode: "spawn", Counted: tt.counted,
			})
			if err != nil {
				t.Fatal(err)
			}
			child, cl, err := w.store.Claim(t.Context(), child.ID, child.Epoch, "me", time.Hour)
			if err != nil {
				t.Fatal(err)
			}
			res, err := w.store.Reserve(t.Context(), cl, "a", spent, checkpoints.Limits{})
			if err == nil {
				err = w.store.Settle(t.Context(), res, spent)
			}
			if err == nil {
				err = tt.rest(w, cl)
			}
			if err == nil {
				err = w.store.Park(t.Context(), l, checkpoints.Wait{Node: "spawn", Event: "child/" + child.ID, Why: "waiting for release"})
			}
			if err == nil {
				root, err = w.store.Get(t.Context(), root.ID)
			}
			if err != nil {
				t.Fatal(err)
			}
			w.post(root, report.Waiting)
			body := w.body()
			for _, s := range tt.has {
				if !strings.Contains(body, s) {
					t.Errorf("the comment lacks %q:\n%s", s, body)
				}
			}
			if strings.Contains(body, "triage") && !strings.Contains(body, "pipeline:triage") {
				t.Errorf("the child is listed as a phase:\n%s", body)
			}
		})
	}
}

// The comment of a run at work follows it, at most once in a while and one
// comment at a time; what a run came to is never written over.
func TestLive(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go w.r.Live(ctx, clock.Real{}, slog.New(slog.DiscardHandler), 15*time.Second, 2*time.Second)
		run, l := w.run(labels.Triage, "")
		w.post(run, report.Working)
		w.calls("list", "add")
		node := func(seq int64, name string) {
			if err := w.store.Commit(ctx, l, checkpoints.Commit{
				Record: checkpoints.NodeRecord{Seq: seq, Node: name, Kind: "step", Visit: 1, Attempt: 1, Outcome: "ok"}, Seq: seq, Next: "z", State: json.RawMessage("{}"),
			}); err != nil {
				t.Fatal(err)
			}
			w.r.Moved(run.ID, time.Now())
		}
		node(1, "snapshot")
		node(2, "screen")
		time.Sleep(14 * time.Second) //nolint:forbidigo // the bubble's clock
		synctest.Wait()
		w.calls()                   // not yet
		time.Sleep(4 * time.Second) //nolint:forbidigo // the bubble's clock
		synctest.Wait()
		w.calls("edit 901")
		if body := w.body(); !strings.Contains(body, "screen") {
			t.Errorf("the comment is behind:\n%s", body)
		}
		time.Sleep(time.Minute) //nolint:forbidigo // the bubble's clock
		synctest.Wait()
		w.calls() // nothing moved
		node(3, "classify")
		if err := w.store.End(ctx, l, checkpoints.Ended{Result: "declined"}); err != nil {
			t.Fatal(err)
		}
		run = func() checkpoints.Run { r, _ := w.store.Get(ctx, run.ID); return r }()
		w.post(run, report.Ended)
		w.calls("edit 901")     // at once
		time.Sleep(time.Minute) //nolint:forbidigo // the bubble's clock
		synctest.Wait()
		w.calls()
		if body := w.body(); !strings.Contains(body, "declined") {
			t.Errorf("the end was written over:\n%s", body)
		}
	})
}

// Whoever asks is told where the comment is, and gets it anew when it was
// deleted.
func TestSay(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ref := forge.Ref{Repo: forge.Repo{Owner: "acme", Name: "widgets"}, Number: 7}
	if got, err := w.r.Say(t.Context(), ref); got != "" || err != nil {
		t.Errorf("nothing was started: %q, %v", got, err)
	}
	run, _ := w.run(labels.Triage, "")
	w.post(run, report.Working)
	w.forge.comments, w.forge.calls = nil, nil
	got, err := w.r.Say(t.Context(), ref)
	if err != nil || got != "**triage**: Working. The [status comment](https://x/acme/widgets/issues/7#issuecomment-902) says more.\n" {
		t.Errorf("%q, %v", got, err)
	}
	w.calls("edit 901", "add")
	run.State = json.RawMessage(`{"plan_comment":33}`)
	w.post(run, report.Working)
	if body := w.body(); !strings.Contains(body, "[Plan](https://x/acme/widgets/issues/7#issuecomment-33)") {
		t.Errorf("no link to the plan:\n%s", body)
	}
}

// A look at an outsider's issue says that nothing was started, and what is
// missing.
func TestLook(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	run, err := w.store.Start(t.Context(), checkpoints.StartReq{
		Key: "acme/widgets#7/shadow", Repo: "acme/widgets", Issue: 7, Phase: "triage", Entry: "a", Mode: checkpoints.ModeShadow, Trigger: handoff.LookTrigger("row/1"),
	})
	if err != nil {
		t.Fatal(err)
	}
	run.Result, run.Code, run.State = "needs_info", "look", json.RawMessage(`{"missing":["Which version, @octocat?"]}`)
	w.post(run, report.Ended)
	body := w.body()
	for _, want := range []string{"first look", "Which version, @\u200boctocat?", "Nothing was started.", "pipeline:triage"} {
		if !strings.Contains(body, want) {
			t.Errorf("no %q in:\n%s", want, body)
		}
	}
}
