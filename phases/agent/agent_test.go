package agent_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pipelinebot/pipelinebot/checkpoints"
	"github.com/pipelinebot/pipelinebot/flows"
	"github.com/pipelinebot/pipelinebot/flows/engine"
	"github.com/pipelinebot/pipelinebot/internal/command"
	"github.com/pipelinebot/pipelinebot/internal/secret"
	"github.com/pipelinebot/pipelinebot/llm/llmtest"
	"github.com/pipelinebot/pipelinebot/phases/actuators"
	"github.com/pipelinebot/pipelinebot/phases/agent"
	"github.com/pipelinebot/pipelinebot/phases/blob"
	"github.com/pipelinebot/pipelinebot/phases/delivery"
	"github.com/pipelinebot/pipelinebot/phases/gates"
	"github.com/pipelinebot/pipelinebot/phases/phasetest"
	"github.com/pipelinebot/pipelinebot/phases/tree"
	"github.com/pipelinebot/pipelinebot/phases/writer"
)

var _ = flag.Bool("update", false, "rewrite golden files")

// whole is a user's flow: two readers at once, a writer, the gates, a command
// with a check, the tests, a person's approval, a comment and a pull request.
const whole = `apiVersion: flows/v1
name: implement
version: 1
phase: implement
entry: read
sink: done
state:
  issue: {type: int, input: true, required: true}
  issue_ref: {type: artifact}
  text_hash: {type: string, max_len: 64, default: ""}
  base_sha: {type: string, max_len: 64, default: ""}
  default_branch: {type: string, max_len: 255, default: ""}
  file: {type: string, max_len: 100, default: ""}
  found: {type: bool, default: false}
  advice: {type: artifact}
  lines: {type: list, of: string, max_items: 4, default: []}
  work_ref: {type: artifact}
  diff_ref: {type: artifact}
  report_ref: {type: artifact}
  blocked: {type: bool, default: false}
  problems_ref: {type: artifact}
  evidence_ref: {type: artifact}
  passed: {type: bool, default: false}
  failing: {type: list, of: string, max_items: 50, default: []}
  flaky: {type: list, of: string, max_items: 50, default: []}
  attempts_ref: {type: artifact}
  lint: {type: artifact}
  exit: {type: int, default: -1}
  branch: {type: string, max_len: 255, default: ""}
  head_sha: {type: string, max_len: 64, default: ""}
  patch_ref: {type: artifact}
  pr: {type: int, default: 0}
  result: {type: enum, values: [none, pr_opened, needs_human, no_progress, empty, closed], default: none}
stop: {to: done}
limits: {max_steps: 60}
nodes:
  - {id: read, kind: step, uses: issue.read}
  - {id: pin, kind: step, uses: workspace.pin}
  - {id: look, kind: fanout, branches: [where, how], join: gather}
  - id: where
    kind: step
    uses: agent.read
    in: [issue_ref, base_sha]
    writes: [file, found]
    with: {name: where, prompt: Find the file., show: [issue_ref], out: {file: {type: string, about: its path, max: 100}, found: bool}}
  - id: how
    kind: step
    uses: agent.read
    required: false
    in: [issue_ref, base_sha]
    writes: [advice]
    with: {name: how, prompt: Say how., show: [issue_ref], out: {advice: artifact}}
  - {id: gather, kind: merge, of: [where, how], report: lines}
  - id: write
    kind: step
    uses: agent.write
    in: [base_sha, work_ref, file, advice, evidence_ref, problems_ref]
    with: {prompt: "Correct it.", show: [file, advice, evidence_ref, problems_ref]}
  - {id: check, kind: gate, uses: workspace.check, with: {scope: [sum.txt], max_files: 1}}
  - {id: lint, kind: command, argv: [lint, sum.txt], env: {FILE: "{{state.file}}"}, accept: [[again, ok]], take: {lint: output, exit: code}}
  - {id: test, kind: step, uses: tests.run}
  - {id: progress, kind: gate, uses: gates.no_progress}
  - {id: again, kind: loop, back_to: write, max: 3}
  - {id: give_up, kind: gate, uses: flow.end, in: [failing], with: {result: needs_human, code: used-up, reason: "Still failing:", list: failing}}
  - {id: tell, kind: step, uses: report.note, with: {text: "Ready: {{state.file}}, @team"}}
  - {id: open, kind: step, uses: pull.open, with: {title: "Correct {{state.file}}", body: "As #{{state.issue}} says.", closes: true}}
  - {id: done, kind: sink}
edges:
  - {from: read, to: pin}
  - {from: pin, to: look}
  - {from: gather, to: write}
  - {from: write, to: check}
  - {from: check, to: progress, when: "state.blocked", set: {passed: false}}
  - {from: check, to: lint}
  - {from: lint, to: test}
  - {from: lint, to: give_up, on: [failed, timeout]}
  - {from: test, to: progress}
  - {from: progress, to: tell, when: "state.passed"}
  - {from: progress, to: again}
  - {from: again, to: write}
  - {from: again, to: give_up, on: [exhausted]}
  - {from: tell, to: open}
  - {from: give_up, to: done}
  - {from: open, to: done}
finally: [workspace.save]
`

type world struct {
	*phasetest.Walker
	t      *testing.T
	forge  *phasetest.Forge
	origin *phasetest.Origin
	phase  phasetest.Phase
	script *llmtest.Script
	acts   []flows.Action

	mu    sync.Mutex
	saved []string
	ran   []command.Spec
	// lint and again are what those programs do.
	lint, again command.Result
	lintErr     error
	// tests overrides the test program.
	tests func(n int) command.Result
	runs  int
}

// run is the sandbox: "check" are the tests, each line "fail NAME" of sum.txt
// fails one.
func (w *world) run(_ context.Context, s command.Spec) (command.Result, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ran = append(w.ran, s)
	switch s.Argv[0] {
	case "lint":
		return w.lint, w.lintErr
	case "again":
		return w.again, nil
	}
	if w.runs++; w.tests != nil {
		return w.tests(w.runs), nil
	}
	b, err := os.ReadFile(filepath.Join(s.Dir, "sum.txt"))
	if err != nil {
		return command.Result{}, err
	}
	var failing []string
	for _, line := range strings.Split(string(b), "\n") {
		if name, ok := strings.CutPrefix(line, "fail "); ok {
			failing = append(failing, name)
		}
	}
	return testRun(failing...), nil
}

func testRun(failing ...string) command.Result {
	var out strings.Builder
	for _, name := range failing {
		fmt.Fprintf(&out, "--- FAIL: %s (0.00s)\n", name)
	}
	fmt.Fprintf(&out, "%d passed, %d failed\n", 3-len(failing), len(failing))
	return command.Result{ExitCode: min(len(failing), 1), Output: []byte(out.String()), Stdout: []byte(out.String()), Sandbox: "test"}
}

func newWorld(t *testing.T, turns map[string][]llmtest.Turn) *world {
	t.Helper()
	w := &world{Walker: phasetest.NewWalker(t), t: t, forge: phasetest.NewForge()}
	w.origin = phasetest.NewOrigin(t, map[string]string{"sum.txt": "fail TestNegative\n", "other.txt": "x\n", "AGENTS.md": "Use tabs.\n"})
	w.forge.Head = w.origin.Head
	w.forge.Meta.CloneURL = w.origin.URL()
	w.script = llmtest.NewScript(t, turns)
	w.acts = agent.Actions(agent.Deps{
		Forge: w.forge, Trees: tree.New(w.origin, w.forge), Runner: phasetest.Runner(w.run), Scrub: &secret.Scrubber{},
		Models: actuators.OneModel{Backend: w.script, Name: "m", AllowUnknownPrice: true},
		Saved:  func(_ context.Context, _, branch string) error { w.saved = append(w.saved, branch); return nil },
		Settings: agent.Settings{
			TestFor:  func(string) gates.TestCommand { return gates.TestCommand{Argv: []string{"check"}} },
			Rules:    gates.Rules{MaxFiles: 10, MaxLines: 100, Protected: []string{"secret.txt"}},
			Identity: delivery.Identity{Name: "pipelinebot", Email: "bot@example.com"},
		},
	})
	w.phase = phasetest.Load(t, "flow.yaml", []byte(whole), w.acts)
	return w
}

func readers() map[string][]llmtest.Turn {
	return map[string][]llmtest.Turn{
		"agent/where@1": {llmtest.Call("read_file", map[string]any{"path": "sum.txt"}), llmtest.Finish(map[string]any{"file": "sum.txt", "found": true})},
		"agent/how@1":   {llmtest.Finish(map[string]any{"advice": "Drop the first line. @everyone"})},
	}
}

func writing(name, text string) []llmtest.Turn {
	return []llmtest.Turn{
		llmtest.Call("write_file", map[string]any{"path": name, "content": text}),
		llmtest.Finish(writer.Report{Summary: "Changed " + name + "; closes #3"}),
	}
}

func (w *world) walk() (engine.Outcome, checkpoints.Run) {
	w.t.Helper()
	run := w.Start(w.phase, checkpoints.Run{}, nil)
	return w.Walk(w.phase, run.ID), w.Run(run.ID)
}

func expect(t *testing.T, out engine.Outcome, result, code string) {
	t.Helper()
	if out.Result != result || out.Code != code {
		t.Errorf("got %s %s (%s): %s %v; want %s (%s)", out.How, out.Result, out.Code, out.Reason, out.Err, result, code)
	}
}

// A user's flow of these actions goes from an issue to a pull request, with a
// second attempt that knows what failed.
//
// Covers: CN33, VK3, VK4, AR24, AR35.
func TestWhole(t *testing.T) {
	t.Parallel()
	turns := readers()
	turns["agent/write@1"] = slices.Concat(writing("sum.txt", "better\nfail TestZero\n"), writing("sum.txt", "better\n"))
	w := newWorld(t, turns)
	w.lint = command.Result{Output: []byte("clean\n")}
	out, run := w.walk()
	expect(t, out, "pr_opened", "")
	s := w.State(run.ID)
	branch := delivery.Branch(7, run.Lineage)
	if got := w.origin.Show(branch, "sum.txt"); got != "better\n" {
		t.Errorf("pushed %q", got)
	}
	if len(w.forge.Opened) != 1 {
		t.Fatalf("%d pull requests", len(w.forge.Opened))
	}
	pull := w.forge.Opened[0]
	if pull.Title != "Correct sum.txt" || pull.Base != "trunk" || pull.Head != branch || !strings.Contains(pull.Body, "\nFixes #7\n") ||
		strings.Contains(pull.Body, "#3") || !strings.Contains(pull.Body, "3 tests passed") {
		t.Errorf("pull request %+v", pull)
	}
	if s.Int("pr") != pull.Ref.Number || s.Str("head_sha") != w.origin.Head(branch) || s.Str("branch") != branch || !s.Has("patch_ref") {
		t.Errorf("state %v", s.Values())
	}
	if s.Str("file") != "sum.txt" || !s.Bool("found") || !slices.Equal(s.Strings("lines"), []string{"where: ok", "how: ok"}) {
		t.Errorf("read: %v", s.Values())
	}
	advice, err := blob.Get(t.Context(), w.Artifacts, "", s.Artifact("advice"))
	if err != nil || string(advice) != "Drop the first line. @everyone" {
		t.Errorf("advice %q, %v", advice, err)
	}
	lint, err := blob.Get(t.Context(), w.Artifacts, "", s.Artifact("lint"))
	if err != nil || !strings.Contains(string(lint), "$ lint sum.txt\nclean\n$ again ok\n") || s.Int("exit") != 0 {
		t.Errorf("lint %q, exit %d, %v", lint, s.Int("exit"), err)
	}
	said := w.forge.Said[7]
	if len(said) != 1 || !strings.Contains(said[0].Body, "Ready: sum.txt") || strings.Contains(said[0].Body, "@team") {
		t.Errorf("said %+v", said)
	}
	for _, r := range w.script.Asked() {
		first := r.Messages[0].Text
		if r.Prompt == "agent/write@1" && (!strings.Contains(first, "Use tabs.") || !strings.Contains(first, "Drop the first line.")) {
			t.Errorf("the writer was told:\n%s", first)
		}
	}
	asked := w.script.Asked()
	if last := asked[len(asked)-1].Messages[0].Text; !strings.Contains(last, "Failing: TestZero") {
		t.Errorf("the second attempt was told:\n%s", last)
	}
	for _, spec := range w.ran {
		if spec.Network || len(spec.Argv) == 0 {
			t.Errorf("ran %+v", spec)
		}
		if spec.Argv[0] == "lint" && spec.Env["FILE"] != "sum.txt" {
			t.Errorf("environment %v", spec.Env)
		}
	}
	if len(w.saved) != 0 {
		t.Errorf("saved %v", w.saved)
	}
}

// What only a person can settle ends the flow; what another attempt can settle
// goes back with the reason.
func TestEnds(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name         string
		write        []llmtest.Turn
		set          func(*world)
		result, code string
		says         string
	}{
		{"protected path", writing("secret.txt", "x"), nil, "needs_human", gates.CodeProtected, "secret.txt"},
		{"nothing changed", []llmtest.Turn{llmtest.Finish(writer.Report{Unfinished: "It is right already."})}, nil, "empty", "empty", "It is right already"},
		{"same again", slices.Concat(writing("sum.txt", "fail A\n"), writing("sum.txt", "fail A\n")), nil, "no_progress", "no-progress", "exactly the same content"},
		{"out of scope", slices.Concat(writing("other.txt", "y\n"), writing("other.txt", "y\n")), nil, "no_progress", "no-progress", "exactly the same"},
		{"lint fails", writing("sum.txt", "better\n"), func(w *world) {
			w.lint = command.Result{ExitCode: 3, Output: []byte("first\nline too long\n\n")}
		}, "needs_human", "used-up", "Still failing:"},
		{"issue closed", nil, func(w *world) { w.forge.Issues[7].Open = false }, "closed", "issue-closed", "closed"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			turns := map[string][]llmtest.Turn{}
			if tc.write != nil {
				turns = readers()
				turns["agent/write@1"] = tc.write
			}
			w := newWorld(t, turns)
			if tc.set != nil {
				tc.set(w)
			}
			out, _ := w.walk()
			expect(t, out, tc.result, tc.code)
			if !strings.Contains(out.Reason, tc.says) {
				t.Errorf("reason %q, want %q", out.Reason, tc.says)
			}
			if len(w.forge.Opened) != 0 {
				t.Error("a pull request was opened")
			}
		})
	}
}

func (w *world) call(state map[string]any, with string) flows.Call {
	c := phasetest.Call(w.t, state)
	c.With = []byte(with)
	return c
}

// A command's end is an outcome with the telling line, and its output is kept
// without tokens.
//
// Covers: VK4, VK34.
func TestCommand(t *testing.T) {
	t.Parallel()
	token := "ghp_" + strings.Repeat("a1B2", 9)
	for _, tc := range []struct {
		name        string
		lint, again command.Result
		err         error
		outcome     flows.Outcome
		code        int
		note, kept  string
	}{
		{name: "fine", lint: command.Result{Output: []byte("a\nb\n")}, outcome: flows.OK, note: "", kept: "$ lint x\na\nb\n"},
		{name: "exit code", lint: command.Result{ExitCode: 2, Output: []byte("bad\n\n")}, outcome: flows.Failed, code: 2, note: "exit code 2: bad", kept: "[exit code 2]"},
		{name: "killed", lint: command.Result{ExitCode: -1, TimedOut: true, Took: time.Minute}, outcome: flows.Timeout, code: -1, note: "killed after 1m0s: no output"},
		{name: "cut output", lint: command.Result{Output: []byte("x"), Truncated: true}, outcome: flows.OK, kept: "x\n[some of the output was dropped]"},
		{name: "missing program", err: exec.ErrNotFound, outcome: flows.Failed, code: -1, note: `"lint" is not installed`},
		{
			name: "not accepted", again: command.Result{ExitCode: 1, Output: []byte("trailing space\n")}, outcome: flows.Failed, code: 0,
			note: "not accepted: again y: exit code 1: trailing space",
		},
		{name: "secret", lint: command.Result{Output: []byte("token " + token + "\n")}, outcome: flows.OK, kept: "token "},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, nil)
			w.lint, w.lintErr, w.again = tc.lint, tc.err, tc.again
			c := w.call(map[string]any{"base_sha": w.origin.Head("trunk")}, `{"argv":["lint","x"],"env":{},"accept":[["again","y"]]}`)
			r, err := phasetest.Act(t, w.acts, flows.CommandAction, c)
			if err != nil {
				t.Fatal(err)
			}
			if r.Outcome != tc.outcome || r.Delta["code"] != tc.code || !strings.Contains(r.Note, tc.note) {
				t.Errorf("%+v", r)
			}
			kept, err := blob.Get(t.Context(), c.Artifacts, "", r.Delta["output"].(flows.Artifact))
			if err != nil || !strings.Contains(string(kept), tc.kept) || strings.Contains(string(kept), token) {
				t.Errorf("kept %q, %v", kept, err)
			}
		})
	}
	w := newWorld(t, nil)
	if _, err := phasetest.Act(t, w.acts, flows.CommandAction, w.call(nil, `{"argv":["lint"]}`)); err == nil || !strings.Contains(err.Error(), "workspace.pin") {
		t.Errorf("without a base: %v", err)
	}
}

// Tests that fail in some runs only are told from those that always fail.
func TestFlaky(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name           string
		times          int
		tests          func(n int) command.Result
		passed         bool
		failing, flaky []string
		note           string
	}{
		{"all green", 3, func(int) command.Result { return testRun() }, true, []string{}, []string{}, "3 of 3 runs passed"},
		{"always", 3, func(int) command.Result { return testRun("A") }, false, []string{"A"}, []string{}, "0 of 3 runs passed"},
		{"sometimes", 4, func(n int) command.Result {
			if n%2 == 0 {
				return testRun("B", "A")
			}
			return testRun("B")
		}, false, []string{"A", "B"}, []string{"A"}, "0 of 4 runs passed, flaky: A"},
		{"once", 1, func(int) command.Result { return testRun("A") }, false, []string{"A"}, []string{}, "1 test of 1 failed: A"},
		{"hangs", 5, func(int) command.Result { return command.Result{ExitCode: -1, TimedOut: true} }, false, []string{}, []string{}, "timeout"},
		{"no tests", 1, func(int) command.Result {
			return command.Result{Output: []byte("0 passed, 0 failed\n"), Stdout: []byte("0 passed, 0 failed\n")}
		}, false, []string{}, []string{}, "not one test"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, nil)
			w.tests = tc.tests
			r, err := phasetest.Act(t, w.acts, "tests.run", w.call(map[string]any{"base_sha": w.origin.Head("trunk")}, fmt.Sprintf(`{"times":%d}`, tc.times)))
			if err != nil {
				t.Fatal(err)
			}
			if r.Delta["passed"] != tc.passed || !slices.Equal(r.Delta["failing"].([]string), tc.failing) ||
				!slices.Equal(r.Delta["flaky"].([]string), tc.flaky) || !strings.Contains(r.Note, tc.note) {
				t.Errorf("%+v", r)
			}
		})
	}
}

// Nothing leaves that the tests did not pass on, unless the flow's author says
// that it may, and then the pull request says so.
func TestUntested(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string][]llmtest.Turn{"agent/write@1": writing("sum.txt", "better\n")})
	base := map[string]any{"base_sha": w.origin.Head("trunk"), "default_branch": "trunk"}
	c := w.call(base, `{"prompt":"Do it."}`)
	wrote, err := phasetest.Act(t, w.acts, "agent.write", c)
	if err != nil {
		t.Fatal(err)
	}
	for key, v := range wrote.Delta {
		base[key] = v
	}
	in, err := flows.StateOf(base)
	if err != nil {
		t.Fatal(err)
	}
	c.In, c.With = in, []byte(`{"title":"T"}`)
	if _, err := phasetest.Act(t, w.acts, "pull.open", c); err == nil || !strings.Contains(err.Error(), "untested: true") {
		t.Errorf("%v", err)
	}
	c.With = []byte(`{"title":"T","untested":true}`)
	for range 2 { // a repetition finds what it did
		r, err := phasetest.Act(t, w.acts, "pull.open", c)
		if err != nil || r.Delta["result"] != "pr_opened" {
			t.Fatalf("%+v, %v", r, err)
		}
	}
	if len(w.forge.Opened) != 1 || !strings.Contains(w.forge.Opened[0].Body, "No tests were run") || !strings.Contains(w.forge.Opened[0].Body, "Refs #7") {
		t.Errorf("%+v", w.forge.Opened)
	}
}
