package review_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pipelinebot/pipelinebot/checkpoints"
	"github.com/pipelinebot/pipelinebot/flows/engine"
	"github.com/pipelinebot/pipelinebot/internal/command"
	"github.com/pipelinebot/pipelinebot/internal/forge"
	"github.com/pipelinebot/pipelinebot/llm/llmtest"
	"github.com/pipelinebot/pipelinebot/phases/actuators"
	"github.com/pipelinebot/pipelinebot/phases/blob"
	"github.com/pipelinebot/pipelinebot/phases/gates"
	"github.com/pipelinebot/pipelinebot/phases/issue"
	"github.com/pipelinebot/pipelinebot/phases/phasetest"
	"github.com/pipelinebot/pipelinebot/phases/plandoc"
	"github.com/pipelinebot/pipelinebot/phases/review"
	"github.com/pipelinebot/pipelinebot/phases/tree"
)

const branch = "pipelinebot/7-lineage0"

type world struct {
	*phasetest.Walker
	t      *testing.T
	forge  *phasetest.Forge
	origin *phasetest.Origin
	phase  phasetest.Phase
	script *llmtest.Script
	input  map[string]any
	tested int
	tests  string // the test program's output
}

func found(list ...review.Finding) review.Findings {
	if list == nil {
		list = []review.Finding{}
	}
	return review.Findings{Summary: "It fixes the sum.", Findings: list}
}

// round is the model's answers of one review: both reviewers say the same, and
// the synthesis agrees.
type round []review.Finding

func newWorld(t *testing.T, settings review.Settings, rounds ...round) *world {
	t.Helper()
	w := &world{Walker: phasetest.NewWalker(t), t: t, forge: phasetest.NewForge(), tests: "3 passed, 0 failed\n"}
	w.origin = phasetest.NewOrigin(t, map[string]string{"sum.txt": "one\ntwo\nthree\n"})
	base := w.origin.Head("trunk")
	w.origin.Branch(branch)
	w.origin.PushAs(branch, "sum.txt", "one\n2\nthree\n")
	w.forge.Head = w.origin.Head
	w.forge.Opened = []*forge.Pull{{Ref: forge.Ref{Repo: phasetest.Repo(), Number: 8}, Open: true, Head: branch, Author: phasetest.Bot()}}
	turns := map[string][]llmtest.Turn{}
	for _, r := range rounds {
		turns["review/correctness@1"] = append(turns["review/correctness@1"], llmtest.Finish(found(r...)))
		turns["review/safety@1"] = append(turns["review/safety@1"], llmtest.Finish(found(r...)))
		turns["review/synthesis@1"] = append(turns["review/synthesis@1"], llmtest.JSON(found(r...)))
	}
	w.models(turns)
	settings.Test.Argv = []string{"check"}
	name, src := review.FlowSource()
	w.phase = phasetest.Load(t, name, src, review.Actions(review.Deps{
		Forge: w.forge, Issues: w.forge, Trees: tree.New(w.origin, w.forge), Settings: settings,
		Models: w,
		Runner: phasetest.Runner(func(_ context.Context, s command.Spec) (command.Result, error) {
			w.tested++
			b, err := os.ReadFile(filepath.Join(s.Dir, "sum.txt"))
			if err != nil || string(b) != "one\n2\nthree\n" {
				t.Errorf("the tests ran on %q, %v", b, err)
			}
			return command.Result{ExitCode: strings.Count(w.tests, "FAIL"), Output: []byte(w.tests), Stdout: []byte(w.tests)}, nil
		}),
	}))
	w.input = map[string]any{
		"pr": 8, "branch": branch, "head_sha": w.origin.Head(branch), "base_sha": base, "default_branch": "trunk",
		"plan_ref":  w.put(plandoc.Document{Summary: "Fix.", Steps: []string{"x"}, Files: []plandoc.File{{Path: "sum.txt"}}}),
		"issue_ref": w.put(issue.Snapshot{Ref: phasetest.Ref(), Title: "Sum is wrong"}),
	}
	return w
}

func (w *world) models(turns map[string][]llmtest.Turn) { w.script = llmtest.NewScript(w.t, turns) }

// For implements actuators.Models.
func (w *world) For(string) (actuators.Model, error) {
	return actuators.Model{Backend: w.script, Name: "m", AllowUnknownPrice: true}, nil
}

func (w *world) put(v any) checkpoints.Artifact {
	w.t.Helper()
	a, err := blob.PutJSON(w.t.Context(), w.Artifacts, "input", v)
	if err != nil {
		w.t.Fatal(err)
	}
	return a
}

func (w *world) run(before checkpoints.Run) (engine.Outcome, checkpoints.Run) {
	w.t.Helper()
	run := w.Start(w.phase, before, w.input)
	return w.Walk(w.phase, run.ID), w.Run(run.ID)
}

func expect(t *testing.T, out engine.Outcome, result, code string) {
	t.Helper()
	if out.Result != result || out.Code != code {
		t.Errorf("got %s %s (%s): %s; want %s (%s)", out.How, out.Result, out.Code, out.Reason, result, code)
	}
}

var nit = review.Finding{Severity: review.Nit, Path: "sum.txt", Line: 2, Text: "say two, @octocat"}

func TestApproved(t *testing.T) {
	t.Parallel()
	w := newWorld(t, review.Settings{}, round{nit})
	out, run := w.run(checkpoints.Run{})
	expect(t, out, "approved", "")
	if len(w.forge.Sent) != 1 || w.tested != 1 {
		t.Fatalf("%d reviews, tests ran %d times", len(w.forge.Sent), w.tested)
	}
	sent := w.forge.Sent[0]
	// The bot opened it, so it may only comment.
	if sent.Event != "COMMENT" || sent.SHA != w.input["head_sha"] || !strings.Contains(sent.Body, "### Approved (round 1)") {
		t.Errorf("review: %s at %s\n%s", sent.Event, sent.SHA, sent.Body)
	}
	if len(sent.Comments) != 1 || sent.Comments[0].Line != 2 || strings.Contains(sent.Comments[0].Body, "@octocat") {
		t.Errorf("inline: %+v", sent.Comments)
	}
	if ev := w.State(run.ID).Artifact("evidence_ref"); !blob.Set(ev) {
		t.Error("no evidence is kept")
	}
}

func TestOthersPullRequestIsApprovedOrRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t, review.Settings{}, nil, round{{Severity: review.Major, Path: "sum.txt", Line: 99, Text: "wrong"}})
	w.forge.Opened[0].Author = phasetest.Ann()
	out, _ := w.run(checkpoints.Run{})
	expect(t, out, "approved", "")
	out, _ = w.run(checkpoints.Run{})
	expect(t, out, "changes_requested", "")
	if got := []string{w.forge.Sent[0].Event, w.forge.Sent[1].Event}; got[0] != "APPROVE" || got[1] != "REQUEST_CHANGES" {
		t.Errorf("events %v", got)
	}
	// Line 99 is not on the diff: the finding stands in the body.
	if n := w.forge.Sent[1]; len(n.Comments) != 0 || !strings.Contains(n.Body, "sum.txt:99") {
		t.Errorf("comments %+v, body:\n%s", n.Comments, n.Body)
	}
}

// Changes are requested, made, and approved in the next round.
func TestChangesRequestedThenApproved(t *testing.T) {
	t.Parallel()
	major := review.Finding{Severity: review.Major, Path: "sum.txt", Line: 2, Text: "zero is forgotten"}
	w := newWorld(t, review.Settings{}, round{major}, round{nit})
	out, first := w.run(checkpoints.Run{})
	expect(t, out, "changes_requested", "")
	got, err := blob.GetJSON[review.Findings](t.Context(), w.Artifacts, "", w.State(first.ID).Artifact("findings_ref"))
	if err != nil || len(got.Findings) != 1 || got.Findings[0] != major {
		t.Fatalf("findings %+v, %v", got, err)
	}
	w.input["head_sha"] = w.origin.Rewrite(branch, "sum.txt", "one\n2\nthree\n", "again")
	out, second := w.run(first)
	expect(t, out, "approved", "")
	if second.Round != 2 || len(w.forge.Sent) != 2 || !strings.Contains(w.forge.Sent[1].Body, "round 2") {
		t.Errorf("round %d, %d reviews", second.Round, len(w.forge.Sent))
	}
	if text := w.script.Asked()[3].Messages[0].Text; !strings.Contains(text, "zero is forgotten") {
		t.Errorf("the second round does not know the first:\n%s", text)
	}
}

func TestRoundsEnd(t *testing.T) {
	t.Parallel()
	major := round{{Severity: review.Major, Text: "still wrong"}}
	w := newWorld(t, review.Settings{MaxRounds: 2}, major, major)
	_, first := w.run(checkpoints.Run{})
	out, _ := w.run(first)
	expect(t, out, "needs_human", "review-unsettled")
	if !strings.Contains(out.Reason, "After 2 rounds") || w.forge.Sent[1].Event != "COMMENT" {
		t.Errorf("%s, %s", out.Reason, w.forge.Sent[1].Event)
	}
}

func TestTestsAtThisCommit(t *testing.T) {
	t.Parallel()
	w := newWorld(t, review.Settings{}, round{})
	w.tests = "--- FAIL: TestSum (0.00s)\n2 passed, 1 failed\n"
	out, run := w.run(checkpoints.Run{})
	expect(t, out, "changes_requested", "")
	got, err := blob.GetJSON[review.Findings](t.Context(), w.Artifacts, "", w.State(run.ID).Artifact("findings_ref"))
	if err != nil || len(got.Findings) != 1 || got.Findings[0].Severity != review.Blocker {
		t.Errorf("findings %+v, %v", got, err)
	}
	// Evidence of exactly this content is used again; other evidence is not.
	for tree, runs := range map[string]int{w.origin.Tree(branch): 0, "other": 1} {
		w := newWorld(t, review.Settings{}, round{})
		w.input["evidence_ref"] = w.put(gates.Evidence{Passed: true, Tree: tree, Reason: "3 tests passed"})
		out, _ := w.run(checkpoints.Run{})
		expect(t, out, "approved", "")
		if w.tested != runs {
			t.Errorf("with evidence of %s the tests ran %d times, want %d", tree, w.tested, runs)
		}
	}
}

func TestCI(t *testing.T) {
	t.Parallel()
	done := func(name, conclusion string) forge.Check {
		return forge.Check{Name: name, Done: true, Conclusion: conclusion}
	}
	t.Run("failure", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, review.Settings{}, round{})
		w.forge.CI[w.input["head_sha"].(string)] = []forge.Check{done("build", "success"), done("lint", "cancelled")}
		out, _ := w.run(checkpoints.Run{})
		expect(t, out, "changes_requested", "")
		if !strings.Contains(w.forge.Sent[0].Body, "lint (cancelled)") {
			t.Error(w.forge.Sent[0].Body)
		}
	})
	t.Run("pending, then success", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, review.Settings{}, round{})
		sha := w.input["head_sha"].(string)
		w.forge.CI[sha] = []forge.Check{{Name: "build"}}
		run := w.Start(w.phase, checkpoints.Run{}, w.input)
		if out := w.Walk(w.phase, run.ID); out.How != engine.Parked {
			t.Fatalf("got %s %s (%s): %s", out.How, out.Result, out.Code, out.Reason)
		}
		w.forge.CI[sha] = []forge.Check{done("build", "success")}
		w.Clock.Advance(2 * time.Minute)
		expect(t, w.Walk(w.phase, run.ID), "approved", "")
	})
	t.Run("pending for ever", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, review.Settings{CITries: 3}, round{})
		w.forge.CI[w.input["head_sha"].(string)] = []forge.Check{{Name: "build"}}
		run := w.Start(w.phase, checkpoints.Run{}, w.input)
		var out engine.Outcome
		for i := 0; i < 10 && out.Result == ""; i++ {
			out = w.Walk(w.phase, run.ID)
			w.Clock.Advance(2 * time.Minute)
		}
		expect(t, out, "needs_human", "review-unsettled")
		if !strings.Contains(out.Reason, "CI did not end in time") || w.forge.Calls["Checks"] != 3 {
			t.Errorf("%s, after %d looks", out.Reason, w.forge.Calls["Checks"])
		}
	})
}

func TestAdmission(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name         string
		change       func(w *world)
		result, code string
	}{
		{"no pull request", func(w *world) { w.input["pr"], w.input["branch"] = 0, "" }, "needs_human", "no-pull"},
		{"gone", func(w *world) { w.forge.Opened = nil }, "needs_human", "no-pull"},
		{"merged", func(w *world) { w.forge.Opened[0].Open, w.forge.Opened[0].Merged = false, true }, "merged", "pull-merged"},
		{"merged and issue closed", func(w *world) {
			w.forge.Opened[0].Open, w.forge.Opened[0].Merged = false, true
			w.forge.Issues[7].Open = false
		}, "merged", "pull-merged"},
		{"closed", func(w *world) { w.forge.Opened[0].Open = false }, "closed", "pull-closed"},
		{"issue closed", func(w *world) { w.forge.Issues[7].Open = false }, "closed", "issue-closed"},
		{"pushed to by somebody", func(w *world) { w.origin.PushAs(branch, "more.txt", "x\n") }, "needs_human", "head-moved"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, review.Settings{})
			tc.change(w)
			out, _ := w.run(checkpoints.Run{})
			expect(t, out, tc.result, tc.code)
		})
	}
}

// A judge that answers garbage does not approve.
func TestGarbageIsNoApproval(t *testing.T) {
	t.Parallel()
	w := newWorld(t, review.Settings{})
	w.models(map[string][]llmtest.Turn{
		"review/correctness@1": {llmtest.Finish(found())}, "review/safety@1": {llmtest.Finish(found())},
		"review/synthesis@1": {llmtest.Say("LGTM"), llmtest.Say("LGTM!")},
	})
	out, _ := w.run(checkpoints.Run{})
	expect(t, out, "needs_human", "invalid-answer")
	if len(w.forge.Posted) != 0 {
		t.Error("a review was posted")
	}
}

// The review was sent and the process died before that was recorded.
func TestCrashAfterReview(t *testing.T) {
	t.Parallel()
	w := newWorld(t, review.Settings{}, round{nit})
	w.CrashAfter = 9
	run := w.Start(w.phase, checkpoints.Run{}, w.input)
	w.Walk(w.phase, run.ID)
	if len(w.forge.Posted) != 1 {
		t.Fatalf("%d reviews before the crash", len(w.forge.Posted))
	}
	expect(t, w.Walk(w.phase, run.ID), "approved", "")
	if len(w.forge.Posted) != 1 {
		t.Errorf("%d reviews", len(w.forge.Posted))
	}
}

// The forge refuses lines that the diff seemed to have.
func TestInlineRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t, review.Settings{}, round{nit})
	w.forge.Fail["AddReview"] = []error{&forge.Error{Kind: forge.KindInvalid, Op: "adding review", Status: 422}}
	out, _ := w.run(checkpoints.Run{})
	expect(t, out, "approved", "")
	if n := w.forge.Sent[0]; len(n.Comments) != 0 || !strings.Contains(n.Body, "sum.txt:2") {
		t.Errorf("comments %+v, body:\n%s", n.Comments, n.Body)
	}
}
