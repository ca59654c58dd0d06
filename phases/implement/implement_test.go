package implement_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/pipelinebot/pipelinebot/checkpoints"
	"github.com/pipelinebot/pipelinebot/flows/engine"
	"github.com/pipelinebot/pipelinebot/internal/command"
	"github.com/pipelinebot/pipelinebot/internal/forge"
	"github.com/pipelinebot/pipelinebot/internal/gitws"
	"github.com/pipelinebot/pipelinebot/internal/workspace"
	"github.com/pipelinebot/pipelinebot/llm"
	"github.com/pipelinebot/pipelinebot/llm/llmtest"
	"github.com/pipelinebot/pipelinebot/phases/actuators"
	"github.com/pipelinebot/pipelinebot/phases/blob"
	"github.com/pipelinebot/pipelinebot/phases/delivery"
	"github.com/pipelinebot/pipelinebot/phases/gates"
	"github.com/pipelinebot/pipelinebot/phases/implement"
	"github.com/pipelinebot/pipelinebot/phases/issue"
	"github.com/pipelinebot/pipelinebot/phases/phasetest"
	"github.com/pipelinebot/pipelinebot/phases/plandoc"
	"github.com/pipelinebot/pipelinebot/phases/tree"
	"github.com/pipelinebot/pipelinebot/phases/writer"
)

const prompt = "implement/code@1"

type world struct {
	*phasetest.Walker
	t      *testing.T
	forge  *phasetest.Forge
	origin *phasetest.Origin
	phase  phasetest.Phase
	script *llmtest.Script
	input  map[string]any
	// saved are the branches told to Deps.Saved, tested counts test runs.
	saved  []string
	tested int
}

// tests is a repository's test program: each line "fail NAME" of sum.txt is a
// failing test.
func (w *world) tests(_ context.Context, s command.Spec) (command.Result, error) {
	w.tested++
	b, err := os.ReadFile(filepath.Join(s.Dir, "sum.txt"))
	if err != nil {
		return command.Result{}, err
	}
	var out strings.Builder
	failed := 0
	for _, line := range strings.Split(string(b), "\n") {
		if name, ok := strings.CutPrefix(line, "fail "); ok {
			failed++
			fmt.Fprintf(&out, "--- FAIL: %s (0.00s)\n", name)
		}
	}
	fmt.Fprintf(&out, "%d passed, %d failed\n", 3, failed)
	return command.Result{ExitCode: min(failed, 1), Output: []byte(out.String()), Stdout: []byte(out.String()), Sandbox: "test"}, nil
}

func newWorld(t *testing.T, settings implement.Settings, turns ...llmtest.Turn) *world {
	t.Helper()
	return newWorldOn(t, func(o *phasetest.Origin) workspace.Provider { return o }, settings, turns...)
}

func newWorldOn(t *testing.T, provider func(*phasetest.Origin) workspace.Provider, settings implement.Settings, turns ...llmtest.Turn) *world {
	t.Helper()
	w := &world{Walker: phasetest.NewWalker(t), t: t, forge: phasetest.NewForge()}
	w.origin = phasetest.NewOrigin(t, map[string]string{"sum.txt": "fail TestNegative\n", "other.txt": "x\n", "AGENTS.md": "Use tabs.\n"})
	w.forge.Head = w.origin.Head
	w.forge.Meta.CloneURL = w.origin.URL()
	w.script = llmtest.NewScript(t, map[string][]llmtest.Turn{prompt: turns})
	if settings.Test.Argv == nil {
		settings.Test.Argv = []string{"check"}
	}
	settings.Identity = delivery.Identity{Name: "pipelinebot", Email: "bot@example.com"}
	name, src := implement.FlowSource()
	w.phase = phasetest.Load(t, name, src, implement.Actions(implement.Deps{
		Issues: w.forge, Pulls: w.forge, Trees: tree.New(provider(w.origin), w.forge), Runner: phasetest.Runner(w.tests),
		Models:   actuators.OneModel{Backend: w.script, Name: "m", AllowUnknownPrice: true},
		Saved:    func(_ context.Context, _, branch string) error { w.saved = append(w.saved, branch); return nil },
		Settings: settings,
	}))
	w.input = map[string]any{
		"base_sha": w.origin.Head("trunk"), "default_branch": "trunk", "plan_hash": strings.Repeat("ab", 32),
		"plan_ref": w.put(plandoc.Document{
			Summary: "Sum keeps the sign; closes #3.", Steps: []string{"Fix it."},
			Files: []plandoc.File{{Path: "sum.txt", Why: "the mistake"}},
			Tests: []plandoc.Test{{Path: "sum.txt", Name: "TestNegative"}}, Acceptance: []string{"it works"},
		}),
		"issue_ref": w.put(issue.Snapshot{Ref: phasetest.Ref(), Title: "Sum is wrong, @ann", Body: "It is."}),
		"text_hash": issue.TextHash(w.forge.Issues[7].Title, w.forge.Issues[7].Body),
	}
	return w
}

func (w *world) put(v any) checkpoints.Artifact {
	w.t.Helper()
	a, err := blob.PutJSON(w.t.Context(), w.Artifacts, "input", v)
	if err != nil {
		w.t.Fatal(err)
	}
	return a
}

// attempt is a model that writes sum.txt and finishes.
func attempt(failing ...string) []llmtest.Turn {
	text := "better\n"
	for _, f := range failing {
		text += "fail " + f + "\n"
	}
	return writing("sum.txt", text)
}

func writing(name, text string) []llmtest.Turn {
	return []llmtest.Turn{
		llmtest.Call("write_file", map[string]any{"path": name, "content": text}),
		llmtest.Finish(writer.Report{Summary: "Changed " + name}),
	}
}

func (w *world) run() (engine.Outcome, checkpoints.Run) {
	w.t.Helper()
	run := w.Start(w.phase, checkpoints.Run{}, w.input)
	return w.Walk(w.phase, run.ID), w.Run(run.ID)
}

func expect(t *testing.T, out engine.Outcome, result, code string) {
	t.Helper()
	if out.Result != result || out.Code != code {
		t.Errorf("got %s %s (%s): %s; want %s (%s)", out.How, out.Result, out.Code, out.Reason, result, code)
	}
}

// The first attempt fails, its output is in the second's input, and the second
// is published.
func TestFirstFailsThenPasses(t *testing.T) {
	t.Parallel()
	w := newWorld(t, implement.Settings{}, slices.Concat(attempt("TestZero"), attempt())...)
	out, run := w.run()
	expect(t, out, "pr_opened", "")
	branch := delivery.Branch(7, run.Lineage)
	if got := w.origin.Show(branch, "sum.txt"); got != "better\n" {
		t.Errorf("pushed %q", got)
	}
	if len(w.forge.Opened) != 1 {
		t.Fatalf("%d pull requests", len(w.forge.Opened))
	}
	pull := w.forge.Opened[0]
	if pull.Head != branch || pull.Base != "trunk" || !strings.Contains(pull.Body, "\nFixes #7\n") || strings.Contains(pull.Body, "#3") ||
		strings.Contains(pull.Title, "@ann") {
		t.Errorf("pull request: %+v", pull)
	}
	s := w.State(run.ID)
	if s.Int("pr") != pull.Ref.Number || s.Str("head_sha") != w.origin.Head(branch) || len(s.Strings("signatures")) != 2 || !s.Has("patch_ref") {
		t.Errorf("state: pr %d, head %s, signatures %v", s.Int("pr"), s.Str("head_sha"), s.Strings("signatures"))
	}
	before, err := blob.GetJSON[gates.Evidence](t.Context(), w.Artifacts, "", s.Artifact("baseline_ref"))
	if err != nil || before.Passed || !slices.Equal(before.Failing, []string{"TestNegative"}) {
		t.Errorf("baseline: %+v, %v", before, err)
	}
	after, err := blob.GetJSON[gates.Evidence](t.Context(), w.Artifacts, "", s.Artifact("evidence_ref"))
	if err != nil || !after.Passed || after.TestsRun != 3 {
		t.Errorf("evidence: %+v, %v", after, err)
	}
	asked := w.script.Asked()
	if first := asked[0].Messages[0].Text; !strings.Contains(first, "TestNegative") || !strings.Contains(first, "\nUse tabs.") || strings.Contains(first, "What failed") {
		t.Errorf("first prompt:\n%s", first)
	}
	if second := asked[2].Messages[0].Text; !strings.Contains(second, "What failed") || !strings.Contains(second, "TestZero") {
		t.Errorf("second prompt:\n%s", second)
	}
	if len(w.saved) != 0 || len(w.origin.Closed) != 1 {
		t.Errorf("saved %v, closed %v", w.saved, w.origin.Closed)
	}
}

// Repetition is noticed before another attempt is paid for, and the reason
// says what repeated. The unfinished work is kept.
func TestNoProgress(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name  string
		turns []llmtest.Turn
		says  string
	}{
		{"same patch twice", slices.Concat(attempt("TestA"), attempt("TestA")), "exactly the same content"},
		{"A-B-A", slices.Concat(attempt("TestA"), attempt("TestB"), attempt("TestA")), "went back to exactly the content of attempt 1"},
		{"nothing shrinks", slices.Concat(attempt("TestA"), attempt("TestB"), attempt("TestC")), "did not make the failing set smaller"},
		{"nothing settled", slices.Concat(attempt("TestA"), attempt("TestA", "TestB")), "settled nothing of what failed"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, implement.Settings{}, tc.turns...)
			out, run := w.run()
			expect(t, out, "no_progress", "no-progress")
			if !strings.Contains(out.Reason, tc.says) {
				t.Errorf("reason %q lacks %q", out.Reason, tc.says)
			}
			wip := delivery.WIPBranch(7, run.Lineage)
			if w.origin.Head(delivery.Branch(7, run.Lineage)) != "" || w.origin.Head(wip) == "" || !slices.Equal(w.saved, []string{wip}) {
				t.Errorf("branches: saved %v", w.saved)
			}
		})
	}
}

func TestShrinkingGoesOn(t *testing.T) {
	t.Parallel()
	w := newWorld(t, implement.Settings{}, slices.Concat(attempt("A", "B", "C", "D"), attempt("B", "C", "D"), attempt("C", "D"), attempt("D"), attempt())...)
	out, _ := w.run()
	expect(t, out, "pr_opened", "")
}

func TestAttemptsAreUsedUp(t *testing.T) {
	t.Parallel()
	w := newWorld(t, implement.Settings{}, slices.Concat(attempt("A", "B", "C", "D", "E"), attempt("B", "C", "D", "E"), attempt("C", "D", "E"), attempt("D", "E"), attempt("E"))...)
	out, _ := w.run()
	expect(t, out, "needs_human", "attempts-used-up")
	if !strings.Contains(out.Reason, "5 attempts") {
		t.Error(out.Reason)
	}
}

func TestDiffChecks(t *testing.T) {
	t.Parallel()
	// Put together here, so that no scanner takes this file's text for one.
	token := "ghp_" + "0123456789abcdefghijABCDEFGHIJ456789"
	for _, tc := range []struct {
		name         string
		turns        []llmtest.Turn
		settings     implement.Settings
		result, code string
		wip          bool
	}{
		{"nothing", []llmtest.Turn{llmtest.Finish(writer.Report{Unfinished: "it is right as it is"})}, implement.Settings{}, "empty", "empty", false},
		{"workflow", writing(".github/workflows/ci.yml", "on: push\n"), implement.Settings{}, "needs_human", "workflow-file", false},
		{"protected", writing("CODEOWNERS", "* @me\n"), implement.Settings{Rules: gates.Rules{Protected: []string{"CODEOWNERS"}}}, "needs_human", "protected-path", false},
		{"too big", writing("sum.txt", strings.Repeat("line\n", 50)), implement.Settings{Rules: gates.Rules{MaxLines: 10}}, "needs_human", "too-big", true},
		{"secret", writing("sum.txt", "token = \""+token+"\"\n"), implement.Settings{}, "needs_human", "secret", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, tc.settings, tc.turns...)
			out, _ := w.run()
			expect(t, out, tc.result, tc.code)
			if got := len(w.saved) == 1; got != tc.wip {
				t.Errorf("saved %v", w.saved)
			}
			if len(w.forge.Opened) != 0 || w.tested != 1 {
				t.Errorf("%d pull requests, tests ran %d times", len(w.forge.Opened), w.tested)
			}
		})
	}
}

// A file outside the plan is refused, told, and can be taken back.
func TestOutOfScopeIsSentBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t, implement.Settings{}, slices.Concat(writing("other.txt", "changed\n"),
		[]llmtest.Turn{
			llmtest.Call("write_file", map[string]any{"path": "other.txt", "content": "x\n"}),
			llmtest.Call("write_file", map[string]any{"path": "sum.txt", "content": "better\n"}),
			llmtest.Finish(writer.Report{Summary: "Only the plan"}),
		})...)
	out, _ := w.run()
	expect(t, out, "pr_opened", "")
	if got := w.script.Asked()[2].Messages[0].Text; !strings.Contains(got, "out-of-scope") || !strings.Contains(got, "other.txt") {
		t.Errorf("second prompt:\n%s", got)
	}
}

func TestAdmission(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name         string
		change       func(w *world)
		result, code string
	}{
		{"no plan", func(w *world) { delete(w.input, "plan_ref") }, "needs_human", "no-plan"},
		{"issue closed", func(w *world) { w.forge.Issues[7].Open = false }, "closed", "issue-closed"},
		{"issue edited", func(w *world) { w.forge.Issues[7].Body = "other" }, "needs_human", "issue-changed"},
		{"linked pull request merged", func(w *world) {
			w.forge.Opened = []*forge.Pull{{Ref: forge.Ref{Number: 5}, Merged: true, Head: "x"}}
			w.forge.Linked = []int{5}
		}, "merged", "pull-merged"},
		{"own pull request closed", func(w *world) {
			w.input["branch"] = "mine"
			w.forge.Opened = []*forge.Pull{{Ref: forge.Ref{Number: 5}, Head: "mine"}}
		}, "closed", "pull-closed"},
		{"branch gone", func(w *world) { w.input["branch"], w.input["head_sha"] = "mine", "abc" }, "needs_human", "branch-gone"},
		{"branch moved", func(w *world) { w.input["branch"], w.input["head_sha"] = "trunk", "abc" }, "needs_human", "branch-moved"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, implement.Settings{})
			tc.change(w)
			out, _ := w.run()
			expect(t, out, tc.result, tc.code)
		})
	}
}

// A pull request that was merged before somebody asked for the work does not
// end it: the issue may have been reopened.
func TestMergedBefore(t *testing.T) {
	t.Parallel()
	w := newWorld(t, implement.Settings{}, attempt()...)
	w.forge.Opened = []*forge.Pull{{Ref: forge.Ref{Number: 5}, Merged: true, Head: "x"}}
	w.forge.Linked = []int{5}
	w.input["merged_before"] = []int{4, 5}
	out, _ := w.run()
	expect(t, out, "pr_opened", "")
}

func TestTestCommandMissing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, implement.Settings{Test: gates.TestCommand{Argv: []string{}}})
	out, _ := w.run()
	expect(t, out, "needs_human", "test-command-missing")
}

// The push went through and the process died before that was recorded; then
// the same with the pull request. There is one of each in the end.
func TestCrashAroundEffects(t *testing.T) {
	t.Parallel()
	// Commits: admit, baseline, code, check_diff, verify, progress, publish,
	// open_pr, done.
	for _, crash := range []int{6, 7, 8, 9} {
		t.Run(fmt.Sprint(crash), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, implement.Settings{}, attempt()...)
			w.CrashAfter = crash
			run := w.Start(w.phase, checkpoints.Run{}, w.input)
			w.Walk(w.phase, run.ID)
			head := w.origin.Head(delivery.Branch(7, run.Lineage))
			if crash > 6 && head == "" {
				t.Fatal("nothing was pushed before the crash")
			}
			out := w.Walk(w.phase, run.ID)
			expect(t, out, "pr_opened", "")
			if len(w.forge.Opened) != 1 {
				t.Errorf("%d pull requests", len(w.forge.Opened))
			}
			if now := w.origin.Head(delivery.Branch(7, run.Lineage)); crash > 6 && now != head {
				t.Errorf("the branch went from %s to %s", head, now)
			}
		})
	}
}

func TestPullRequestIsAdopted(t *testing.T) {
	t.Parallel()
	w := newWorld(t, implement.Settings{}, attempt()...)
	w.forge.Fail["PullsByHead"] = []error{nil}
	w.forge.Fail["OpenPull"] = []error{&forge.Error{Kind: forge.KindConflict, Op: "opening pull request", Status: 422}}
	run := w.Start(w.phase, checkpoints.Run{}, w.input)
	w.forge.Opened = append(w.forge.Opened, &forge.Pull{Ref: forge.Ref{Number: 55}, Open: true, Head: delivery.Branch(7, run.Lineage)})
	expect(t, w.Walk(w.phase, run.ID), "pr_opened", "")
	if got := w.State(run.ID).Int("pr"); got != 55 {
		t.Errorf("pull request %d", got)
	}
}

func TestPushProblems(t *testing.T) {
	t.Parallel()
	w := newWorld(t, implement.Settings{}, attempt()...)
	w.origin.FailPush = []error{errors.Join(workspace.ErrDenied, errors.New("workflows permission")), nil}
	out, _ := w.run()
	expect(t, out, "needs_human", "permission-denied")

	w = newWorld(t, implement.Settings{}, attempt()...)
	w.origin.FailPush = []error{workspace.ErrConflict}
	out, _ = w.run()
	expect(t, out, "needs_human", "branch-moved")
	if len(w.saved) != 1 {
		t.Errorf("saved %v", w.saved)
	}
}

// A stop in the middle of the model's work keeps what was done so far.
func TestHaltSavesWorkInFlight(t *testing.T) {
	t.Parallel()
	started := make(chan struct{})
	w := newWorld(t, implement.Settings{},
		llmtest.Call("write_file", map[string]any{"path": "sum.txt", "content": "half done\n"}), llmtest.Block(started),
		llmtest.Finish(writer.Report{Summary: "From the checkpoint"}))
	ctx, cancel := context.WithCancelCause(t.Context())
	go func() {
		<-started
		cancel(engine.Halt{Reason: "stop label"})
	}()
	run := w.Start(w.phase, checkpoints.Run{}, w.input)
	out := w.WalkCtx(ctx, w.phase, run.ID)
	if out.How != engine.Halted {
		t.Fatalf("got %s %s (%s): %s", out.How, out.Result, out.Code, out.Reason)
	}
	wip := delivery.WIPBranch(7, run.Lineage)
	if got := w.origin.Show(wip, "sum.txt"); got != "half done\n" || !slices.Equal(w.saved, []string{wip}) {
		t.Errorf("saved %q on %v", got, w.saved)
	}
	// The run goes on from its checkpoint: the attempt begins again.
	if err := w.Store.Wake(t.Context(), run.ID); err != nil {
		t.Fatal(err)
	}
	expect(t, w.Walk(w.phase, run.ID), "empty", "empty")
}

// A later round builds on the branch's head, has the findings before it and
// pushes on top.
func TestReviewRound(t *testing.T) {
	t.Parallel()
	for name, provider := range map[string]func(*phasetest.Origin) workspace.Provider{
		"simple": func(o *phasetest.Origin) workspace.Provider { return o },
		"gitws": func(*phasetest.Origin) workspace.Provider {
			p, err := gitws.New(gitws.Options{Dir: t.TempDir(), AllowFile: true})
			if err != nil {
				t.Fatal(err)
			}
			return p
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			reviewRound(t, provider)
		})
	}
}

func reviewRound(t *testing.T, provider func(*phasetest.Origin) workspace.Provider) {
	t.Helper()
	w := newWorldOn(t, provider, implement.Settings{}, slices.Concat(attempt(), writing("sum.txt", "better still\n"))...)
	out, first := w.run()
	expect(t, out, "pr_opened", "")
	state := w.State(first.ID)
	var in map[string]any
	if err := json.Unmarshal(first.State, &in); err != nil {
		t.Fatal(err)
	}
	in["findings_ref"] = w.put(map[string]any{"findings": []map[string]any{{"severity": "major", "text": "the zero is forgotten"}}})
	second := w.Start(w.phase, first, in)
	expect(t, w.Walk(w.phase, second.ID), "pr_opened", "")
	branch := delivery.Branch(7, first.Lineage)
	if got := w.origin.Show(branch, "sum.txt"); got != "better still\n" {
		t.Errorf("pushed %q", got)
	}
	if parent := strings.TrimSpace(w.origin.Rev(branch + "^")); parent != state.Str("head_sha") {
		t.Errorf("built on %s, want %s", parent, state.Str("head_sha"))
	}
	asked := w.script.Asked()
	if got := asked[2].Messages[0].Text; !strings.Contains(got, "the zero is forgotten") || strings.Contains(got, "What failed") {
		t.Errorf("prompt of the second round:\n%s", got)
	}
	if len(w.forge.Opened) != 1 || w.State(second.ID).Int("pr") != state.Int("pr") {
		t.Errorf("%d pull requests", len(w.forge.Opened))
	}
}

// When the base has moved so that the work does not fit it, one attempt is made
// on the new base; the second time a person must look.
func TestBaseConflict(t *testing.T) {
	t.Parallel()
	for _, twice := range []bool{false, true} {
		t.Run(fmt.Sprintf("twice %t", twice), func(t *testing.T) {
			t.Parallel()
			var w *world
			move := func(text string) func(llm.Request) {
				return func(llm.Request) { w.origin.PushAs("trunk", "sum.txt", text) }
			}
			turns := attempt()
			turns[1] = llmtest.Check(move("fail TestNegative\nfail TestOther\n"), turns[1])
			again := writing("sum.txt", "anew\n")
			if twice {
				again[1] = llmtest.Check(move("quite another\n"), again[1])
			}
			w = newWorld(t, implement.Settings{}, slices.Concat(turns, again)...)
			out, run := w.run()
			asked := w.script.Asked()
			if first := asked[2].Messages[0].Text; !strings.Contains(first, "base-conflict: the base moved from") {
				t.Errorf("the second attempt was told:\n%s", first)
			}
			if twice {
				expect(t, out, "needs_human", "base-conflict")
				if len(w.forge.Opened) != 0 || len(w.saved) != 1 {
					t.Errorf("%d pull requests, saved %v", len(w.forge.Opened), w.saved)
				}
				return
			}
			expect(t, out, "pr_opened", "")
			s := w.State(run.ID)
			if s.Str("base_sha") != w.origin.Head("trunk") || s.Int("conflicts") != 1 {
				t.Errorf("base %s, conflicts %d", s.Str("base_sha"), s.Int("conflicts"))
			}
			if got := w.origin.Show(delivery.Branch(7, run.Lineage), "sum.txt"); got != "anew\n" {
				t.Errorf("pushed %q", got)
			}
		})
	}
}
