package actuators_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/pipelinebot/pipelinebot/flows"
	"github.com/pipelinebot/pipelinebot/internal/command"
	"github.com/pipelinebot/pipelinebot/llm"
	"github.com/pipelinebot/pipelinebot/llm/llmtest"
	"github.com/pipelinebot/pipelinebot/phases/actuators"
)

type done struct {
	Summary string `json:"summary"`
}

type args = map[string]any

// TestWork is a whole piece of work with every tool.
func TestWork(t *testing.T) {
	t.Parallel()
	dir := tree(t, map[string]string{"go.mod": "module x\n", "add/add.go": "package add\n\nfunc Add(a, b int) int {\n\treturn a - b\n}\n"})
	var ran []command.Spec
	run := runner(func(_ context.Context, s command.Spec) (command.Result, error) {
		ran = append(ran, s)
		return command.Result{ExitCode: 1, Output: []byte("FAIL\n")}, nil
	})
	beats := 0
	m := &meter{}
	c := call(m)
	c.Beat = func(string) { beats++ }
	s := script(t,
		llmtest.CallAll(llmtest.Wish{Name: "list_files", Args: args{"pattern": "*.go"}}, llmtest.Wish{Name: "search", Args: args{"pattern": `a - b`, "context": 1}}),
		llmtest.Call("read_file", args{"path": "add/add.go"}),
		llmtest.Call("edit_file", args{"path": "add/add.go", "old": "a - b", "new": "a + b"}),
		llmtest.Call("write_file", args{"path": "add/sub/new.go", "content": "package sub\n"}),
		llmtest.Call("run", args{"argv": []string{"go", "test", "./..."}}),
		llmtest.Finish(done{"fixed"}),
	)
	got, log, err := actuators.Work[done](t.Context(), c, one(s), prompt(), actuators.Toolbox{
		Dir: dir, Runner: run, Allow: [][]string{{"go", "test"}}, Limits: command.Limits{Output: 9},
	})
	if err != nil || got.Summary != "fixed" {
		t.Fatalf("got %+v, %v", got, err)
	}
	if text := read(t, dir, "add/add.go"); !strings.Contains(text, "a + b") {
		t.Errorf("add.go = %q", text)
	}
	if read(t, dir, "add/sub/new.go") != "package sub\n" {
		t.Error("new.go was not written")
	}
	if len(ran) != 1 || ran[0].Dir != dir || ran[0].Limits.Output != 9 || ran[0].Network {
		t.Errorf("ran %+v", ran)
	}
	asked := s.Asked()
	for i, want := range []string{
		"add/add.go (54 bytes)", "     3\tfunc Add(a, b int) int {", "at line 4", "Created add/sub/new.go", "exit code 1\nFAIL",
	} {
		if text := results(asked[i+1])[0].Text; !strings.Contains(text, want) {
			t.Errorf("result %d = %q, want %q in it", i, text, want)
		}
	}
	if text := results(asked[1])[1].Text; text != "add/add.go-3- func Add(a, b int) int {\nadd/add.go:4: \treturn a - b\nadd/add.go-5- }\n" {
		t.Errorf("search = %q", text)
	}
	if log.Turns != 6 || log.ToolCalls != 6 || log.Ended != "finished" || log.Usage.Input != 600 || len(log.Messages) != 13 {
		t.Errorf("transcript: %d turns, %d calls, %q, %+v, %d messages", log.Turns, log.ToolCalls, log.Ended, log.Usage, len(log.Messages))
	}
	if b, err := json.Marshal(log); err != nil || !json.Valid(b) {
		t.Errorf("transcript as JSON: %v", err)
	}
	if u := m.spent(); u.ToolCalls != 6 || u.ModelCalls != 6 {
		t.Errorf("spent %+v", u)
	}
	if beats != 6 {
		t.Errorf("%d beats, want one a turn", beats)
	}
}

// results are the last tool results in a request.
func results(r llm.Request) []llm.ToolResult { return r.Messages[len(r.Messages)-1].Results }

func names(r llm.Request) string {
	var n []string
	for _, t := range r.Tools {
		n = append(n, t.Name)
	}
	return strings.Join(n, " ")
}

// Covers: VK3.
func TestToolsOffered(t *testing.T) {
	t.Parallel()
	run := runner(nil)
	for want, box := range map[string]actuators.Toolbox{
		"list_files read_file search finish":                          {ReadOnly: true, Runner: run, Allow: [][]string{{"go"}}},
		"list_files read_file search edit_file write_file finish":     {Runner: run},
		"list_files read_file search edit_file write_file run finish": {Runner: run, Allow: [][]string{{"go", "test"}}},
	} {
		s := script(t, llmtest.Finish(done{}))
		box.Dir = t.TempDir()
		if _, _, err := actuators.Work[done](t.Context(), call(&meter{}), one(s), prompt(), box); err != nil {
			t.Fatal(err)
		}
		if got := names(s.Asked()[0]); got != want {
			t.Errorf("tools = %s, want %s", got, want)
		}
	}
}

func TestBadToolbox(t *testing.T) {
	t.Parallel()
	for name, box := range map[string]actuators.Toolbox{
		"relative":     {Dir: "."},
		"missing":      {Dir: "/nowhere/at/all"},
		"empty prefix": {Dir: t.TempDir(), Runner: runner(nil), Allow: [][]string{{}}},
		"no runner":    {Dir: t.TempDir(), Allow: [][]string{{"go"}}},
	} {
		if _, _, err := actuators.Work[done](t.Context(), call(&meter{}), one(script(t)), prompt(), box); err == nil {
			t.Errorf("%s was accepted", name)
		}
	}
}

// work runs turns and returns what the model was told, turn by turn.
func work(t *testing.T, box actuators.Toolbox, turns ...llmtest.Turn) (asked []llm.Request, log actuators.Transcript, err error) {
	t.Helper()
	s := script(t, turns...)
	_, log, err = actuators.Work[done](t.Context(), call(&meter{}), one(s), prompt(), box)
	return s.Asked(), log, err
}

// TestErrorsTeach: what goes wrong in a tool is told to the model.
func TestErrorsTeach(t *testing.T) {
	t.Parallel()
	dir := tree(t, map[string]string{"a/b.txt": "one\ntwo words here\nthree\none\n", "bin": "a\x00b"})
	run := runner(func(context.Context, command.Spec) (command.Result, error) {
		return command.Result{TimedOut: true, ExitCode: -1}, nil
	})
	box := actuators.Toolbox{Dir: dir, Runner: run, Allow: [][]string{{"go", "test"}}}
	for _, c := range []struct {
		tool string
		args any
		want string
	}{
		{"delete_file", args{"path": "x"}, "The tools are: list_files"},
		{"read_file", json.RawMessage(`{"path": "a`), "not valid JSON"},
		{"read_file", args{}, `missing properties: ["path"]`},
		{"read_file", args{"path": "a/b.txt", "color": 1}, "color"},
		{"read_file", args{"path": "b.txt"}, "Did you mean a/b.txt?"},
		{"read_file", args{"path": "a"}, `"a/**"`},
		{"read_file", args{"path": "bin"}, "binary"},
		{"read_file", args{"path": "a/b.txt", "start": 9}, "has 4 lines"},
		{"read_file", args{"path": ""}, "empty"},
		{"edit_file", args{"path": "a/b.txt", "old": "one", "new": "1"}, "2 times, at lines 1, 4"},
		{"edit_file", args{"path": "a/b.txt", "old": "two words there", "new": "2"}, "     2\ttwo words here"},
		{"edit_file", args{"path": "a/b.txt", "old": "", "new": "2"}, "write_file"},
		{"edit_file", args{"path": "a/b.txt", "old": "one", "new": "one"}, "the same"},
		{"search", args{"pattern": "(?=x)"}, "RE2"},
		{"search", args{"pattern": ""}, "1 to 500"},
		{"list_files", args{"pattern": "[a"}, "syntax error"},
		{"list_files", args{"pattern": "../*"}, "leaves the repository"},
		{"write_file", args{"path": "a", "content": ""}, "is a folder"},
		{"run", args{"argv": []string{"sh", "-c", "go test"}}, "Allowed are: go test …"},
		{"run", args{"argv": []string{"go"}}, "Allowed are: go test …"},
	} {
		t.Run(c.tool+" "+c.want, func(t *testing.T) {
			t.Parallel()
			asked, _, err := work(t, box, llmtest.Call(c.tool, c.args), llmtest.Finish(done{}))
			if err != nil {
				t.Fatal(err)
			}
			if r := results(asked[1])[0]; !r.Error || !strings.Contains(r.Text, c.want) {
				t.Errorf("result = %+v, want an error with %q", r, c.want)
			}
		})
	}
	asked, _, err := work(t, box, llmtest.Call("run", args{"argv": []string{"go", "test"}}), llmtest.Finish(done{}))
	if err != nil || !strings.Contains(results(asked[1])[0].Text, "killed") {
		t.Errorf("a hang was not told: %v", err)
	}
}

// TestFinish: the answer must fit, and nothing may have failed beside it.
func TestFinish(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	asked, _, err := work(t, actuators.Toolbox{Dir: dir},
		llmtest.Finish(args{}),
		llmtest.CallAll(llmtest.Wish{Name: "read_file", Args: args{"path": "no"}}, llmtest.Wish{Name: "finish", Args: done{"x"}}),
		llmtest.Finish(done{"y"}),
	)
	if err != nil {
		t.Fatal(err)
	}
	if r := results(asked[1])[0]; !r.Error || !strings.Contains(r.Text, "summary") {
		t.Errorf("unfit answer: %+v", r)
	}
	if r := results(asked[2])[1]; !r.Error || !strings.Contains(r.Text, "failed") {
		t.Errorf("finish beside a failure: %+v", r)
	}
	bad := llmtest.Finish(args{})
	if _, log, err := work(t, actuators.Toolbox{Dir: dir}, bad, bad, bad); !errors.Is(err, actuators.ErrInvalidAnswer) || log.Ended != "invalid-answer" {
		t.Errorf("error = %v, ended %q", err, log.Ended)
	}
}

func TestStuck(t *testing.T) {
	t.Parallel()
	dir := tree(t, map[string]string{"a.txt": "one\n"})
	look := llmtest.Call("read_file", args{"path": "a.txt"})
	asked, log, err := work(t, actuators.Toolbox{Dir: dir}, look, look, look, look, look)
	if !errors.Is(err, actuators.ErrStuck) || actuators.Code(err) != "stuck" || log.Ended != "stuck" {
		t.Fatalf("error = %v, ended %q", err, log.Ended)
	}
	for turn, want := range []string{"     1\tone", "same call before", "Refused", "Refused"} {
		if text := results(asked[turn+1])[0].Text; turn+1 < len(asked) && !strings.Contains(text, want) {
			t.Errorf("turn %d: %q, want %q", turn+1, text, want)
		}
		if turn+2 == len(asked) {
			break
		}
	}
	if log.ToolCalls != 2 {
		t.Errorf("%d calls were carried out, want 2", log.ToolCalls)
	}

	// Doing and undoing is seen; looking again after a change is fine.
	there, back := llmtest.Call("edit_file", args{"path": "a.txt", "old": "one", "new": "two"}), llmtest.Call("edit_file", args{"path": "a.txt", "old": "two", "new": "one"})
	_, _, err = work(t, actuators.Toolbox{Dir: dir}, look, there, look, back, look, there, look, back, look, there, back, there)
	if !errors.Is(err, actuators.ErrStuck) {
		t.Errorf("doing and undoing: %v", err)
	}
	// A command may change files, but running it again and again is no work.
	run := runner(func(context.Context, command.Spec) (command.Result, error) { return command.Result{ExitCode: 1}, nil })
	box := actuators.Toolbox{Dir: dir, Runner: run, Allow: [][]string{{"go"}}}
	test := llmtest.Call("run", args{"argv": []string{"go", "test"}})
	asked, _, err = work(t, box, look, test, look, test, look, test, llmtest.Finish(done{}))
	if err != nil {
		t.Fatal(err)
	}
	if r := results(asked[5])[0]; r.Error || strings.Contains(r.Text, "before") {
		t.Errorf("looking again after a command: %+v", r)
	}
	if r := results(asked[6])[0]; !r.Error || !strings.Contains(r.Text, "Refused") {
		t.Errorf("the same command without a change: %+v", r)
	}
	if _, _, err = work(t, actuators.Toolbox{Dir: dir}, llmtest.Say("a"), llmtest.Say("b"), llmtest.Say("c")); !errors.Is(err, actuators.ErrStuck) {
		t.Errorf("text only: %v", err)
	}
	_, log, err = work(t, actuators.Toolbox{Dir: dir, MaxTurns: 2}, look, llmtest.Call("list_files", args{}))
	if !errors.Is(err, actuators.ErrStuck) || log.Turns != 2 {
		t.Errorf("turns used up: %v after %d", err, log.Turns)
	}
}

// TestNudges: text is answered, a cut answer is explained, and the end of the
// turns is announced.
func TestNudges(t *testing.T) {
	t.Parallel()
	asked, _, err := work(t, actuators.Toolbox{Dir: t.TempDir(), MaxTurns: 4},
		llmtest.Say("Let me think."),
		llmtest.Respond(llm.Response{Stop: llm.MaxTokens, Calls: []llm.ToolCall{{ID: "1", Name: "write_file", Input: json.RawMessage(`{"path":"a","content":"xx`)}}}),
		llmtest.Call("list_files", args{}),
		llmtest.Finish(done{}),
	)
	if err != nil {
		t.Fatal(err)
	}
	last := func(i int) llm.Message { return asked[i].Messages[len(asked[i].Messages)-1] }
	if !strings.Contains(last(1).Text, "no effect") || !strings.Contains(last(2).Results[0].Text, "cut off") || !strings.Contains(last(3).Text, "1 turns are left") {
		t.Errorf("told: %q, %q, %q", last(1).Text, last(2).Results[0].Text, last(3).Text)
	}
	for _, r := range asked {
		if _, err := json.Marshal(r); err != nil {
			t.Errorf("a request can't be stored: %v", err)
		}
	}
}

// TestTrim: the conversation stays bounded, its beginning and its end whole.
func TestTrim(t *testing.T) {
	t.Parallel()
	files := map[string]string{}
	var turns []llmtest.Turn
	for i := range 12 {
		name := fmt.Sprintf("f%d.txt", i)
		files[name] = strings.Repeat(fmt.Sprintf("line of %s\n", name), 600)
		turns = append(turns, func(ctx context.Context, r llm.Request) (llm.Response, error) {
			resp, err := llmtest.Call("read_file", args{"path": name})(ctx, r)
			resp.Opaque = json.RawMessage(`[{"type":"thinking"}]`)
			return resp, err
		})
	}
	turns = append(turns, llmtest.Finish(done{}))
	const room = 25_000
	asked, log, err := work(t, actuators.Toolbox{Dir: tree(t, files), ContextTokens: room}, turns...)
	if err != nil {
		t.Fatal(err)
	}
	if log.Trims == 0 {
		t.Fatal("nothing was trimmed")
	}
	gone := 0
	for i, r := range asked {
		n, signed, now := 0, 0, 0
		for _, m := range r.Messages {
			n += len(m.Text)
			if m.Opaque != nil {
				signed++
			}
			for _, res := range m.Results {
				if strings.Contains(res.Text, "dropped to save room") {
					now++
				}
			}
			for _, res := range m.Results {
				n += len(res.Text)
			}
		}
		if now > gone && signed > 0 {
			t.Errorf("request %d keeps %d signed turns over a changed past", i, signed)
		}
		gone = now
		if n/3 > room {
			t.Errorf("request %d has about %d tokens", i, n/3)
		}
		if !strings.Contains(r.Messages[0].Text, "## Issue") {
			t.Errorf("request %d lost its first message", i)
		}
		for j, m := range r.Messages {
			if want := []llm.Role{llm.User, llm.Assistant}[j%2]; m.Role != want {
				t.Errorf("request %d, message %d: role %s", i, j, m.Role)
			}
			if j > 0 && m.Role == llm.User && m.Results[0].ID != r.Messages[j-1].Calls[0].ID {
				t.Errorf("request %d: result %d answers another call", i, j)
			}
		}
	}
	whole := 0
	for _, m := range log.Messages {
		if m.Opaque != nil {
			t.Error("the transcript holds signed blocks")
		}
		for _, r := range m.Results {
			if strings.Contains(r.Text, "line of") {
				whole++
			}
		}
	}
	if whole != 12 {
		t.Errorf("the transcript has %d whole results, want 12", whole)
	}
}

func TestWorkEnds(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	list := llmtest.Call("list_files", args{})
	s := script(t, list)
	_, log, err := actuators.Work[done](t.Context(), call(&meter{most: 1}), one(s), prompt(), actuators.Toolbox{Dir: dir})
	if !errors.Is(err, flows.ErrBudget) || log.Ended != "budget" {
		t.Errorf("budget in a tool call: %v, ended %q", err, log.Ended)
	}
	broken := runner(func(context.Context, command.Spec) (command.Result, error) {
		return command.Result{}, errors.New("no sandbox")
	})
	box := actuators.Toolbox{Dir: dir, Runner: broken, Allow: [][]string{{"go"}}}
	if _, _, err := work(t, box, llmtest.Call("run", args{"argv": []string{"go", "vet"}})); err == nil || !strings.Contains(err.Error(), "no sandbox") {
		t.Errorf("a runner that fails: %v", err)
	}
	why := errors.New("stop label")
	ctx, cancel := context.WithCancelCause(t.Context())
	started := make(chan struct{})
	go func() { <-started; cancel(why) }()
	s = script(t, list, llmtest.Block(started))
	_, log, err = actuators.Work[done](ctx, call(&meter{}), one(s), prompt(), actuators.Toolbox{Dir: dir})
	if !errors.Is(err, why) || log.Turns != 2 {
		t.Errorf("cancelled: %v after %d turns", err, log.Turns)
	}
}
