package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"strings"

	"github.com/pipelinebot/pipelinebot/flows"
	"github.com/pipelinebot/pipelinebot/internal/command"
	"github.com/pipelinebot/pipelinebot/phases/blob"
	"github.com/pipelinebot/pipelinebot/phases/issue"
)

func checkCommand(raw json.RawMessage) error {
	w, err := flows.With[flows.CommandWith](raw)
	if err != nil {
		return err
	}
	for _, argv := range append([][]string{w.Argv}, w.Accept...) {
		if len(argv) == 0 || argv[0] == "" {
			return errors.New("a command without a program")
		}
	}
	return nil
}

// command runs a program of a flow in the run's worktree, in the sandbox,
// without a shell, a network or the bot's environment. It reads base_sha and
// work_ref; what it changes in the worktree is not kept. Its delta has the
// output (an artifact, tokens removed) and the exit code; -1 when it was killed
// or never started. Another code than 0, or an accept check that fails, is the
// outcome failed with the last line or the check's text.
func (k kit) command() flows.Action {
	return flows.Action{
		Name: flows.CommandAction, Version: "1", CheckWith: checkCommand,
		Reads: []string{"base_sha", "work_ref"}, Outcomes: []flows.Outcome{flows.Failed, flows.Timeout},
		Run: func(ctx context.Context, c flows.Call) (flows.Result, error) {
			with, err := flows.With[flows.CommandWith](c.With)
			if err != nil {
				return flows.Result{}, err
			}
			at, err := position(c)
			if err != nil {
				return flows.Result{}, err
			}
			w, err := k.Trees.Open(ctx, c, at)
			if err != nil {
				return flows.Result{}, issue.Retryable(err)
			}
			ran := &ran{kit: k, dir: w.Dir(), env: with.Env}
			c.Beat("running " + with.Argv[0])
			outcome, note, err := ran.run(ctx, with.Argv)
			code := ran.code
			for _, argv := range with.Accept {
				if err != nil || outcome != flows.OK {
					break
				}
				c.Beat("checking with " + argv[0])
				if outcome, note, err = ran.run(ctx, argv); outcome != flows.OK {
					note = fmt.Sprintf("not accepted: %s: %s", strings.Join(argv, " "), note)
				}
			}
			if err != nil {
				return flows.Result{}, fmt.Errorf("running %s: %w", with.Argv[0], err)
			}
			a, err := blob.Put(ctx, c.Artifacts, "output of "+with.Argv[0], []byte(k.Scrub.Scrub(ran.output.String())))
			if err != nil {
				return flows.Result{}, err
			}
			return flows.Result{
				Outcome: outcome, Note: k.Scrub.Scrub(note), Delta: flows.Delta{flows.OutputKey: a, flows.CodeKey: code},
			}, nil
		},
	}
}

// ran is a command and its checks.
type ran struct {
	kit    kit
	dir    string
	env    map[string]string
	output strings.Builder
	code   int
}

func (r *ran) run(ctx context.Context, argv []string) (flows.Outcome, string, error) {
	r.code = -1
	fmt.Fprintf(&r.output, "$ %s\n", strings.Join(argv, " "))
	res, err := r.kit.Runner.Run(ctx, command.Spec{Argv: argv, Dir: r.dir, Env: r.env, Limits: r.kit.CommandLimits})
	if errors.Is(err, exec.ErrNotFound) && ctx.Err() == nil {
		note := fmt.Sprintf("the program %q is not installed in the sandbox", argv[0])
		r.output.WriteString(note + "\n")
		return flows.Failed, note, nil
	}
	if err != nil {
		return flows.Failed, "", err
	}
	r.code = res.ExitCode
	r.output.Write(res.Output)
	if n := len(res.Output); n > 0 && res.Output[n-1] != '\n' {
		r.output.WriteByte('\n')
	}
	if res.Truncated {
		r.output.WriteString("[some of the output was dropped]\n")
	}
	last := lastLine(string(res.Output))
	switch {
	case res.TimedOut:
		fmt.Fprintf(&r.output, "[killed after %s]\n", res.Took)
		return flows.Timeout, fmt.Sprintf("killed after %s: %s", res.Took, last), nil
	case res.ExitCode != 0:
		fmt.Fprintf(&r.output, "[exit code %d]\n", res.ExitCode)
		return flows.Failed, fmt.Sprintf("exit code %d: %s", res.ExitCode, last), nil
	}
	return flows.OK, last, nil
}

// lastLine is the last line that says something.
func lastLine(s string) string {
	lines := strings.Split(strings.ToValidUTF8(s, "?"), "\n")
	for i := len(lines) - 1; i >= 0; i-- {
		if text := strings.TrimSpace(lines[i]); text != "" {
			return clipName(text)
		}
	}
	return "no output"
}
