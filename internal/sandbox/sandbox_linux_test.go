package sandbox_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pipelinebot/pipelinebot/internal/command"
	"github.com/pipelinebot/pipelinebot/internal/sandbox"
)

func TestMain(m *testing.M) {
	if handled, code := sandbox.Child(os.Args, os.Stderr); handled {
		os.Exit(code)
	}
	os.Exit(m.Run())
}

// runner makes a driver, or skips with the reason.
func runner(t *testing.T, mode sandbox.Mode) command.Runner {
	t.Helper()
	r, err := sandbox.New(sandbox.Options{Mode: mode, CacheDir: t.TempDir()})
	if errors.Is(err, sandbox.ErrUnavailable) {
		t.Skipf("%s does not work on this machine: %v", mode, err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// each runs a test with every driver.
func each(t *testing.T, test func(t *testing.T, r command.Runner)) {
	t.Helper()
	for _, mode := range []sandbox.Mode{sandbox.Bubblewrap, sandbox.Landlock, sandbox.None} {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			test(t, runner(t, mode))
		})
	}
}

// confined runs a test with the drivers that hide files and network.
func confined(t *testing.T, test func(t *testing.T, r command.Runner)) {
	t.Helper()
	for _, mode := range []sandbox.Mode{sandbox.Bubblewrap, sandbox.Landlock} {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			test(t, runner(t, mode))
		})
	}
}

func sh(dir, script string) command.Spec {
	return command.Spec{Argv: []string{"/bin/sh", "-c", script}, Dir: dir}
}

func run(t *testing.T, r command.Runner, s command.Spec) command.Result {
	t.Helper()
	if s.Limits.Wall == 0 {
		s.Limits.Wall = 20 * time.Second
	}
	res, err := r.Run(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	return res
}

// show is a result for people.
func show(r command.Result) string {
	out := r.Output
	if len(out) > 300 {
		out = out[len(out)-300:]
	}
	return fmt.Sprintf("exit code %d, timed out %v, took %s in %s, output ends with %q", r.ExitCode, r.TimedOut, r.Took, r.Sandbox, out)
}

func TestRun(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r command.Runner) {
		dir := t.TempDir()
		s := sh(dir, `cat; echo out; echo err >&2; echo "$X"; pwd; echo made > file; exit 7`)
		s.Stdin, s.Env = []byte("in\n"), map[string]string{"X": "extra"}
		res := run(t, r, s)
		if want := "in\nout\nextra\n" + dir + "\n"; string(res.Stdout) != want {
			t.Errorf("stdout %q, want %q", res.Stdout, want)
		}
		if !bytes.Contains(res.Output, []byte("err\n")) || res.ExitCode != 7 || res.TimedOut || res.Truncated || res.Sandbox != r.Name() {
			t.Errorf("unexpected result: exit %d timed out %v truncated %v in %s, output %q", res.ExitCode, res.TimedOut, res.Truncated, res.Sandbox, res.Output)
		}
		if b, err := os.ReadFile(filepath.Join(dir, "file")); err != nil || string(b) != "made\n" {
			t.Errorf("the worktree was not written: %q, %v", b, err)
		}
	})
}

func TestMissingProgram(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r command.Runner) {
		for _, name := range []string{"no-such-program", "./no-such-script"} {
			_, err := r.Run(t.Context(), command.Spec{Argv: []string{name}, Dir: t.TempDir()})
			if !errors.Is(err, exec.ErrNotFound) {
				t.Errorf("%s: got %v, want ErrNotFound", name, err)
			}
		}
	})
}

func TestEscapes(t *testing.T) {
	t.Parallel()
	secret := filepath.Join(t.TempDir(), "shadow")
	if err := os.WriteFile(secret, []byte("hunter2"), 0o644); err != nil {
		t.Fatal(err)
	}
	outside := t.TempDir()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	_, port, _ := net.SplitHostPort(ln.Addr().String())
	home, _ := os.UserHomeDir()
	tests := map[string]string{
		"read a file":        `cat ` + secret + ` && exit 99; exit 0`,
		"list a home":        `ls ` + home + ` >/dev/null 2>&1 && exit 99; exit 0`,
		"read shadow":        `cat /etc/shadow 2>/dev/null | grep -q . && exit 99; exit 0`,
		"write outside":      `echo x > ` + outside + `/x && exit 99; exit 0`,
		"write the system":   `echo x > /usr/bin/x && exit 99; exit 0`,
		"reach the network":  `bash -c 'echo x > /dev/tcp/127.0.0.1/` + port + `' 2>/dev/null && exit 99; exit 0`,
		"read the parent":    `cat /proc/` + strconv.Itoa(os.Getpid()) + `/environ 2>/dev/null | grep -q HOME=` + home + ` && exit 99; exit 0`,
		"link and read":      `ln -s ` + secret + ` l; cat l && exit 99; exit 0`,
		"remount the system": `mount -o remount,rw / 2>/dev/null && echo x > /usr/bin/x 2>/dev/null && exit 99; exit 0`,
	}
	confined(t, func(t *testing.T, r command.Runner) {
		for name, script := range tests {
			if res := run(t, r, sh(t.TempDir(), script)); res.ExitCode != 0 {
				t.Errorf("%s: it could (exit code %d): %s", name, res.ExitCode, res.Output)
			}
		}
	})
	if fi, _ := os.ReadDir(outside); len(fi) != 0 {
		t.Error("something was written outside")
	}
}

func TestSameScriptsWorkUnconfined(t *testing.T) {
	t.Parallel()
	// Proves that the scripts of TestEscapes would notice an escape.
	secret := filepath.Join(t.TempDir(), "shadow")
	if err := os.WriteFile(secret, []byte("hunter2"), 0o644); err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	_, port, _ := net.SplitHostPort(ln.Addr().String())
	r := runner(t, sandbox.None)
	for _, script := range []string{
		`cat ` + secret + ` && exit 99; exit 0`,
		`bash -c 'echo x > /dev/tcp/127.0.0.1/` + port + `' 2>/dev/null && exit 99; exit 0`,
	} {
		if res := run(t, r, sh(t.TempDir(), script)); res.ExitCode != 99 {
			t.Errorf("%q: exit code %d, want 99", script, res.ExitCode)
		}
	}
}

func TestReadOnly(t *testing.T) {
	t.Parallel()
	confined(t, func(t *testing.T, r command.Runner) {
		dir := t.TempDir()
		s := sh(dir, `echo x > file`)
		s.ReadOnly = true
		if res := run(t, r, s); res.ExitCode == 0 {
			t.Error("a read-only folder was written")
		}
	})
}

func TestGitFileStays(t *testing.T) {
	t.Parallel()
	r := runner(t, sandbox.Bubblewrap)
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, ".git"), []byte("gitdir: /elsewhere\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	res := run(t, r, sh(dir, `echo evil > .git; rm -f .git; mv .git x; git status; cat .git`))
	if b, _ := os.ReadFile(filepath.Join(dir, ".git")); string(b) != "gitdir: /elsewhere\n" {
		t.Errorf("the worktree's link was changed to %q: %s", b, res.Output)
	}
}

func TestEnvironment(t *testing.T) {
	t.Setenv("GITHUB_TOKEN", "leaked-by-env")
	for _, mode := range []sandbox.Mode{sandbox.Bubblewrap, sandbox.Landlock, sandbox.None} {
		t.Run(string(mode), func(t *testing.T) {
			r := runner(t, mode)
			res := run(t, r, sh(t.TempDir(), `env; cat /proc/*/environ 2>/dev/null | tr '\0' '\n'`))
			for _, line := range strings.Split(string(res.Output), "\n") {
				// Without a sandbox the parent's own environment is readable.
				if strings.Contains(line, "leaked-by-env") && mode != sandbox.None {
					t.Errorf("the environment leaked: %s", line)
				}
			}
			if res = run(t, r, sh(t.TempDir(), `env`)); strings.Contains(string(res.Output), "leaked") {
				t.Errorf("the environment leaked: %s", res.Output)
			}
		})
	}
}

func TestHomeSurvives(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r command.Runner) {
		repo, other := t.TempDir(), t.TempDir()
		for _, d := range []string{filepath.Join(repo, "a"), filepath.Join(repo, "b"), filepath.Join(other, "a")} {
			if err := os.Mkdir(d, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		run(t, r, sh(filepath.Join(repo, "a"), `echo cached > $HOME/cache`))
		if res := run(t, r, sh(filepath.Join(repo, "b"), `cat $HOME/cache`)); string(res.Stdout) != "cached\n" {
			t.Errorf("a second worktree of the repository sees %q", res.Output)
		}
		if res := run(t, r, sh(filepath.Join(other, "a"), `test ! -e $HOME/cache`)); res.ExitCode != 0 {
			t.Error("another repository sees the cache")
		}
	})
}

func TestTimeouts(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r command.Runner) {
		s := sh(t.TempDir(), `echo begun; while :; do echo tick; sleep 0.05; done`)
		s.Limits = command.Limits{Wall: 2 * time.Second}
		if res := run(t, r, s); !res.TimedOut || res.ExitCode != -1 || res.Took > 10*time.Second || !bytes.HasPrefix(res.Stdout, []byte("begun\n")) {
			t.Errorf("wall: %s", show(res))
		}
		s = sh(t.TempDir(), `echo begun; exec sleep 30`)
		s.Limits = command.Limits{Idle: 2 * time.Second}
		if res := run(t, r, s); !res.TimedOut || res.ExitCode != -1 || res.Took > 10*time.Second || !bytes.Contains(res.Output, []byte("wrote nothing for")) {
			t.Errorf("idle: %s", show(res))
		}
	})
}

// left counts processes with the word in their command line.
func left(word string) int {
	n := 0
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, f := range files {
		if b, _ := os.ReadFile(f); bytes.Contains(b, []byte(word)) {
			n++
		}
	}
	return n
}

// family is a script of a program that starts children of every kind: plain,
// in a session of their own, orphaned, deaf to signals.
const family = `trap '' TERM INT HUP
sleep %[1]s & (sleep %[1]s &) ; setsid sleep %[1]s & (setsid sh -c 'sleep %[1]s & sleep %[1]s' >/dev/null 2>&1 </dev/null &)
`

func TestCancelKillsTheFamily(t *testing.T) {
	t.Parallel()
	for i, mode := range []sandbox.Mode{sandbox.Bubblewrap, sandbox.Landlock, sandbox.None} {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			r := runner(t, mode)
			length := fmt.Sprintf("987654.%d%d", os.Getpid(), i)
			ctx, cancel := context.WithCancelCause(t.Context())
			boom := errors.New("the label is gone")
			ended := make(chan error, 1)
			go func() {
				_, err := r.Run(ctx, sh(t.TempDir(), fmt.Sprintf(family, length)+"wait; sleep "+length))
				ended <- err
			}()
			waitFor(t, func() bool { return left(length) >= 5 })
			begin := time.Now()
			cancel(boom)
			if err := <-ended; !errors.Is(err, boom) {
				t.Errorf("got %v, want the cause", err)
			}
			if took := time.Since(begin); took > 2*time.Second {
				t.Errorf("it took %s to die", took)
			}
			if n := left(length); n != 0 {
				t.Errorf("%d processes are left", n)
			}
		})
	}
}

func TestEndKillsTheFamily(t *testing.T) {
	t.Parallel()
	for i, mode := range []sandbox.Mode{sandbox.Bubblewrap, sandbox.Landlock, sandbox.None} {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			r := runner(t, mode)
			length := fmt.Sprintf("887654.%d%d", os.Getpid(), i)
			res := run(t, r, sh(t.TempDir(), fmt.Sprintf(family, length)+"echo done; exit 3"))
			if res.ExitCode != 3 || !bytes.Contains(res.Stdout, []byte("done")) || res.Took > 10*time.Second {
				t.Error(show(res))
			}
			if n := left(length); n != 0 {
				t.Errorf("%d processes are left", n)
			}
		})
	}
}

func waitFor(t *testing.T, ok func() bool) {
	t.Helper()
	//nolint:forbidigo // it waits for real processes, which signal nothing
	for end := time.Now().Add(10 * time.Second); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it did not come to pass within 10 s")
		}
	}
}

func TestFloodIsBounded(t *testing.T) {
	t.Parallel()
	r := runner(t, sandbox.Bubblewrap)
	s := sh(t.TempDir(), `echo first; head -c 209715200 /dev/zero | tr '\0' 'x'; echo; echo last`)
	s.Limits = command.Limits{Output: 1 << 20}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	res := run(t, r, s)
	runtime.ReadMemStats(&after)
	if !res.Truncated || len(res.Output) > 1<<20 || len(res.Stdout) > 1<<20 {
		t.Errorf("kept %d and %d bytes, truncated %v", len(res.Output), len(res.Stdout), res.Truncated)
	}
	if !bytes.HasPrefix(res.Output, []byte("first\n")) || !bytes.HasSuffix(res.Output, []byte("\nlast\n")) || !bytes.Contains(res.Output, []byte("bytes dropped")) {
		t.Error("head, tail or mark is missing")
	}
	if grown := int64(after.Sys) - int64(before.Sys); grown > 64<<20 {
		t.Errorf("memory grew by %d MiB", grown>>20)
	}
}

func TestResources(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		script string
		limits command.Limits
		want   string
	}{
		"memory":    {`perl -e '$x = "x" x 300000000; sleep 30' `, command.Limits{Memory: 100 << 20}, "of memory"},
		"processes": {`for i in 1 2 3 4 5 6 7 8 9 10 11 12; do sleep 30 & done; wait`, command.Limits{Processes: 8}, "processes at once"},
	}
	each(t, func(t *testing.T, r command.Runner) {
		for name, tt := range tests {
			s := sh(t.TempDir(), tt.script)
			s.Limits = tt.limits
			res := run(t, r, s)
			if res.ExitCode != -1 || !strings.Contains(string(res.Output), tt.want) || res.Took > 15*time.Second {
				t.Errorf("%s: %s", name, show(res))
			}
		}
		// Without a sandbox the limit is set right after the start: the program
		// waits until it has it, and hands it on to what it starts.
		s := sh(t.TempDir(), `while [ "$(ulimit -f)" = unlimited ]; do :; done; head -c 2000000 /dev/zero > big; wc -c < big`)
		s.Limits = command.Limits{FileSize: 1 << 20}
		if res := run(t, r, s); strings.TrimSpace(string(res.Stdout)) != "1048576" {
			t.Errorf("file size: %s", res.Output)
		}
	})
}

func TestGoToolchainIsShown(t *testing.T) {
	t.Parallel()
	confined(t, func(t *testing.T, r command.Runner) {
		dir := t.TempDir()
		for name, text := range map[string]string{
			"go.mod":    "module example.com/m\n\ngo 1.21\n",
			"m_test.go": "package m\n\nimport \"testing\"\n\nfunc TestM(t *testing.T) { t.Log(\"ran\") }\n",
			".git":      "gitdir: /elsewhere\n",
		} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		// Building tests would compile the standard library into a new cache.
		res, err := r.Run(t.Context(), command.Spec{Argv: []string{"go", "list", "-deps", "-test", "-f", "{{.ImportPath}}", "./..."}, Dir: dir})
		if errors.Is(err, exec.ErrNotFound) {
			t.Skip("no Go toolchain that the sandbox shows: ", err)
		}
		if err != nil || res.ExitCode != 0 || !bytes.Contains(res.Stdout, []byte("example.com/m.test")) {
			t.Errorf("%v, %s", err, show(res))
		}
	})
}

func TestOrphansAreSwept(t *testing.T) {
	t.Parallel()
	cache := t.TempDir()
	length := fmt.Sprintf("787654.%d", os.Getpid())
	// What a killed bot leaves: a process group and a record whose owner is gone.
	cmd := exec.Command("sleep", length)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Env = []string{"PIPELINEBOT_SANDBOX=GONE"}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	started := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))[19]
	pids := filepath.Join(cache, "pids")
	if err := os.MkdirAll(pids, 0o700); err != nil {
		t.Fatal(err)
	}
	write := func(name, started string, owner int) {
		t.Helper()
		text := fmt.Sprintf(`{"pid":%d,"started":%s,"owner":%d,"owner_started":1,"marker":%q}`, cmd.Process.Pid, started, owner, name)
		if err := os.WriteFile(filepath.Join(pids, name+".json"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	open := func() {
		t.Helper()
		if _, err := sandbox.New(sandbox.Options{Mode: sandbox.None, CacheDir: cache}); err != nil {
			t.Fatal(err)
		}
	}
	write("OTHER", "1", 1<<22+1) // same number, another process: spared
	open()
	if left(length) != 1 {
		t.Fatal("a process was killed by its number alone")
	}
	write("GONE", started, 1<<22+1)
	open()
	select {
	case <-ended:
	case <-time.After(5 * time.Second):
		_ = cmd.Process.Kill()
		t.Fatal("the orphan lives")
	}
	if files, _ := os.ReadDir(pids); len(files) != 0 {
		t.Errorf("%d records are left", len(files))
	}
}

func TestOptions(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]sandbox.Options{
		"relative cache": {Mode: sandbox.None, CacheDir: "cache"},
		"unknown mode":   {Mode: "chroot", CacheDir: t.TempDir()},
		"root shown":     {Mode: sandbox.None, CacheDir: t.TempDir(), ReadOnlyPaths: []string{"/"}},
	} {
		if _, err := sandbox.New(o); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	r := runner(t, sandbox.None)
	for name, s := range map[string]command.Spec{
		"no argv":         {Dir: t.TempDir()},
		"relative folder": {Argv: []string{"true"}, Dir: "x"},
		"the root":        {Argv: []string{"true"}, Dir: "/"},
		"missing folder":  {Argv: []string{"true"}, Dir: "/does/not/exist"},
	} {
		if _, err := r.Run(t.Context(), s); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
