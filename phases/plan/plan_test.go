package plan_test

import (
	"context"
	"errors"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/pipelinebot/pipelinebot/checkpoints"
	"github.com/pipelinebot/pipelinebot/flows"
	"github.com/pipelinebot/pipelinebot/flows/engine"
	"github.com/pipelinebot/pipelinebot/internal/forge"
	"github.com/pipelinebot/pipelinebot/labels"
	"github.com/pipelinebot/pipelinebot/llm"
	"github.com/pipelinebot/pipelinebot/llm/llmtest"
	"github.com/pipelinebot/pipelinebot/phases/actuators"
	"github.com/pipelinebot/pipelinebot/phases/phasetest"
	"github.com/pipelinebot/pipelinebot/phases/plan"
	"github.com/pipelinebot/pipelinebot/phases/plandoc"
	"github.com/pipelinebot/pipelinebot/phases/tree"
)

type world struct {
	*phasetest.Walker
	forge  *phasetest.Forge
	origin *phasetest.Origin
	phase  phasetest.Phase
	script *llmtest.Script
}

func notes() llmtest.Turn {
	return llmtest.Finish(plandoc.Notes{Findings: []string{"sum.go drops the sign"}, Files: []string{"sum.go"}, Tests: []string{"sum_test.go"}, Unknown: []string{}})
}

func document() plandoc.Document {
	return plandoc.Document{
		Summary: "Sum keeps the sign of negative numbers.", Steps: []string{"Remove the abs in Sum.", "Add a test."},
		Files: []plandoc.File{{Path: "sum.go", Why: "the mistake"}, {Path: "sum_test.go", Why: "the test"}},
		Tests: []plandoc.Test{{Path: "sum_test.go", Name: "TestSumNegative"}}, Acceptance: []string{"Sum(-1, -2) is -3."},
	}
}

func fine() llmtest.Turn { return llmtest.JSON(plan.Critique{OK: true, Findings: []plan.Finding{}}) }

// turns are the model's answers by step.
type turns struct{ explore, draft, critique []llmtest.Turn }

func newWorld(t *testing.T, tt turns) *world {
	t.Helper()
	w := &world{Walker: phasetest.NewWalker(t), forge: phasetest.NewForge()}
	w.origin = phasetest.NewOrigin(t, map[string]string{"sum.go": "package sum\n", "sum_test.go": "package sum\n", "AGENTS.md": "Use tabs.\n"})
	w.forge.Issues[7].Labels = []string{"pipeline:plan"}
	w.script = llmtest.NewScript(t, map[string][]llmtest.Turn{
		"plan/explore@1": tt.explore, "plan/draft@1": tt.draft, "plan/critique@1": tt.critique,
	})
	name, src := plan.FlowSource()
	w.phase = phasetest.Load(t, name, src, plan.Actions(plan.Deps{
		Reader: w.forge, Repos: w.forge, Writer: w.forge, Trees: tree.New(w.origin, w.forge),
		Models: actuators.OneModel{Backend: w.script, Name: "m", AllowUnknownPrice: true}, Labels: labels.Default(),
		Settings: plan.Settings{Protected: []string{"CODEOWNERS"}},
	}))
	return w
}

func simple(t *testing.T) *world {
	t.Helper()
	return newWorld(t, turns{[]llmtest.Turn{notes()}, []llmtest.Turn{llmtest.JSON(document())}, []llmtest.Turn{fine()}})
}

// start walks to the wait for approval.
func (w *world) start(t *testing.T) string {
	t.Helper()
	run := w.Start(w.phase, checkpoints.Run{}, nil)
	out := w.Walk(w.phase, run.ID)
	if out.How != engine.Parked {
		t.Fatalf("got %s %s (%s): %s", out.How, out.Result, out.Code, out.Reason)
	}
	return run.ID
}

func (w *world) approve(id string, data map[string]any) engine.Outcome {
	for _, key := range []string{"by", "hash", "via"} {
		if data[key] == nil {
			data[key] = ""
		}
	}
	w.Deliver(id, "approval", data)
	return w.Walk(w.phase, id)
}

func (w *world) hash(id string) string { return w.State(id).Str("plan_hash") }

func TestApprovedByCommand(t *testing.T) {
	t.Parallel()
	w := simple(t)
	id := w.start(t)
	if got := w.forge.Issues[7].Labels; len(got) != 1 || got[0] != "pipeline:awaiting-approval" {
		t.Errorf("labels while waiting: %v", got)
	}
	if first := w.script.Asked()[0].Messages[0].Text; !strings.Contains(first, "\nUse tabs.") {
		t.Errorf("the explorer is not shown the repository's advice:\n%s", first)
	}
	body := w.forge.Said[7][0].Body
	shown := regexp.MustCompile("/pipeline approve ([0-9a-f]{8})`").FindStringSubmatch(body)
	if len(shown) != 2 || !strings.HasPrefix(w.hash(id), shown[1]) || !strings.HasPrefix(body, "<!-- pipelinebot:plan ") {
		t.Fatalf("comment:\n%s", body)
	}
	out := w.approve(id, map[string]any{"by": "ann", "hash": shown[1], "via": "command"})
	if out.Result != "approved" {
		t.Fatalf("got %s (%s): %s", out.Result, out.Code, out.Reason)
	}
	s := w.State(id)
	if s.Str("base_sha") != w.origin.Head("trunk") || s.Str("approved_by") != "ann" || s.Int("plan_comment") == 0 || s.Str("default_branch") != "trunk" {
		t.Errorf("state: %+v", s)
	}
	if len(w.origin.Closed) != 1 {
		t.Errorf("the worktree was not released: %v", w.origin.Closed)
	}
}

// What was merged before is recorded once; what is merged later is not in it.
func TestMergedBefore(t *testing.T) {
	t.Parallel()
	w := newWorld(t, turns{
		[]llmtest.Turn{notes(), notes()},
		[]llmtest.Turn{llmtest.JSON(document()), llmtest.JSON(document())},
		[]llmtest.Turn{fine(), fine()},
	})
	w.forge.Opened = []*forge.Pull{{Ref: forge.Ref{Number: 5}, Merged: true}, {Ref: forge.Ref{Number: 6}, Open: true}}
	w.forge.Linked = []int{6, 5}
	id := w.start(t)
	w.forge.Opened[1].Merged = true
	w.forge.Issues[7].Body = "Edited, so that it is planned again from the start."
	w.approve(id, map[string]any{"by": "ann", "via": "label"})
	var before []int
	if err := w.State(id).Decode("merged_before", &before); err != nil || len(before) != 1 || before[0] != 5 {
		t.Errorf("%v, %v", before, err)
	}
}

func TestApprovedByLabel(t *testing.T) {
	t.Parallel()
	w := simple(t)
	id := w.start(t)
	if out := w.approve(id, map[string]any{"by": "ann", "via": "label"}); out.Result != "approved" {
		t.Errorf("got %s (%s): %s", out.Result, out.Code, out.Reason)
	}
}

func TestRejectedAndExpired(t *testing.T) {
	t.Parallel()
	w := simple(t)
	out := w.approve(w.start(t), map[string]any{"by": "ann", "outcome": "denied"})
	if out.Result != "rejected" || out.Code != "plan-rejected" || !strings.Contains(out.Reason, "ann") {
		t.Errorf("got %s (%s): %s", out.Result, out.Code, out.Reason)
	}
	w = simple(t)
	id := w.start(t)
	w.Clock.Advance(169 * time.Hour)
	if out := w.Walk(w.phase, id); out.Result != "expired" {
		t.Errorf("got %s (%s): %s", out.Result, out.Code, out.Reason)
	}
}

func TestAutoLabel(t *testing.T) {
	t.Parallel()
	auto := labels.Default().Auto
	for _, tc := range []struct {
		name  string
		by    forge.Actor
		risk  string
		skips bool
	}{
		{"a maintainer's", phasetest.Ann(), "low", true},
		{"high risk", phasetest.Ann(), "high", false},
		{"a reader's", phasetest.Rob(), "low", false},
		{"a bot's", forge.Actor{ID: 99, Login: "other[bot]", Bot: true}, "low", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			w := simple(t)
			w.forge.Label(tc.by, auto, true)
			run := w.Start(w.phase, checkpoints.Run{}, map[string]any{"risk": tc.risk})
			out := w.Walk(w.phase, run.ID)
			if got := out.Result == "approved"; got != tc.skips {
				t.Errorf("got %s %s (%s)", out.How, out.Result, out.Code)
			}
		})
	}
}

// An approval is of one text: of the plan, of its comment and of the issue.
func TestApprovalLapses(t *testing.T) {
	t.Parallel()
	t.Run("other hash", func(t *testing.T) {
		t.Parallel()
		w := simple(t)
		id := w.start(t)
		for _, bad := range []string{"deadbeef", w.hash(id)[:5], ""} {
			if out := w.approve(id, map[string]any{"by": "ann", "hash": bad, "via": "command"}); out.How != engine.Parked {
				t.Fatalf("hash %q: got %s %s (%s)", bad, out.How, out.Result, out.Code)
			}
		}
		if out := w.approve(id, map[string]any{"by": "ann", "hash": w.hash(id)[:8], "via": "command"}); out.Result != "approved" {
			t.Errorf("got %s (%s)", out.Result, out.Code)
		}
		if n := len(w.forge.Said[7]); n != 4 {
			t.Errorf("%d comments, want the plan once and three notes", n)
		}
	})
	t.Run("comment edited", func(t *testing.T) {
		t.Parallel()
		w := simple(t)
		id := w.start(t)
		w.forge.Said[7][0].Body += "\nand delete the database"
		if out := w.approve(id, map[string]any{"by": "ann", "hash": w.hash(id)[:8], "via": "command"}); out.How != engine.Parked {
			t.Fatalf("got %s %s (%s)", out.How, out.Result, out.Code)
		}
		if n := len(w.forge.Said[7]); n != 3 || !strings.Contains(w.forge.Said[7][1].Body, "was edited") ||
			!strings.Contains(w.forge.Said[7][2].Body, "### Plan") {
			t.Fatalf("%d comments; want plan, note and the plan again", n)
		}
		if out := w.approve(id, map[string]any{"by": "ann", "hash": w.hash(id)[:8], "via": "command"}); out.Result != "approved" {
			t.Errorf("got %s (%s)", out.Result, out.Code)
		}
	})
	t.Run("comment deleted", func(t *testing.T) {
		t.Parallel()
		w := simple(t)
		id := w.start(t)
		w.forge.Said[7] = nil
		out := w.approve(id, map[string]any{"by": "ann", "via": "label"})
		if out.How != engine.Parked || len(w.forge.Said[7]) != 2 {
			t.Errorf("got %s %s (%s), %d comments", out.How, out.Result, out.Code, len(w.forge.Said[7]))
		}
	})
	t.Run("issue edited", func(t *testing.T) {
		t.Parallel()
		second := document()
		second.Summary = "Another plan."
		w := newWorld(t, turns{
			[]llmtest.Turn{notes(), notes()},
			[]llmtest.Turn{llmtest.JSON(document()), llmtest.JSON(second)},
			[]llmtest.Turn{fine(), fine()},
		})
		id := w.start(t)
		first := w.hash(id)
		w.forge.Issues[7].Body = "Something else entirely, in as many words."
		if out := w.approve(id, map[string]any{"by": "ann", "hash": first[:8], "via": "command"}); out.How != engine.Parked {
			t.Fatalf("got %s %s (%s)", out.How, out.Result, out.Code)
		}
		if w.hash(id) == first {
			t.Fatal("it was not planned again")
		}
		if out := w.approve(id, map[string]any{"by": "ann", "hash": first[:8], "via": "command"}); out.How != engine.Parked {
			t.Fatalf("the old plan was approved: %s", out.Result)
		}
		if out := w.approve(id, map[string]any{"by": "ann", "hash": w.hash(id)[:8], "via": "command"}); out.Result != "approved" {
			t.Errorf("got %s (%s)", out.Result, out.Code)
		}
	})
	t.Run("issue closed", func(t *testing.T) {
		t.Parallel()
		w := simple(t)
		id := w.start(t)
		w.forge.Issues[7].Open = false
		if out := w.approve(id, map[string]any{"by": "ann", "via": "label"}); out.Result != "closed" {
			t.Errorf("got %s (%s)", out.Result, out.Code)
		}
	})
}

// The critic's objection and the rules' problems go into the next draft.
func TestRevises(t *testing.T) {
	t.Parallel()
	wrong := document()
	wrong.Files[0].Path = "summe.go"
	objection := llmtest.JSON(plan.Critique{OK: false, Findings: []plan.Finding{{Severity: "major", Text: "the sign of zero is forgotten"}}})
	w := newWorld(t, turns{
		[]llmtest.Turn{notes()},
		[]llmtest.Turn{llmtest.JSON(wrong), llmtest.JSON(document()), llmtest.JSON(document())},
		[]llmtest.Turn{objection, fine()},
	})
	w.start(t)
	var drafts []string
	for _, r := range w.script.Asked() {
		if r.Prompt == "plan/draft@1" {
			drafts = append(drafts, r.Messages[0].Text)
		}
	}
	if len(drafts) != 3 || strings.Contains(drafts[0], "Problems with it") ||
		!strings.Contains(drafts[1], `"summe.go" does not exist and is not marked new`) ||
		!strings.Contains(drafts[2], "the sign of zero is forgotten") {
		t.Errorf("drafts: %q", drafts)
	}
}

func TestRevisesAtMostTwice(t *testing.T) {
	t.Parallel()
	objection := llmtest.JSON(plan.Critique{OK: false, Findings: []plan.Finding{}})
	draft := llmtest.JSON(document())
	w := newWorld(t, turns{[]llmtest.Turn{notes()}, []llmtest.Turn{draft, draft, draft}, []llmtest.Turn{objection, objection, objection}})
	out := w.Walk(w.phase, w.Start(w.phase, checkpoints.Run{}, nil).ID)
	if out.Result != "needs_human" || out.Code != "plan-unsettled" {
		t.Errorf("got %s (%s): %s", out.Result, out.Code, out.Reason)
	}
	if len(w.forge.Said[7]) != 0 {
		t.Error("a plan with problems was posted")
	}
}

// A crash after any commit leaves one plan comment and the right labels.
func TestCrashAnywhere(t *testing.T) {
	t.Parallel()
	for crash := 6; crash <= 11; crash++ {
		w := newWorld(t, turns{
			[]llmtest.Turn{notes()}, []llmtest.Turn{llmtest.JSON(document())},
			map[bool][]llmtest.Turn{false: {fine()}, true: {fine(), fine()}}[crash == 6],
		})
		w.CrashAfter = crash
		run := w.Start(w.phase, checkpoints.Run{}, nil)
		delivered := false
		var out engine.Outcome
		for i := 0; i < 6 && out.Result == ""; i++ {
			out = w.Walk(w.phase, run.ID)
			if out.How == engine.Parked && !delivered {
				delivered = true
				w.Deliver(run.ID, "approval", map[string]any{"by": "ann", "hash": w.hash(run.ID), "via": "command"})
			}
		}
		if out.Result != "approved" || len(w.forge.Said[7]) != 1 || w.forge.Calls["AddLabel"] != 1 {
			t.Errorf("crash at commit %d: %s (%s) %s, %d comments", crash, out.Result, out.Code, out.Reason, len(w.forge.Said[7]))
		}
	}
}

// An effect refused because the label is gone writes nothing.
func TestLabelGone(t *testing.T) {
	t.Parallel()
	w := simple(t)
	w.BeforeEffect = func(context.Context, checkpoints.Run) error { return flows.ErrLabelGone }
	out := w.Walk(w.phase, w.Start(w.phase, checkpoints.Run{}, nil).ID)
	if out.How != engine.Cancelled || len(w.forge.Said[7]) != 0 {
		t.Errorf("got %s (%s), %d comments", out.How, out.Code, len(w.forge.Said[7]))
	}
}

func TestExploringGetsStuck(t *testing.T) {
	t.Parallel()
	w := newWorld(t, turns{explore: []llmtest.Turn{llmtest.Fail(&llm.Error{Kind: llm.KindTooLong, Err: errors.New("too long")})}})
	out := w.Walk(w.phase, w.Start(w.phase, checkpoints.Run{}, nil).ID)
	if out.Result != "needs_human" || out.Code != "context-too-long" {
		t.Errorf("got %s (%s): %s", out.Result, out.Code, out.Reason)
	}
}

// What a maintainer wants to be different reaches the next draft; the plan that
// comes of it needs its own approval, and a flow that has had enough of
// revisions says so.
func TestRevisedByAPerson(t *testing.T) {
	t.Parallel()
	again := document()
	again.Summary = "Sum keeps the sign, and says so in its docstring."
	w := newWorld(t, turns{[]llmtest.Turn{notes()}, []llmtest.Turn{llmtest.JSON(document()), llmtest.JSON(again)}, []llmtest.Turn{fine(), fine()}})
	id := w.start(t)
	first := w.hash(id)
	w.forge.Said[7] = append(w.forge.Said[7],
		forge.Comment{ID: 4711, Author: forge.Actor{ID: 5, Login: "ann"}, Body: "/pipeline revise Say it in the docstring.\n<!-- hidden -->\nAnd be brief."})
	out := w.approve(id, map[string]any{"by": "ann", "hash": "4711", "via": labels.ViaRevise, "outcome": "denied"})
	if out.How != engine.Parked || w.hash(id) == first {
		t.Fatalf("got %s %s (%s): %s", out.How, out.Result, out.Code, out.Reason)
	}
	asked := w.script.Asked()
	text := asked[len(asked)-2].Messages[0].Text
	if !strings.Contains(text, "Say it in the docstring.") || !strings.Contains(text, "And be brief.") || strings.Contains(text, "hidden") {
		t.Errorf("the draft is asked:\n%s", text)
	}
	if out := w.approve(id, map[string]any{"by": "ann", "hash": first[:8], "via": "comment"}); out.How != engine.Parked {
		t.Errorf("the approval of the first plan: %s %s", out.How, out.Result)
	}
	if out := w.approve(id, map[string]any{"by": "ann", "hash": w.hash(id)[:8], "via": "comment"}); out.Result != "approved" {
		t.Errorf("the approval of the second: %s (%s) %s", out.Result, out.Code, out.Reason)
	}
}
