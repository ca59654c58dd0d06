package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pipelinebot/pipelinebot/flows"
	"github.com/pipelinebot/pipelinebot/flows/engine"
)

const commanding = header + `
nodes:
  - {id: a, kind: step, uses: t.step, writes: [s]}
  - {id: make, kind: command, argv: [make, "-k", "test; echo $HOME"], env: {TITLE: "{{state.s}}", RUN: "of {{run.repo}}"}, accept: [[git, diff, --check]], timeout: 10m, take: {ref: output, n: code}}
  - {id: done, kind: sink}
edges:
  - {from: a, to: make}
  - {from: make, to: done, set: {result: ok}}
  - {from: make, to: done, on: [failed, timeout], set: {result: needs_human}}
`

// What a command runs stands in the flow; data reaches it by its environment
// alone, expanded once, and stays data.
//
// Covers: VK4, VK13, VK14, NX13.
func TestCommand(t *testing.T) {
	t.Parallel()
	const hostile = `"; rm -rf / #$(x) {{run.id}}`
	log := flows.Artifact{Path: "aa/bb", SHA256: strings.Repeat("a", 64), Bytes: 3}
	w := newWorld(t, map[string]action{"a": sets("s", hostile)})
	w.script["make"] = func(_ context.Context, c flows.Call) (flows.Result, error) {
		var with struct {
			Argv   []string          `json:"argv"`
			Env    map[string]string `json:"env"`
			Accept [][]string        `json:"accept"`
		}
		if err := json.Unmarshal(c.With, &with); err != nil {
			t.Error(err)
		}
		if diff := cmp.Diff([]string{"make", "-k", "test; echo $HOME"}, with.Argv); diff != "" {
			t.Errorf("argv (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(map[string]string{"TITLE": hostile, "RUN": "of acme/widgets"}, with.Env); diff != "" {
			t.Errorf("env (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([][]string{{"git", "diff", "--check"}}, with.Accept); diff != "" {
			t.Errorf("accept (-want +got):\n%s", diff)
		}
		return flows.Result{Delta: flows.Delta{flows.OutputKey: log, flows.CodeKey: 0}}, nil
	}
	id := w.begin(commanding)
	w.want(w.walk(id), "ended ok: a make done")
	state, err := flows.DecodeState(w.get(id).State)
	if err != nil || state.Artifact("ref") != log || state.Int("n") != 0 {
		t.Errorf("state = %s, %v", w.get(id).State, err)
	}
}

// What the action of commands says routes; what it must not leave is refused.
//
// Covers: VK4, VK34, NX7, CN3.
func TestCommandOutcomes(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		res  flows.Result
		err  error
		note string
	}{
		"failed":  {flows.Result{Outcome: flows.Failed, Note: "exit 2: no rule", Delta: flows.Delta{"code": 2}}, nil, "exit 2: no rule"},
		"accept":  {flows.Result{Outcome: flows.Failed, Note: "git diff --check: trailing blank"}, nil, "git diff --check: trailing blank"},
		"error":   {flows.Result{}, errors.New("no sandbox"), "no sandbox"},
		"foreign": {flows.Result{Delta: flows.Delta{"n": 1}}, nil, "leaves output and code, not n"},
		"type":    {flows.Result{Delta: flows.Delta{"code": "two"}}, nil, "must be a whole number"},
	} {
		w := newWorld(t, map[string]action{"make": func(context.Context, flows.Call) (flows.Result, error) { return tc.res, tc.err }})
		id := w.begin(commanding)
		w.want(w.walk(id), "ended needs_human: a make done")
		if rec := w.history(id)[1]; rec.Outcome != "failed" || !strings.Contains(rec.Note, tc.note) {
			t.Errorf("%s: record = %+v", name, rec)
		}
		if code := `"n":2`; name == "failed" && !strings.Contains(string(w.get(id).State), code) {
			t.Errorf("state = %s, want the code in it", w.get(id).State)
		}
	}
}

// Covers: VK4, NX8.
func TestCommandTimesOut(t *testing.T) {
	t.Parallel()
	entered := make(chan string, 1)
	w := newWorld(t, map[string]action{"make": hangs(entered)})
	id := w.begin(commanding)
	ended := w.goWalk(t.Context(), id)
	<-entered
	w.clock.Advance(10 * time.Minute)
	w.want(<-ended, "ended needs_human: a make done")
	if rec := w.history(id)[1]; rec.Outcome != "timeout" {
		t.Errorf("record = %+v", rec)
	}
}

// What a command leaves is taken however it ended; what it did not leave does
// not keep the value of an earlier visit.
//
// Covers: VK4, CN3.
func TestCommandTakesAnew(t *testing.T) {
	t.Parallel()
	log := flows.Artifact{Path: "aa/bb", SHA256: strings.Repeat("a", 64), Bytes: 3}
	visit := 0
	w := newWorld(t, map[string]action{"make": func(context.Context, flows.Call) (flows.Result, error) {
		if visit++; visit == 1 {
			return flows.Result{Outcome: flows.Failed, Delta: flows.Delta{flows.OutputKey: log, flows.CodeKey: 7}}, nil
		}
		return flows.Result{}, errors.New("no sandbox")
	}})
	id := w.begin(strings.NewReplacer(
		"  - {from: make, to: done, on: [failed, timeout], set: {result: needs_human}}\n",
		"  - {from: make, to: again, on: [failed]}\n  - {from: again, to: make}\n  - {from: again, to: done, on: [exhausted], set: {result: needs_human}}\n",
		"  - {id: done, kind: sink}\n", "  - {id: again, kind: loop, back_to: make, max: 1}\n  - {id: done, kind: sink}\n",
	).Replace(commanding))
	w.want(w.walk(id), "ended needs_human: a make again make again done")
	history := w.history(id)
	if got := string(history[1].Delta); !strings.Contains(got, `"n":7`) || !strings.Contains(got, `"ref":{`) {
		t.Errorf("first visit: delta = %s", got)
	}
	if got := string(history[3].Delta); got != `{"n":0,"ref":null}` {
		t.Errorf("second visit: delta = %s", got)
	}
}

// A program without the action of commands does not resume a run that needs
// it.
//
// Covers: NX6.
func TestCommandWithoutAction(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]action{"a": sets("s", "x")})
	id := w.begin(commanding)
	run, lease := w.claim(id)
	reg := &flows.Registry{}
	anything := func(json.RawMessage) error { return nil }
	if err := reg.Add(flows.Action{Name: "t.step", Version: "1", Run: w.run, CheckWith: anything}); err != nil {
		t.Fatal(err)
	}
	out, err := engine.New(engine.Options{Store: w.store, Registry: reg, Clock: w.clock}).Walk(t.Context(), run, lease)
	if err != nil {
		t.Fatal(err)
	}
	w.want(out, "halted drift:")
}
