//go:build !race

package conformance_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pipelinebot/pipelinebot/internal/mockworld"
	"github.com/pipelinebot/pipelinebot/internal/mockworld/scenario"
	"github.com/pipelinebot/pipelinebot/internal/replay"
)

// exchanges is where the tests of mockworld write what they saw, when told.
const exchanges = "MOCKWORLD_EXCHANGES"

// verdict is what testdata/check.mjs prints.
type verdict struct {
	Answers    int
	Webhooks   int
	Operations map[string]int
	Events     map[string]int
	Corrected  []string
	Violations []struct {
		Where, What, Sample string
		Line, Times         int
	}
}

func check(t *testing.T, dir string, files ...string) verdict {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "node", append([]string{"check.mjs"}, files...)...)
	cmd.Dir, cmd.Stderr = dir, os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("check.mjs: %v", err)
	}
	var v verdict
	if err := json.Unmarshal(out, &v); err != nil {
		t.Fatalf("check.mjs: %v: %s", err, out)
	}
	return v
}

// TestAsGitHubDescribes validates every answer and every webhook that the
// tests of MockWorld and a choice of scenarios see.
func TestAsGitHubDescribes(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("replays scenarios")
	}
	dir := need(t)
	suite, played := filepath.Join(t.TempDir(), "suite.jsonl"), filepath.Join(t.TempDir(), "scenarios.jsonl")
	// Its tests call each operation and make each event at least once.
	cmd := exec.CommandContext(t.Context(), "go", "test", "-count=1", "./internal/mockworld")
	cmd.Dir = filepath.Join("..", "..")
	cmd.Env = append(cmd.Environ(), "CGO_ENABLED=0", exchanges+"="+suite) // compiled so already, where CI runs
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("the tests of mockworld: %v: %s", err, out)
	}
	files := chosen(t)
	out, err := os.Create(played)
	if err != nil {
		t.Fatal(err)
	}
	into := &writer{Writer: out}
	var group sync.WaitGroup
	slots := make(chan struct{}, atOnce)
	for _, f := range files {
		group.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			playInto(t, into, f)
		})
	}
	group.Wait()
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
	table := filepath.Join(t.TempDir(), "operations.jsonl")
	var lines bytes.Buffer
	enc := json.NewEncoder(&lines)
	for _, o := range mockworld.Operations() {
		must(t, enc.Encode(o))
	}
	must(t, os.WriteFile(table, lines.Bytes(), 0o600))
	v := check(t, dir, suite, played, table)
	t.Logf("%d answers to %d operations and statuses, %d webhooks of %d kinds, %d scenarios", v.Answers, len(v.Operations), v.Webhooks, len(v.Events), len(files))
	for _, c := range v.Corrected {
		t.Logf("corrected in the description: %s", c)
	}
	for _, x := range v.Violations {
		t.Errorf("%s: %s (%d times): %s", x.Where, x.What, x.Times, x.Sample)
	}
	if v.Answers < 500 || len(v.Operations) < 100 || len(v.Events) < 25 {
		t.Errorf("too little was seen: %d answers of %d kinds, %d kinds of webhooks", v.Answers, len(v.Operations), len(v.Events))
	}
}

// chosen are the scenarios to replay: one of each family, or all.
func chosen(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("..", "..", "testdata", "scenarios", "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no scenarios: %v", err)
	}
	if os.Getenv(every) != "" {
		return files
	}
	var some []string
	last := ""
	for _, f := range files {
		if family, _, _ := strings.Cut(filepath.Base(f), "-"); family != last {
			last = family
			some = append(some, f)
		}
	}
	return some
}

// atOnce is how many worlds live at the same time; they mostly wait.
const atOnce = 4

// writer takes the lines of several worlds.
type writer struct {
	mu sync.Mutex
	io.Writer
}

func (w *writer) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.Writer.Write(p)
}

// playInto replays a scenario with the program in this process and writes
// what its world answered and sent.
func playInto(t *testing.T, w io.Writer, file string) {
	t.Helper()
	src, err := os.ReadFile(file)
	if err != nil {
		t.Error(err)
		return
	}
	s, err := scenario.Load(file, src)
	if err != nil {
		t.Error(err)
		return
	}
	_, err = scenario.Run(t.Context(), s, replay.Inside{Log: slog.New(slog.DiscardHandler)}, scenario.Options{Dir: t.TempDir(), KeepBodies: true, Timeout: 4 * time.Minute,
		Hold: func(ctx context.Context, l scenario.Live) error {
			t.Logf("%s: passed %v", filepath.Base(file), l.Report.Passed) // judged elsewhere
			return errors.Join(copyLines[mockworld.Request](ctx, w, l.WorldURL+"/_world/requests"),
				copyLines[mockworld.Delivery](ctx, w, l.WorldURL+"/_world/deliveries"))
		}})
	if err != nil {
		t.Errorf("%s: %v", file, err)
	}
}

// copyLines turns a list of JSON objects into lines.
func copyLines[T any](ctx context.Context, w io.Writer, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	var list []T
	if err := json.NewDecoder(resp.Body).Decode(&list); err != nil {
		return err
	}
	enc := json.NewEncoder(w)
	for _, x := range list {
		if err := enc.Encode(x); err != nil {
			return err
		}
	}
	return nil
}

// TestTheCheckBites shows that the check finds what it is for.
func TestTheCheckBites(t *testing.T) {
	t.Parallel()
	dir := need(t)
	label := `{"id":1,"node_id":"L","url":"http://127.0.0.1/l","name":"bug","description":null,"color":"d73a4a","default":false}`
	answer := func(status int, body string) mockworld.Request {
		return mockworld.Request{Seq: 1, Method: "GET", Path: "/repos/a/b/labels", Route: "/repos/{owner}/{repo}/labels", Status: status, Response: body}
	}
	cases := []struct {
		line any
		want string // of the violation, "" for none
	}{
		{answer(200, "["+label+"]"), ""},
		{answer(200, "["+strings.Replace(label, `"node_id":"L",`, "", 1)+"]"), "lacks node_id"},
		{answer(200, "["+strings.Replace(label, `"bug"`, "null", 1)+"]"), "must be string"},
		{answer(200, "["+strings.Replace(label, `http://127.0.0.1/l`, "no address", 1)+"]"), `must match format "uri"`},
		{answer(200, "["+strings.Replace(label, `"id"`, `"invented":1,"id"`, 1)+"]"), "has invented"},
		{answer(200, label), "must be array"},
		{answer(200, ""), "has no body"},
		{answer(418, "{}"), "no such status"},
		{mockworld.Request{Seq: 1, Method: "GET", Path: "/repos/a/b/labels", Route: "/repos/{owner}/{repo}/tags_of", Status: 200, Response: "[]"}, "no such operation"},
		{mockworld.Request{Seq: 1, Method: "GET", Path: "/x", Status: 501, Response: "{}"}, "knows no such operation"},
		{mockworld.Delivery{GUID: "g", Event: "issues", Action: "painted", Payload: "{}"}, "no such event"},
		{mockworld.Delivery{GUID: "g", Event: "issues", Action: "opened", Payload: `{"action":"opened"}`}, "lacks issue"},
	}
	var lines bytes.Buffer
	enc := json.NewEncoder(&lines)
	for _, c := range cases {
		if err := enc.Encode(c.line); err != nil {
			t.Fatal(err)
		}
	}
	file := filepath.Join(t.TempDir(), "lines.jsonl")
	if err := os.WriteFile(file, lines.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	found := make([]string, len(cases))
	for _, x := range check(t, dir, file).Violations {
		found[x.Line-1] += x.What + "\n"
	}
	for k, c := range cases {
		if c.want == "" && found[k] != "" || !strings.Contains(found[k], c.want) {
			t.Errorf("%+v: got %q, want %q", c.line, found[k], c.want)
		}
	}
}
