package dispatch_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pipelinebot/pipelinebot/checkpoints"
	"github.com/pipelinebot/pipelinebot/internal/forge"
	"github.com/pipelinebot/pipelinebot/internal/handoff"
	"github.com/pipelinebot/pipelinebot/labels"
	"github.com/pipelinebot/pipelinebot/phases/issue"
)

// ends claims the open run of issue 7 and ends it.
func (w *world) ends(result, state string) {
	w.t.Helper()
	ctx := w.t.Context()
	run := w.runs()[0]
	_, l, err := w.store.Claim(ctx, run.ID, run.Epoch, "me", time.Hour)
	if err == nil {
		err = w.store.Commit(ctx, l, checkpoints.Commit{
			Record: checkpoints.NodeRecord{Seq: 1, Node: "a", Kind: "step", Visit: 1, Attempt: 1, Outcome: "ok"}, Seq: 1, State: []byte(state),
			Ending: &checkpoints.Ended{Result: result},
		})
	}
	if err == nil {
		_, err = w.store.Finish(ctx, l, checkpoints.Done, nil)
	}
	if err != nil {
		w.t.Fatal(err)
	}
	w.clock.Advance(time.Minute)
}

// What ends alike again and again is stopped, once; a person's word, a new
// commit or a lifted stop make a new start.
func TestBreaker(t *testing.T) {
	t.Parallel()
	n := labels.Default()
	const state = `{"head_sha":"aa"}`
	for name, tt := range map[string]struct {
		between func(w *world, i int) string
		trips   bool
	}{
		"alike":        {func(*world, int) string { return state }, true},
		"new commits":  {func(_ *world, i int) string { return fmt.Sprintf(`{"head_sha":"a%d"}`, i) }, false},
		"a long time":  {func(w *world, _ int) string { w.clock.Advance(time.Hour); return state }, false},
		"a bot's word": {func(w *world, i int) string { w.says(bot(), i, "again"); return state }, true},
		"a command":    {func(w *world, i int) string { w.says(ada(), i, "/pipeline retry"); return state }, true},
		"a person's word": {func(w *world, i int) string {
			if i == 2 {
				w.says(rob(), i, "try the other way")
			}
			return state
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, n.Implement)
			for i := range 3 {
				if row := w.decided(labeled(n.Implement, ada(), int64(31+i))); row.Decision != "start" {
					t.Fatalf("start %d: %s (%s)", i, row.Decision, row.Explanation)
				}
				w.ends("no_progress", tt.between(w, i))
			}
			row := w.decided(labeled(n.Implement, ada(), 40))
			told := len(w.forge.told(7))
			if tripped := row.Decision == "refuse"; tripped != tt.trips || w.stopped(7) != tt.trips || labels.Has(w.on(7), n.Stop) != tt.trips {
				t.Fatalf("decision %q (%s), stopped %v, labels %v", row.Decision, row.Explanation, w.stopped(7), w.on(7))
			}
			if !tt.trips {
				return
			}
			if labels.Has(w.on(7), n.Implement) || !strings.Contains(w.forge.told(7)[told-1], "3 times") {
				t.Errorf("labels %v, told %q", w.on(7), w.forge.told(7))
			}
			// A person lifts it, and it may be tried again.
			if row := w.decided(said(ada(), 99, "/pipeline resume")); row.Decision != "lift" || w.stopped(7) {
				t.Fatalf("lift: %q (%s)", row.Decision, row.Explanation)
			}
			w.forge.issues[7] = forge.Issue{Ref: ref(7), Open: true, Labels: []string{n.Implement}}
			w.clock.Advance(time.Second)
			if row := w.decided(labeled(n.Implement, ada(), 41)); row.Decision != "start" {
				t.Errorf("after the lift: %q (%s)", row.Decision, row.Explanation)
			}
		})
	}
}

func (w *world) says(by forge.Actor, i int, body string) {
	w.forge.comments[7] = append(w.forge.comments[7], forge.Comment{ID: int64(500 + i), Author: by, Body: body, Created: w.clock.Now()})
}

// An issue gets so many refusals an hour and no more, over restarts; and so
// many answers.
func TestCommentsAreBounded(t *testing.T) {
	t.Parallel()
	for text, most := range map[string]int{"/pipeline dance": 5, "/pipeline help": 4, "/pipeline status": 4} {
		w := newWorld(t)
		for i := range 12 {
			w.decided(said(rob(), int64(100+i), text))
		}
		if got := len(w.forge.told(7)); got != most {
			t.Errorf("%s: told %d times, want %d", text, got, most)
		}
		w.clock.Advance(time.Hour)
		w.decided(said(rob(), 200, text))
		if got := len(w.forge.told(7)); got != most+1 {
			t.Errorf("%s: told %d times after an hour, want %d", text, got, most+1)
		}
	}
}

// On whose word a run works is kept: who started it, resumed it, or approved
// its plan.
func TestVoucher(t *testing.T) {
	t.Parallel()
	n := labels.Default()
	w := newWorld(t, n.Plan)
	w.forge.may["eve"] = forge.Admin
	eve := forge.Actor{ID: 9, Login: "eve"}
	word := func() string {
		v, _, err := handoff.VoucherOf(t.Context(), w.store, w.runs()[0])
		if err != nil {
			t.Fatal(err)
		}
		return v.Login
	}
	w.decided(labeled(n.Plan, ada(), 31))
	if got := word(); got != "ada" {
		t.Errorf("started: %q", got)
	}
	w.decided(said(eve, 50, "/pipeline approve ab12cd34"))
	if got := word(); got != "eve" {
		t.Errorf("approved: %q", got)
	}
	run := w.runs()[0]
	run, l, err := w.store.Claim(t.Context(), run.ID, run.Epoch, "me", time.Hour)
	if err == nil {
		err = w.store.Halt(t.Context(), l, "halted", "@eve left")
	}
	if err != nil {
		t.Fatal(err)
	}
	if row := w.decided(said(ada(), 51, "/pipeline retry")); row.Decision != "resume" || word() != "ada" || w.get(run.ID).Status != checkpoints.Ready {
		t.Errorf("resumed: %q (%s), on the word of %q", row.Decision, row.Explanation, word())
	}
}

// A stop does not wait for the issue's log, and the poll that tells of the
// same label later does not latch it again once it is lifted. The next label is
// another stop.
func TestStopBeforeTheLog(t *testing.T) {
	t.Parallel()
	n := labels.Default()
	w := newWorld(t, n.Stop)
	at := func(ev forge.Event) forge.Event { ev.At = w.clock.Now(); return ev }
	hook := at(labeled(n.Stop, ada(), 0))
	if row := w.decided(hook); row.Decision != "stop" || !w.stopped(7) {
		t.Fatalf("%q, stopped %v", row.Decision, w.stopped(7))
	}
	poll := at(labeled(n.Stop, ada(), 31))
	w.decided(said(ada(), 60, "/pipeline resume"))
	for range 2 {
		if row := w.decided(poll); row.Explanation != "seen before" || w.stopped(7) {
			t.Errorf("%q (%s), stopped %v", row.Decision, row.Explanation, w.stopped(7))
		}
	}
	if w.decided(at(labeled(n.Stop, ada(), 32))); !w.stopped(7) {
		t.Error("the second stop is not obeyed")
	}
}

// News of a pull request wakes the run that backs off from it, and no other.
func TestNews(t *testing.T) {
	t.Parallel()
	rest := func(w *world, number int, state string) checkpoints.Run {
		run, l := w.run(number, labels.Review, checkpoints.Running, "")
		err := w.store.Commit(t.Context(), l, checkpoints.Commit{
			Record: checkpoints.NodeRecord{Seq: 1, Node: "a", Kind: "step", Visit: 1, Attempt: 1, Outcome: "ok"}, Seq: 1, Next: "ci", State: []byte(state),
		})
		if err == nil {
			err = w.store.Park(t.Context(), l, checkpoints.Wait{Node: "ci", Since: w.clock.Now(), Until: w.clock.Now().Add(time.Hour), Looks: true})
		}
		if err != nil {
			t.Fatal(err)
		}
		return run
	}
	repo := ref(0)
	for name, tt := range map[string]struct {
		ev    forge.Event
		after time.Duration
		woken bool
	}{
		"merged":            {forge.Event{Kind: forge.PullClosed, Issue: ref(12), Merged: true}, 0, true},
		"another's":         {forge.Event{Kind: forge.PullClosed, Issue: ref(13)}, 0, false},
		"a push":            {forge.Event{Kind: forge.Pushed, Issue: repo, Head: "refs/heads/pipelinebot/7-x", SHA: "bb"}, 0, true},
		"a review":          {forge.Event{Kind: forge.Reviewed, Issue: ref(12), Pull: 12}, 0, true},
		"checks":            {forge.Event{Kind: forge.ChecksChanged, Issue: repo, SHA: "aa"}, time.Minute, true},
		"checks again":      {forge.Event{Kind: forge.ChecksChanged, Issue: repo, SHA: "aa"}, time.Second, false},
		"checks of another": {forge.Event{Kind: forge.ChecksChanged, Issue: repo, SHA: "cc"}, time.Minute, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.forge.fail["Issue"] = transient() // it is not asked
			mine, other := rest(w, 7, `{"pr":12,"head_sha":"aa","branch":"pipelinebot/7-x"}`), rest(w, 8, `{"pr":14}`)
			w.clock.Advance(tt.after)
			row := w.decided(tt.ev)
			if got := w.get(mine.ID).Status == checkpoints.Ready; got != tt.woken {
				t.Errorf("woken: %v; %q (%s)", got, row.Decision, row.Explanation)
			}
			if w.get(other.ID).Status != checkpoints.Waiting {
				t.Error("another run was woken")
			}
		})
	}
}

// Events of which nothing follows cost no request.
func TestIdleEvents(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.forge.fail["Issue"] = transient()
	for _, ev := range []forge.Event{
		{Kind: forge.CommentEdited, Issue: ref(7)}, {Kind: forge.IssueReopened, Issue: ref(7)}, {Kind: forge.LabelChanged, Issue: ref(0)},
		{Kind: forge.RepoChanged, Issue: ref(0)}, {Kind: forge.InstallationChanged}, {Kind: forge.MemberChanged, Issue: ref(0)},
		{Kind: forge.IssueOpened, Issue: ref(7)}, {Kind: forge.IssueEdited, Issue: ref(7)}, {Kind: forge.IssueClosed, Issue: ref(7)},
		said(rob(), 3, "me too"), labeled("bug", ada(), 5),
	} {
		if row := w.decided(ev); row.Decision != "ignore" || row.Explanation == "" {
			t.Errorf("%s: %q (%s)", ev.Kind, row.Decision, row.Explanation)
		}
	}
}

// An edited text answers the question once, and only with something new.
func TestEditAnswers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	i := w.forge.issues[7]
	i.Title, i.Body = "Total", "is wrong"
	w.forge.issues[7] = i
	run, l := w.run(7, labels.Triage, checkpoints.Running, "")
	edit := forge.Event{Kind: forge.IssueEdited, Issue: ref(7), Actor: rob(), Source: "webhook"}
	early := w.give(edit)
	if got, err := w.handle(early); got != "" || err != nil {
		t.Errorf("before the question: %q, %v", got, err)
	}
	state := fmt.Sprintf(`{"text_hash":%q}`, issue.TextHash("Total", "is wrong"))
	if err := w.store.Commit(t.Context(), l, checkpoints.Commit{
		Record: checkpoints.NodeRecord{Seq: 1, Node: "a", Kind: "step", Visit: 1, Attempt: 1, Outcome: "ok"}, Seq: 1, Next: "w", State: []byte(state),
		Park: &checkpoints.Wait{Node: "w", Event: "answer"},
	}); err != nil {
		t.Fatal(err)
	}
	if got, err := w.handle(early); got != "ignore" || err != nil {
		t.Errorf("a text that was read: %q, %v", got, err)
	}
	i.Body = "is one too high in order 4711"
	w.forge.issues[7] = i
	if row := w.decided(edit); row.Decision != "deliver" || w.get(run.ID).Status != checkpoints.Ready {
		t.Errorf("%q (%s), run %s", row.Decision, row.Explanation, w.get(run.ID).Status)
	}
}

// Looks are bounded a day in a repository, and once an issue.
func TestLooks(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.d.Machine.Policy.Outsiders = true
	for number, want := range map[int]string{7: "look"} {
		if row := w.decided(forge.Event{Kind: forge.IssueOpened, Issue: ref(number), Actor: rob(), Source: "webhook"}); row.Decision != want {
			t.Errorf("#%d: %q (%s)", number, row.Decision, row.Explanation)
		}
	}
	runs := w.runs()
	if len(runs) != 1 || runs[0].Mode != checkpoints.ModeShadow || !handoff.IsLook(runs[0]) {
		t.Fatalf("runs = %+v", runs)
	}
	for i, want := range []string{"look", "ignore"} {
		number := 20 + i
		w.forge.issues[number] = forge.Issue{Ref: ref(number), Open: true, Author: rob()}
		if row := w.decided(forge.Event{Kind: forge.IssueOpened, Issue: ref(number), Actor: rob(), Source: "webhook"}); row.Decision != want {
			t.Errorf("#%d: %q (%s)", number, row.Decision, row.Explanation)
		}
	}
	if len(w.forge.calls) != 0 {
		t.Errorf("writes: %v", w.forge.calls)
	}
}
