package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

const publishWorld = `name: An operator's day
covers: [Phases]
world:
  repos:
    - name: acme/shop
      roles: {maria: maintain}
      files: {prices.txt: "5\n"}
  issues:
    - {author: maria, title: Publish the new prices, body: They are ready and checked by everybody who has to.}
timeline:
  - {after: {label: "pipeline:done"}}
expect:
  issues:
    - has_labels: ["pipeline:done"]
`

const publishFlow = `apiVersion: flows/v1
name: publish
version: 1
phase: implement
entry: pin
sink: done
state:
  base_sha: {type: string, max_len: 64, default: ""}
  default_branch: {type: string, max_len: 255, default: ""}
  result: {type: enum, values: [none, merged, needs_human, closed], default: none}
stop: {to: done}
limits: {max_steps: 20, wall: 10m}
nodes:
  - {id: pin, kind: step, uses: workspace.pin}
  - {id: human, kind: approval, message: "Publish?", approvers: ["role:admin"], expires: 24h}
  - {id: done, kind: sink}
edges:
  - {from: pin, to: human}
  - {from: human, to: done, set: {result: merged}}
  - {from: human, to: done, on: [denied], set: {result: needs_human}}
`

// operated is an operator at a second process beside a running daemon.
type operated struct {
	t   *testing.T
	exe string
	dir string
	env []string
}

// do runs a command, which must end with the code, and returns its output.
func (o operated) do(code int, args ...string) []byte {
	o.t.Helper()
	cmd := exec.CommandContext(o.t.Context(), o.exe, append(args, "--json")...)
	cmd.Dir, cmd.Env = o.dir, append(cmd.Environ(), o.env...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		o.t.Fatalf("%v: %v", args, err)
	}
	if got := cmd.ProcessState.ExitCode(); got != code {
		o.t.Fatalf("%v: exit code %d, want %d\n%s%s", args, got, code, out, stderr.String())
	}
	return out
}

// seenRun is a run as the program lists it.
type seenRun struct{ ID, Flow, Status, Mode, Forked, Result string }

// runs waits until a run of the given kind has the status.
func (o operated) run(what, status string, is func(seenRun) bool) seenRun {
	o.t.Helper()
	var list []byte
	for end := time.Now().Add(time.Minute); time.Now().Before(end); {
		list = o.do(0, "runs", "list")
		for d := json.NewDecoder(bytes.NewReader(list)); ; {
			var r seenRun
			if d.Decode(&r) != nil {
				break
			}
			if is(r) && r.Status == status {
				return r
			}
		}
	}
	o.t.Fatalf("no %s run is %s:\n%s", what, status, list)
	return seenRun{}
}

// TestOperator runs a flow of the project's own, its shadow and a fork beside a
// running daemon, all by a second process.
//
// Covers: VK28, NX1, NX11, BL18.
func TestOperator(t *testing.T) {
	t.Parallel()
	needSandbox(t)
	exe, dir := program(t), t.TempDir()
	story := filepath.Join(dir, "world.yaml")
	if err := os.WriteFile(story, []byte(publishWorld), 0o600); err != nil {
		t.Fatal(err)
	}
	w := startWorld(t, exe, story, "")
	env := writeConfig(t, dir, w.ready, settings{listen: freeAddress(t), poll: "300ms"})
	config, err := os.ReadFile(filepath.Join(dir, "config.yaml"))
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "config.yaml"), append(config, "flows_dir: flows\n"...), 0o600)
	}
	if err == nil {
		err = os.Mkdir(filepath.Join(dir, "flows"), 0o700)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "flows", "publish.yaml"), []byte(publishFlow), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	bot := startBot(t, exe, dir, env)
	o := operated{t, exe, dir, env}

	o.do(2, "run", "acme/shop#1", "--flow", "nothing")
	o.do(2, "run", "acme/shop#1", "--flow", "publish", "--phase", "plan")
	o.do(3, "run", "acme/shop#1", "--flow", "publish")
	o.do(3, "run", "acme/shop#1", "--flow", "publish", "--shadow")
	real := o.run("real", "waiting", func(r seenRun) bool { return r.Flow == "publish" && r.Mode == "" })
	shadow := o.run("shadow", "waiting", func(r seenRun) bool { return r.Mode == "shadow" })

	o.do(0, "runs", "approve", real.ID)
	o.do(0, "runs", "approve", shadow.ID, "--note", "as the real one")
	o.run("real", "done", func(r seenRun) bool { return r.ID == real.ID && r.Result == "merged" })
	o.run("shadow", "done", func(r seenRun) bool { return r.ID == shadow.ID && r.Result == "merged" })
	o.do(0, "runs", "parity", shadow.ID, real.ID)
	o.do(1, "runs", "approve", real.ID)
	if final := w.final(t, time.Minute); !final.Passed {
		t.Errorf("the world did not end as expected:\n%s\n%s", final.Mismatches, bot.tail())
	}

	o.do(0, "runs", "fork", real.ID, "--from", "human")
	fork := o.run("forked", "waiting", func(r seenRun) bool { return r.Forked == real.ID })
	o.do(1, "runs", "fork", real.ID, "--from", "human") // the issue has an open run
	o.do(0, "runs", "deny", fork.ID)
	o.run("forked", "done", func(r seenRun) bool { return r.ID == fork.ID && r.Result == "needs_human" })
	o.do(1, "flow", "diff", real.ID, fork.ID)
	o.do(0, "runs", "audit", fork.ID)

	// What was asked for is on the runs' records, and what was refused.
	for _, want := range []struct{ id, what, why string }{
		{real.ID, "run", "the flow publish"},
		{shadow.ID, "run", "the flow publish, as a shadow"},
		{shadow.ID, "approve", "as the real one"},
		{real.ID, "approve", "refused: run " + real.ID + " is over (done)"},
		{real.ID, "fork", "refused: run " + fork.ID + " is open for the issue"},
		{fork.ID, "fork", "from human of run " + real.ID},
		{fork.ID, "deny", ""},
	} {
		line := fmt.Sprintf(`"what":%q,"why":"%s`, want.what, want.why)
		if got := o.do(0, "runs", "audit", want.id); !bytes.Contains(got, []byte(line)) {
			t.Errorf("run %s: no line with %s in %s", want.id, line, got)
		}
	}
	bot.terminate(t)
}
