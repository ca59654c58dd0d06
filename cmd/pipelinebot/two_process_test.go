package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/pipelinebot/pipelinebot/internal/mockworld"
)

// TestTwoProcesses starts a world and the bot as two processes that share
// nothing but an address, a credential and a webhook secret, told of news by
// webhooks, by polling alone, and as a GitHub App. All end in the same world.
func TestTwoProcesses(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("takes a minute")
	}
	needSandbox(t)
	exe := program(t)
	pipeline := filepath.Join("..", "..", "testdata", "scenarios", "phases-01-label-to-reviewed-pull.yaml")
	tests := []struct {
		name     string
		webhooks bool
		app      bool
		// poll is the interval: an hour when webhooks alone must do.
		poll string
	}{
		{name: "webhooks", webhooks: true, poll: "1h"},
		{name: "polling", poll: "300ms"},
		{name: "app", webhooks: true, app: true, poll: "1h"},
	}
	var mu sync.Mutex
	ends := map[string]endOfWorld{}
	t.Run("worlds", func(t *testing.T) {
		t.Parallel()
		t.Cleanup(func() {
			for _, tt := range tests[1:] {
				if diff := gocmp.Diff(ends[tests[0].name], ends[tt.name]); diff != "" && !t.Failed() {
					t.Errorf("the world of %s (-) is not that of %s (+):\n%s", tests[0].name, tt.name, diff)
				}
			}
		})
		for _, tt := range tests {
			t.Run(tt.name, func(t *testing.T) {
				t.Parallel()
				file := pipeline
				if tt.app {
					file = asApp(t, pipeline)
				}
				listen := freeAddress(t)
				hook := ""
				if tt.webhooks {
					hook = "http://" + listen + "/webhook"
				}
				w := startWorld(t, exe, file, hook)
				dir := t.TempDir()
				env := writeConfig(t, dir, w.ready, settings{listen: listen, poll: tt.poll, webhooks: tt.webhooks})
				bot := startBot(t, exe, dir, env)
				final := w.final(t, 8*time.Minute)
				if !final.Passed {
					t.Errorf("the world did not end as the scenario expects:\n%s\nthe bot's log, last part:\n%s", final.Mismatches, bot.tail())
				}
				bot.terminate(t)
				mu.Lock()
				defer mu.Unlock()
				ends[tt.name] = normalised(final.World)
			})
		}
	})
}

// asApp is a scenario whose bot is a GitHub App.
func asApp(t testing.TB, file string) string {
	t.Helper()
	src, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(t.TempDir(), "app.yaml")
	text := strings.Replace(string(src), "\nworld:\n", "\nworld:\n  auth: app\n", 1)
	if err := os.WriteFile(out, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return out
}

// freeAddress is a loopback address that nobody listens on: the world has to
// be told where the bot will be before there is a bot.
func freeAddress(t testing.TB) string {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close() // only its address is wanted
	return l.Addr().String()
}

// announcement is the first line that `mockworld serve --json` prints.
type announcement struct {
	Event          string   `json:"event"`
	BaseURL        string   `json:"base_url"`
	Token          string   `json:"token"`
	WebhookSecret  string   `json:"webhook_secret"`
	ModelURL       string   `json:"model_url"`
	ModelKey       string   `json:"model_key"`
	Repositories   []string `json:"repositories"`
	AppID          int64    `json:"app_id"`
	InstallationID int64    `json:"installation_id"`
	PrivateKey     string   `json:"private_key"`
}

// finalLine is its last: the world as it ended.
type finalLine struct {
	Event      string             `json:"event"`
	Passed     bool               `json:"passed"`
	Mismatches json.RawMessage    `json:"mismatches"`
	World      mockworld.Snapshot `json:"world"`
}

type worldProcess struct {
	ready announcement
	done  chan finalLine
	steps chan step
}

// step is a line that says what a person of the world has just done.
type step struct {
	At         time.Time
	Kind, Text string
}

// startWorld runs `pipelinebot mockworld serve` until the test ends.
func startWorld(t testing.TB, exe, scenario, webhook string) *worldProcess {
	t.Helper()
	args := []string{"mockworld", "serve", "--scenario", scenario, "--dir", t.TempDir(), "--json"}
	if webhook != "" {
		args = append(args, "--webhook", webhook)
	}
	// Without a context: it is ended by its own signal.
	cmd := exec.Command(exe, args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w := &worldProcess{done: make(chan finalLine, 1), steps: make(chan step, 100)}
	ready, gone := make(chan announcement, 1), make(chan struct{})
	go func() {
		defer close(gone)
		lines := bufio.NewReader(out)
		for {
			line, err := lines.ReadBytes('\n')
			var kind struct{ Event string }
			if json.Unmarshal(line, &kind) == nil {
				var a announcement
				var f finalLine
				switch kind.Event {
				case "ready":
					_ = json.Unmarshal(line, &a)
					ready <- a
				case "final":
					_ = json.Unmarshal(line, &f)
					w.done <- f
				case "":
					var s step
					if json.Unmarshal(line, &s) == nil && s.Kind == "step" {
						w.steps <- s
					}
				}
			}
			if err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		<-gone
		_ = cmd.Wait()
	})
	select {
	case w.ready = <-ready:
	case <-gone:
		t.Fatalf("mockworld ended: %s", stderr.String())
	}
	return w
}

// final waits for the end of the story.
func (w *worldProcess) final(t testing.TB, limit time.Duration) finalLine {
	t.Helper()
	select {
	case f := <-w.done:
		return f
	case <-time.After(limit):
		t.Errorf("the story had not ended after %s", limit)
		return finalLine{}
	}
}

// settings are what the configurations differ in.
type settings struct {
	listen, poll string
	webhooks     bool
	sandbox      string // "auto" when empty
}

// writeConfig writes a config.yaml as a person would, and returns the
// environment that it names.
func writeConfig(t testing.TB, dir string, a announcement, s settings) []string {
	t.Helper()
	env := []string{"MODEL_KEY=" + a.ModelKey}
	auth := "  token_env: BOT_TOKEN\n"
	if a.AppID != 0 {
		auth = fmt.Sprintf("  app: {id: %d, installation_id: %d, private_key_file: app.pem}\n", a.AppID, a.InstallationID)
		if err := os.WriteFile(filepath.Join(dir, "app.pem"), []byte(a.PrivateKey), 0o600); err != nil {
			t.Fatal(err)
		}
	} else {
		env = append(env, "BOT_TOKEN="+a.Token)
	}
	if s.webhooks {
		auth += "  webhook_secret_env: [HOOK_SECRET]\n"
		env = append(env, "HOOK_SECRET="+a.WebhookSecret)
	}
	text := fmt.Sprintf(`data_dir: data
server: {listen: %q}
github:
  base_url: %s
  webhooks: %t
  poll_interval: %s
  writes_per_minute: 10000
%srepositories:
  - name: %s
models:
  backends: {main: {driver: anthropic, base_url: %q, api_key_env: MODEL_KEY}}
  default: {backend: main, model: claude-sonnet-4-5}
phases: {implement: {tests: {command: [sh, run-tests.sh]}}}
sandbox: {mode: %s}
`, s.listen, a.BaseURL, s.webhooks, s.poll, auth, a.Repositories[0], a.ModelURL, cmp.Or(s.sandbox, "auto"))
	if err := os.WriteFile(filepath.Join(dir, "config.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return env
}

// botProcess is one `pipelinebot serve`.
type botProcess struct {
	cmd  *exec.Cmd
	gone chan struct{}
	log  string
}

// startBot runs `pipelinebot serve` in a folder with a config.yaml, with an
// environment of its own, and returns once it listens.
func startBot(t testing.TB, exe, dir string, env []string) *botProcess {
	t.Helper()
	// Without a context: it is ended by its own signal.
	cmd := exec.Command(exe, "serve", "--json")
	cmd.Dir = dir
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "TMPDIR=" + os.TempDir()}, env...)
	b := &botProcess{cmd: cmd, gone: make(chan struct{}), log: filepath.Join(dir, "serve.log")}
	log, err := os.OpenFile(b.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = log
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ready := make(chan struct{})
	go func() {
		lines := bufio.NewReader(out)
		line, err := lines.ReadString('\n')
		if err == nil && strings.Contains(line, `"ready"`) {
			close(ready)
		} else {
			_, _ = log.WriteString(line)
		}
		_, _ = io.Copy(log, lines)
		_ = cmd.Wait()
		_ = log.Close()
		close(b.gone)
	}()
	t.Cleanup(b.kill)
	select {
	case <-ready:
	case <-b.gone:
		t.Fatalf("serve ended before it listened:\n%s", b.tail())
	}
	return b
}

// kill ends it as a power cut would.
func (b *botProcess) kill() {
	_ = b.cmd.Process.Kill()
	<-b.gone
}

// terminate asks it to end, and expects that it does, in order.
func (b *botProcess) terminate(t testing.TB) {
	t.Helper()
	if err := b.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		t.Error(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	select {
	case <-b.gone:
	case <-ctx.Done():
		t.Errorf("serve did not end on SIGTERM:\n%s", b.tail())
		b.kill()
	}
	if code := b.cmd.ProcessState.ExitCode(); code != 0 {
		t.Errorf("serve ended with exit code %d:\n%s", code, b.tail())
	}
}

func (b *botProcess) tail() string {
	log, _ := os.ReadFile(b.log) // its absence says enough
	return lastBytes(log, 6000)
}

// endOfWorld is what has to be the same however the bot was told and how often
// it died: neither ids nor times nor prices.
type endOfWorld struct {
	Labels, Comments, Pulls, Reviews, Branches, Refs, Violations []string
}

var (
	branchName = regexp.MustCompile(`pipelinebot/(\d+)-[0-9a-z]+`)
	commitName = regexp.MustCompile(`\b[0-9a-f]{7,64}\b`)
	runName    = regexp.MustCompile(`\b0[0-9a-z]{25}\b`)
)

// normalised reads a snapshot; a comment stands for its author and first line.
func normalised(s mockworld.Snapshot) endOfWorld {
	var e endOfWorld
	add := func(to *[]string, format string, args ...any) {
		text := strings.NewReplacer("pipelinebot[bot]", "BOT", "@pipelinebot", "@BOT").Replace(fmt.Sprintf(format, args...))
		text = branchName.ReplaceAllString(text, "pipelinebot/$1-X")
		text = runName.ReplaceAllString(text, "RUN")
		*to = append(*to, commitName.ReplaceAllString(text, "SHA"))
	}
	author := func(login string) string {
		if strings.HasPrefix(login, "pipelinebot") {
			return "BOT"
		}
		return login
	}
	for repo, r := range s.Repos {
		for _, i := range r.Issues {
			add(&e.Labels, "%s#%d %s %v", repo, i.Number, i.State, slices.Sorted(slices.Values(i.Labels)))
			for _, c := range i.Comments {
				first, _, _ := strings.Cut(c.Body, "\n")
				add(&e.Comments, "%s#%d %s: %s", repo, i.Number, author(c.Author), first)
			}
		}
		for _, p := range r.Pulls {
			add(&e.Pulls, "%s#%d %s by %s: %q from %s to %s, +%d -%d in %v, %d commits, %d comments", repo, p.Number, p.State,
				author(p.Author), p.Title, p.Head, p.Base, p.Additions, p.Deletions, p.Files, p.Commits, len(p.Comments))
			for _, v := range p.Reviews {
				first, _, _ := strings.Cut(v.Body, "\n")
				add(&e.Reviews, "%s#%d %s %s: %s (%d lines)", repo, p.Number, author(v.Author), v.State, first, len(v.Comments))
			}
		}
		for name, b := range r.Branches {
			add(&e.Branches, "%s %s: %d commits", repo, name, b.Commits)
		}
		for name := range r.Refs {
			add(&e.Refs, "%s %s", repo, name)
		}
	}
	for _, list := range []*[]string{&e.Labels, &e.Comments, &e.Pulls, &e.Reviews, &e.Branches, &e.Refs} {
		slices.Sort(*list)
	}
	e.Violations = append(e.Violations, s.Violations...)
	return e
}
