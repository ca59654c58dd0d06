package replay

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	"github.com/pipelinebot/pipelinebot/internal/config"
	"github.com/pipelinebot/pipelinebot/internal/mockworld/scenario"
)

// Child starts the program as a child process, so that a kill is a real kill.
type Child struct {
	// Exe is the program.
	Exe string
	// Env is added to the child's short environment.
	Env []string
}

// Start implements scenario.Launcher.
func (c Child) Start(ctx context.Context, b scenario.Bot) (scenario.Process, error) {
	path, secrets, err := write(b)
	if err != nil {
		return nil, err
	}
	cfg, err := config.Load(path, func(name string) (string, bool) { v, ok := secrets[name]; return v, ok })
	if err != nil {
		return nil, fmt.Errorf("the scenario's configuration: %w", err)
	}
	// The log is kept over restarts, for whoever looks into a failure.
	logFile, err := os.OpenFile(filepath.Join(b.Dir, "serve.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the child's log: %w", err)
	}
	p := &child{cfg: cfg, gone: make(chan struct{}), log: logFile}
	//nolint:noctx // the child outlives the start; Kill and Terminate end it
	p.cmd = exec.Command(c.Exe, append([]string{"serve", "--config", path, "--json"}, moments(b)...)...)
	p.cmd.Env = append(environment(secrets), c.Env...)
	p.cmd.Stderr = io.MultiWriter(logFile, &p.stderr)
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("starting the program: %w", err)
	}
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting the program: %w", err)
	}
	ready := make(chan string, 1)
	go p.watch(out, ready)
	select {
	case addr := <-ready:
		p.addr = addr
		return p, nil
	case <-p.gone:
		return nil, fmt.Errorf("the program refused to start: %w\n%s%s", p.err, p.stdout, p.stderr.String())
	case <-ctx.Done():
		p.Kill()
		return nil, context.Cause(ctx)
	}
}

func moments(b scenario.Bot) []string {
	if b.MomentsURL == "" {
		return nil
	}
	return []string{"--moments", b.MomentsURL}
}

// environment is what a child gets: where programs are, and the secrets.
func environment(secrets map[string]string) []string {
	var env []string
	for _, name := range []string{"PATH", "HOME", "TMPDIR", "SystemRoot", "GOCOVERDIR"} {
		if v, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+v)
		}
	}
	for name, v := range secrets {
		env = append(env, name+"="+v)
	}
	return env
}

type child struct {
	cfg    *config.Config
	cmd    *exec.Cmd
	addr   string
	gone   chan struct{} // closed when the process is gone; err is set then
	err    error
	log    *os.File
	stdout string
	stderr tail
}

// watch reads standard output, whose first line says the address, and reaps
// the process.
func (p *child) watch(out io.Reader, ready chan<- string) {
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		var line struct{ Event, Listen, Error string }
		if json.Unmarshal(lines.Bytes(), &line) == nil && line.Event == "ready" {
			ready <- line.Listen
			continue
		}
		p.stdout += lines.Text() + "\n"
	}
	p.err = errors.Join(p.cmd.Wait(), p.log.Close())
	close(p.gone)
}

// Kill implements scenario.Process.
func (p *child) Kill() { _ = p.cmd.Process.Kill() }

// Terminate implements scenario.Process.
func (p *child) Terminate() { _ = p.cmd.Process.Signal(syscall.SIGTERM) }

// Wait implements scenario.Process.
func (p *child) Wait(ctx context.Context) error {
	select {
	case <-p.gone:
		return p.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// WebhookURL implements scenario.Process.
func (p *child) WebhookURL() string {
	if !p.cfg.GitHub.Webhooks {
		return ""
	}
	return "http://" + p.addr + "/webhook"
}

// Runs implements scenario.Process.
func (p *child) Runs(ctx context.Context) ([]scenario.RunView, error) { return readRuns(ctx, p.cfg) }

// tail keeps the last bytes written, for an error's text.
type tail struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

const tailBytes = 8 << 10

func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf.Write(b)
	if over := t.buf.Len() - tailBytes; over > 0 {
		t.buf.Next(over)
	}
	return len(b), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.ToValidUTF8(t.buf.String(), "?")
}
