package gitws

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"
)

// The named deadlines of git calls.
const (
	localDeadline = 5 * time.Minute
	lsDeadline    = time.Minute
	fetchDeadline = 20 * time.Minute
	pushDeadline  = 10 * time.Minute
)

// messageBytes bounds what is kept of git's own words.
const messageBytes = 2 << 10

// tokenVar hands the credential to the helper; it is set on one process only.
const tokenVar = "PIPELINEBOT_GIT_TOKEN"

// call is one run of git.
type call struct {
	// gitDir and workTree are explicit; dir is the working directory, gitDir
	// when empty.
	gitDir, workTree, dir string
	args                  []string
	stdin                 []byte
	env                   []string
	config                [][2]string
}

// failure is a git call that ended with an error code.
type failure struct {
	command string
	code    int
	// message is what git said, scrubbed and short; output is its standard
	// output, which push uses for its report.
	message string
	output  []byte
	err     error
}

func (f *failure) Error() string {
	if f.message == "" {
		return fmt.Sprintf("git %s: %v", f.command, f.err)
	}
	return fmt.Sprintf("git %s: %v: %s", f.command, f.err, f.message)
}

func (f *failure) Unwrap() error { return f.err }

// git runs git and returns its standard output. Errors are *failure, or the
// cause of ctx.
func (p *Provider) git(ctx context.Context, deadline time.Duration, c call) ([]byte, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, deadline, fmt.Errorf("git %s took longer than %s: %w", c.args[0], deadline, context.DeadlineExceeded))
	defer cancel()
	cmd := exec.CommandContext(ctx, p.o.Git, c.args...)
	cmd.Dir = c.dir
	if cmd.Dir == "" {
		cmd.Dir = c.gitDir
	}
	cmd.Env = p.environ(c)
	if c.stdin != nil {
		cmd.Stdin = bytes.NewReader(c.stdin)
	}
	var out bytes.Buffer
	said := &tail{most: messageBytes}
	cmd.Stdout, cmd.Stderr = &out, said
	cmd.WaitDelay = 2 * time.Second
	ownGroup(cmd) // cancelling kills git and what it started
	err := cmd.Run()
	if err == nil {
		return out.Bytes(), nil
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	f := &failure{command: c.args[0], code: -1, message: p.o.Scrubber.Scrub(strings.TrimSpace(string(said.kept))), output: out.Bytes(), err: err}
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		f.code = exit.ExitCode()
	}
	return nil, f
}

// environ is the whole environment of a git process.
func (p *Provider) environ(c call) []string {
	home := filepath.Join(p.o.Dir, "home")
	env := []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + home, "XDG_CONFIG_HOME=" + home, "LC_ALL=C", "TZ=UTC",
		"GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=" + os.DevNull, "GIT_ATTR_NOSYSTEM=1",
		"GIT_TERMINAL_PROMPT=0", "GIT_NO_REPLACE_OBJECTS=1", "GIT_LITERAL_PATHSPECS=1",
		"GIT_CEILING_DIRECTORIES=" + p.o.Dir,
	}
	keep := []string{"HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY", "NO_PROXY", "https_proxy", "http_proxy", "all_proxy", "no_proxy", "TMPDIR"}
	if runtime.GOOS == "windows" {
		keep = append(keep, "SystemRoot", "SystemDrive", "ComSpec", "PATHEXT", "TEMP", "TMP")
	}
	for _, k := range keep {
		if v, ok := os.LookupEnv(k); ok {
			env = append(env, k+"="+v)
		}
	}
	if c.gitDir != "" {
		env = append(env, "GIT_DIR="+c.gitDir)
	}
	if c.workTree != "" {
		env = append(env, "GIT_WORK_TREE="+c.workTree)
	}
	config := append(p.hardened(), c.config...)
	env = append(env, fmt.Sprintf("GIT_CONFIG_COUNT=%d", len(config)))
	for i, kv := range config {
		env = append(env, fmt.Sprintf("GIT_CONFIG_KEY_%d=%s", i, kv[0]), fmt.Sprintf("GIT_CONFIG_VALUE_%d=%s", i, kv[1]))
	}
	return append(env, c.env...)
}

// hardened are the settings of every call; those of the environment win over
// the repository's own.
func (p *Provider) hardened() [][2]string {
	file := "never"
	if p.o.AllowFile {
		file = "always"
	}
	config := [][2]string{
		{"core.hooksPath", os.DevNull}, {"core.fsmonitor", "false"}, {"core.attributesFile", os.DevNull},
		{"core.excludesFile", os.DevNull}, {"core.autocrlf", "false"}, {"core.protectHFS", "true"}, {"core.protectNTFS", "true"},
		{"core.askPass", ""}, {"credential.helper", ""}, {"credential.interactive", "false"},
		{"protocol.allow", "never"}, {"protocol.https.allow", "always"}, {"protocol.http.allow", "always"}, {"protocol.file.allow", file},
		{"submodule.recurse", "false"}, {"fetch.recurseSubmodules", "false"}, {"push.recurseSubmodules", "no"}, {"diff.ignoreSubmodules", "all"},
		{"gc.auto", "0"}, {"maintenance.auto", "false"}, {"advice.addEmbeddedRepo", "false"},
		{"commit.gpgSign", "false"}, {"push.gpgSign", "false"}, {"push.followTags", "false"},
		{"apply.whitespace", "nowarn"}, {"http.lowSpeedLimit", "1"}, {"http.lowSpeedTime", "120"},
	}
	if p.o.CAFile != "" {
		config = append(config, [2]string{"http.sslCAInfo", p.o.CAFile})
	}
	return config
}

// contact runs a call that talks to the remote, with a fresh credential; once
// more when the remote refuses one that has been replaced meanwhile.
func (p *Provider) contact(ctx context.Context, r remote, deadline time.Duration, c call) ([]byte, error) {
	for try := 1; ; try++ {
		with := c
		token, err := p.token(ctx, r)
		if err != nil {
			return nil, err
		}
		if token != "" {
			with.env = append(slices.Clone(c.env), tokenVar+"="+token)
			// The helper is a constant; it answers for this origin alone, so
			// that a redirect to another host gets nothing.
			with.config = append(slices.Clone(c.config), [2]string{"credential." + r.origin + ".helper",
				`!f() { test "$1" = get && printf 'username=%s\npassword=%s\n' '` + p.o.User + `' "$` + tokenVar + `"; }; f`})
		}
		out, err := p.git(ctx, deadline, with)
		var f *failure
		if err == nil {
			return out, nil
		}
		if errors.As(err, &f) && f.refused() && try == 1 && token != "" {
			if again, err := p.token(ctx, r); err == nil && again != token {
				continue
			}
		}
		return nil, classify(err)
	}
}

func (p *Provider) token(ctx context.Context, r remote) (string, error) {
	if p.o.Token == nil || r.origin == "" {
		return "", nil
	}
	v, err := p.o.Token(ctx, r.url)
	if err != nil {
		return "", fmt.Errorf("getting a token for %s: %w", r.url, err)
	}
	if v.Empty() {
		return "", nil
	}
	if err := r.mayCarryToken(); err != nil {
		return "", err
	}
	p.o.Scrubber.Add(v)
	return v.Reveal(), nil
}

// tail keeps the last bytes of a stream.
type tail struct {
	kept []byte
	most int
}

var _ io.Writer = (*tail)(nil)

// Write implements io.Writer.
func (t *tail) Write(p []byte) (int, error) {
	t.kept = append(t.kept, p...)
	if over := len(t.kept) - t.most; over > 0 {
		t.kept = append(t.kept[:0], t.kept[over:]...)
	}
	return len(p), nil
}
