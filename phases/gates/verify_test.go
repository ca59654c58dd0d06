package gates

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pipelinebot/pipelinebot/flows"
	"github.com/pipelinebot/pipelinebot/internal/command"
)

// script is a runner that answers with what it was given, in order.
type script struct {
	results []command.Result
	err     error
	specs   []command.Spec
}

func (s *script) Name() string { return "script" }

func (s *script) Run(_ context.Context, spec command.Spec) (command.Result, error) {
	s.specs = append(s.specs, spec)
	if s.err != nil {
		return command.Result{}, s.err
	}
	return s.results[min(len(s.specs), len(s.results))-1], nil
}

// store keeps what was put.
type store struct{ kept string }

func (s *store) put(_ context.Context, b []byte) (flows.Artifact, error) {
	s.kept = string(b)
	return flows.Artifact{Path: "x", Bytes: int64(len(b))}, nil
}

func printed(code int, out string) command.Result {
	return command.Result{ExitCode: code, Output: []byte(out), Stdout: []byte(out), Took: time.Second}
}

const goEvents = `{"Action":"start","Package":"ex/a"}
{"Action":"run","Package":"ex/a","Test":"TestOne"}
{"Action":"output","Package":"ex/a","Test":"TestOne","Output":"=== RUN   TestOne\n"}
{"Action":"run","Package":"ex/a","Test":"TestOne/sub"}
{"Action":"output","Package":"ex/a","Test":"TestOne/sub","Output":"    one_test.go:7: got 1, want 2\n"}
{"Action":"fail","Package":"ex/a","Test":"TestOne/sub","Elapsed":0}
{"Action":"fail","Package":"ex/a","Test":"TestOne","Elapsed":0}
{"Action":"pass","Package":"ex/a","Test":"TestTwo","Elapsed":0}
{"Action":"skip","Package":"ex/a","Test":"TestThree","Elapsed":0}
{"Action":"fail","Package":"ex/a","Elapsed":0.1}
{"ImportPath":"ex/b","Action":"build-output","Output":"b/b.go:3:1: undefined: x\n"}
{"ImportPath":"ex/b","Action":"build-fail"}
{"Action":"output","Package":"ex/b","Output":"FAIL\tex/b [build failed]\n"}
{"Action":"fail","Package":"ex/b","Elapsed":0,"FailedBuild":"ex/b"}
{"Action":"run","Package":"ex/c","Test":"TestExit"}
{"Action":"fail","Package":"ex/c","Elapsed":0}
`

func TestVerify(t *testing.T) {
	t.Parallel()
	goTest := []string{"go", "test", "./..."}
	timeout := printed(-1, "3 passed, 0 failed\n")
	timeout.TimedOut = true
	tests := map[string]struct {
		tc      TestCommand
		res     command.Result
		code    Code
		run     int
		skipped int
		failing []string
	}{
		"go, everything": {TestCommand{Argv: goTest}, printed(1, goEvents), FailedTests, 4, 1,
			[]string{"ex/a.TestOne/sub", "ex/b [build failed]", "ex/c.TestExit"}},
		"go, passes": {TestCommand{Argv: goTest}, printed(0, `{"Action":"pass","Package":"p","Test":"TestA"}`+"\n"+`{"Action":"pass","Package":"p"}`), Passed, 1, 0, nil},
		"go, no tests": {TestCommand{Argv: goTest}, printed(0, `{"Action":"output","Package":"p","Output":"?   \tp\t[no test files]\n"}`+"\n"+
			`{"Action":"skip","Package":"p"}`), NoTests, 0, 0, nil},
		"go, only skipped":   {TestCommand{Argv: goTest}, printed(0, `{"Action":"skip","Package":"p","Test":"TestA"}`), NoTests, 0, 1, nil},
		"go, no output":      {TestCommand{Argv: goTest}, printed(0, ""), UnknownCount, -1, 0, nil},
		"go, broken go.mod":  {TestCommand{Argv: goTest}, printed(1, "go: errors parsing go.mod:\n"), FailedTests, -1, 0, nil},
		"plain":              {TestCommand{Argv: []string{"./t"}}, printed(0, "ok\nTests: 12 passed, 0 failed\n"), Passed, 12, 0, nil},
		"plain, alone":       {TestCommand{Argv: []string{"./t"}}, printed(1, "FAIL: adds\n1 passed, 1 failed\n"), FailedTests, 2, 0, []string{"adds"}},
		"plain, lies":        {TestCommand{Argv: []string{"./t"}}, printed(0, "1 passed, 1 failed\n"), FailedTests, 2, 0, nil},
		"plain, none":        {TestCommand{Argv: []string{"./t"}}, printed(0, "0 passed, 0 failed\n"), NoTests, 0, 0, nil},
		"prose is no count":  {TestCommand{Argv: []string{"./t"}}, printed(0, "yesterday 12 passed, 0 failed and so on\n"), UnknownCount, -1, 0, nil},
		"unknown":            {TestCommand{Argv: []string{"make", "test"}}, printed(0, "done\n"), UnknownCount, -1, 0, nil},
		"unknown, allowed":   {TestCommand{Argv: []string{"make"}, AllowUnknownCount: true}, printed(0, "done\n"), Passed, -1, 0, nil},
		"unknown, fails":     {TestCommand{Argv: []string{"make"}, AllowUnknownCount: true}, printed(2, "boom\n"), FailedTests, -1, 0, nil},
		"zero, even allowed": {TestCommand{Argv: []string{"make"}, AllowUnknownCount: true}, printed(0, "0 passed, 0 failed\n"), NoTests, 0, 0, nil},
		"hang":               {TestCommand{Argv: []string{"./t"}, AllowUnknownCount: true}, timeout, TimedOut, 3, 0, nil},
		"pytest": {TestCommand{Argv: []string{"pytest"}}, printed(1,
			"FAILED tests/test_a.py::test_x[1] - assert 1 == 2\nERROR tests/test_b.py\n===== 1 failed, 3 passed, 2 skipped, 1 xfailed, 1 error in 0.12s =====\n"),
			FailedTests, 6, 2, []string{"tests/test_a.py::test_x[1]", "tests/test_b.py"}},
		"pytest, quiet": {TestCommand{Argv: []string{"pytest", "-q"}}, printed(0, "..\n2 passed in 0.01s\n"), Passed, 2, 0, nil},
		"pytest, none":  {TestCommand{Argv: []string{"pytest"}}, printed(5, "==== no tests ran in 0.01s ====\n"), FailedTests, 0, 0, nil},
		"node, tap": {TestCommand{Argv: []string{"npm", "test"}}, printed(1,
			"not ok 1 - adds\nnot ok 2 - later # TODO\n# tests 3\n# pass 1\n# fail 1\n# cancelled 0\n# skipped 1\n"), FailedTests, 2, 1, []string{"adds"}},
		"node, spec": {TestCommand{Argv: []string{"npm", "test"}}, printed(0, "\x1b[32m✔ adds (0.5ms)\x1b[39m\nℹ tests 1\nℹ pass 1\nℹ fail 0\n"), Passed, 1, 0, nil},
		"cargo": {TestCommand{Argv: []string{"cargo", "test"}}, printed(101,
			"test m::adds ... FAILED\ntest result: FAILED. 2 passed; 1 failed; 1 ignored; 0 measured\n\ntest result: ok. 1 passed; 0 failed; 0 ignored; 0 measured\n"),
			FailedTests, 4, 1, []string{"m::adds"}},
		"jest": {TestCommand{Argv: []string{"npm", "test"}}, printed(1, "  ● math › adds\n\nTests:       1 failed, 1 skipped, 2 passed, 4 total\n"),
			FailedTests, 3, 1, []string{"math › adds"}},
		"vitest": {TestCommand{Argv: []string{"npm", "test"}}, printed(1, " FAIL  src/a.test.ts > math > adds\n Test Files  1 failed (1)\n      Tests  1 failed | 2 passed (3)\n"),
			FailedTests, 3, 0, []string{"src/a.test.ts > math > adds"}},
		"go by make": {TestCommand{Argv: []string{"make", "test"}}, printed(1, "--- FAIL: TestA (0.00s)\nFAIL\nFAIL\tex/a\t0.01s\nok  \tex/b\t0.02s\nFAIL\tex/c [build failed]\n"),
			FailedTests, 2, 0, []string{"TestA", "ex/c [build failed]"}},
		"go by make, none": {TestCommand{Argv: []string{"make", "test"}}, printed(0, "ok  \tex/b\t0.02s [no tests to run]\n"), NoTests, 0, 0, nil},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ev, err := Verify(t.Context(), &script{results: []command.Result{tt.res}}, "/d", "tree", tt.tc, (&store{}).put)
			if err != nil {
				t.Fatal(err)
			}
			if ev.Code != tt.code || ev.Passed != (tt.code == Passed) || ev.TestsRun != tt.run || ev.Skipped != tt.skipped {
				t.Errorf("code %s, passed %v, %d run, %d skipped: %s", ev.Code, ev.Passed, ev.TestsRun, ev.Skipped, ev.Reason)
			}
			if d := cmp.Diff(tt.failing, ev.Failing); d != "" {
				t.Errorf("failing (-want +got):\n%s", d)
			}
			if ev.Reason == "" || ev.Tree != "tree" || ev.Sandbox != "script" || ev.Runs != 1 || ev.OutputRef.Path == "" {
				t.Errorf("incomplete evidence: %+v", ev)
			}
		})
	}
}

func TestVerifyRuns(t *testing.T) {
	t.Parallel()
	s, kept := &script{results: []command.Result{printed(1, goEvents)}}, &store{}
	tc := TestCommand{Argv: []string{"go", "test", "-run", "X", "./..."}, Network: true, Env: map[string]string{"A": "b"}}
	ev, err := Verify(t.Context(), s, "/d", "t", tc, kept.put)
	if err != nil {
		t.Fatal(err)
	}
	want := command.Spec{Argv: []string{"go", "test", "-json", "-run", "X", "./..."}, Dir: "/d", Network: true, Env: map[string]string{"A": "b"},
		Limits: command.Limits{Wall: DefaultTimeout, Output: outputBytes}}
	if d := cmp.Diff(want, s.specs[0]); d != "" {
		t.Errorf("spec (-want +got):\n%s", d)
	}
	if strings.Contains(kept.kept, `"Action"`) || !strings.Contains(kept.kept, "got 1, want 2") {
		t.Errorf("the kept output is not readable text: %s", kept.kept)
	}
	for _, part := range []string{"undefined: x", "got 1, want 2"} {
		if !strings.Contains(ev.Excerpt, part) {
			t.Errorf("the excerpt lacks %q: %s", part, ev.Excerpt)
		}
	}
}

func TestFlaky(t *testing.T) {
	t.Parallel()
	bad, good := printed(1, "FAIL: adds\n1 passed, 1 failed\n"), printed(0, "2 passed, 0 failed\n")
	tc := TestCommand{Argv: []string{"./t"}, Reruns: 2}
	s := &script{results: []command.Result{bad, good}}
	ev, err := Verify(t.Context(), s, "/d", "t", tc, (&store{}).put)
	if err != nil || !ev.Passed || ev.Runs != 2 || len(s.specs) != 2 || !strings.Contains(ev.Reason, "flaky") {
		t.Errorf("%+v, %v", ev, err)
	}
	if d := cmp.Diff([]string{"adds"}, ev.Flaky); d != "" {
		t.Error(d)
	}
	s = &script{results: []command.Result{bad}}
	if ev, err = Verify(t.Context(), s, "/d", "t", tc, (&store{}).put); err != nil || ev.Passed || ev.Runs != 3 || ev.Flaky != nil {
		t.Errorf("%+v, %v", ev, err)
	}
}

func TestVerifyErrors(t *testing.T) {
	t.Parallel()
	ev, err := Verify(t.Context(), &script{err: fmt.Errorf("x: %w", exec.ErrNotFound)}, "/d", "t", TestCommand{Argv: []string{"pytest"}}, (&store{}).put)
	if err != nil || ev.Code != NotFound || ev.Passed || !strings.Contains(ev.Reason, "pytest") {
		t.Errorf("missing program: %+v, %v", ev, err)
	}
	boom := errors.New("boom")
	if _, err := Verify(t.Context(), &script{err: boom}, "/d", "t", TestCommand{Argv: []string{"x"}}, (&store{}).put); !errors.Is(err, boom) {
		t.Errorf("sandbox: %v", err)
	}
	if _, err := Verify(t.Context(), &script{}, "/d", "t", TestCommand{}, (&store{}).put); err == nil {
		t.Error("no command: no error")
	}
	put := func(context.Context, []byte) (flows.Artifact, error) { return flows.Artifact{}, boom }
	if _, err := Verify(t.Context(), &script{results: []command.Result{printed(0, "1 passed, 0 failed")}}, "/d", "t", TestCommand{Argv: []string{"x"}}, put); !errors.Is(err, boom) {
		t.Errorf("store: %v", err)
	}
}

func TestTokensAreScrubbed(t *testing.T) {
	t.Parallel()
	token := "ghp_" + strings.Repeat("a1B2", 9)
	kept := &store{}
	ev, err := Verify(t.Context(), &script{results: []command.Result{printed(1, "FAIL: "+token+"\n")}}, "/d", "t", TestCommand{Argv: []string{"x"}}, kept.put)
	if err != nil || strings.Contains(fmt.Sprintf("%+v", ev)+kept.kept, token) {
		t.Errorf("%+v, %v", ev, err)
	}
}

func FuzzReport(f *testing.F) {
	f.Add(goEvents, true)
	f.Add("=== 1 failed in 0.1s ===\n# pass 1\nTests: 1 failed, 2 total\n\x1b[", false)
	f.Fuzz(func(t *testing.T, out string, isGo bool) {
		argv := []string{"x"}
		if isGo {
			argv = []string{"go", "test"}
		}
		rep := readReport(argv, printed(0, out))
		if rep.passed < 0 || rep.failed < 0 || rep.skipped < 0 {
			t.Errorf("negative counts: %+v", rep)
		}
		if n := len(clip(out+strings.Repeat("x", ExcerptBytes), ExcerptBytes)); n > ExcerptBytes {
			t.Errorf("clip left %d bytes", n)
		}
	})
}
