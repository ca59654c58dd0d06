package sandbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pipelinebot/pipelinebot/internal/command"
)

const (
	// insideHome is HOME in the sandbox; the repository's cache is behind it.
	insideHome = "/home/sandbox"
	// tmpBytes bounds the private /tmp, which lives in memory.
	tmpBytes = 2 << 30
	// probeWithin bounds the trial run.
	probeWithin = 10 * time.Second
	probeWord   = "sandbox-works"
)

// bubblewrap gives a run its own view of the file system, its own processes
// and no network.
type bubblewrap struct {
	o           Options
	bin         string
	extra, path []string // read-only roots beyond the system's, PATH
	noUserNS    bool     // nested user namespaces can be switched off
}

// newBubblewrap finds bwrap and proves with a trial run that this machine lets
// it work.
func newBubblewrap(o Options) (command.Runner, error) {
	bin, err := exec.LookPath("bwrap")
	if err != nil {
		return nil, fmt.Errorf("%w: bubblewrap: bwrap is not on PATH; install the package bubblewrap", ErrUnavailable)
	}
	roots := append(systemDirs(), o.ReadOnlyPaths...)
	extra := append(slices.Clone(o.ReadOnlyPaths), toolRoots(roots)...)
	b := &bubblewrap{o: o, bin: bin, extra: extra, path: searchPath(append(systemDirs(), extra...), extra)}
	for _, b.noUserNS = range []bool{true, false} {
		if err = probe(b, o.CacheDir); err == nil {
			return b, nil
		}
	}
	return nil, fmt.Errorf("%w: bubblewrap: a trial run failed: %w", ErrUnavailable, err)
}

// probe runs a word through the sandbox.
func probe(r command.Runner, cacheDir string) error {
	dir, err := os.MkdirTemp(cacheDir, "probe-")
	if err != nil {
		return fmt.Errorf("making a folder: %w", err)
	}
	defer removeAll(dir)
	ctx, cancel := context.WithTimeout(context.Background(), probeWithin)
	defer cancel()
	res, err := r.Run(ctx, command.Spec{Argv: []string{"echo", probeWord}, Dir: dir, ReadOnly: true})
	if err != nil {
		return err
	}
	if res.ExitCode != 0 || string(res.Stdout) != probeWord+"\n" {
		return fmt.Errorf("exit code %d, output %q", res.ExitCode, strings.TrimSpace(string(res.Output)))
	}
	return nil
}

// Name implements command.Runner.
func (*bubblewrap) Name() string { return string(Bubblewrap) }

// Run implements command.Runner.
func (b *bubblewrap) Run(ctx context.Context, s command.Spec) (command.Result, error) {
	if err := check(s); err != nil {
		return command.Result{}, err
	}
	s.Dir = filepath.Clean(s.Dir)
	shown := append(append(systemDirs(), b.extra...), s.Dir)
	if err := lookUp(s.Argv[0], s.Dir, b.path, shown); err != nil {
		return command.Result{}, fmt.Errorf("running %s: %w", s.Argv[0], err)
	}
	home, err := homeDir(b.o.CacheDir, s.Dir)
	if err != nil {
		return command.Result{}, err
	}
	l := fill(s.Limits, b.o.Defaults)
	argsR, argsW, err := os.Pipe()
	if err != nil {
		return command.Result{}, fmt.Errorf("making a pipe: %w", err)
	}
	infoR, infoW, err := os.Pipe()
	if err != nil {
		closeAll([]io.Closer{argsR, argsW})
		return command.Result{}, fmt.Errorf("making a pipe: %w", err)
	}
	defer closeAll([]io.Closer{infoR, argsW})
	// bwrap reads its options from descriptor 3 and does nothing before that:
	// the time in which its limits are set, for everything below to inherit.
	//nolint:noctx // supervise kills all that the run started, not one process
	cmd := exec.Command(b.bin, append([]string{"--args", "3", "--"}, s.Argv...)...)
	cmd.ExtraFiles = []*os.File{argsR, infoW}
	marker := newMarker()
	cmd.Env = environ(b.path, insideHome, "/tmp", marker, s.Env)
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
	first := -1 // a handle on the sandbox's process 1
	defer func() {
		if first >= 0 {
			_ = unix.Close(first)
		}
	}()
	j := &job{
		cmd: cmd, closers: []io.Closer{argsR, infoW}, sandbox: b.Name(),
		marker: marker, pidsDir: filepath.Join(b.o.CacheDir, "pids"),
	}
	j.started = func() error {
		if err := limitProcess(cmd.Process.Pid, l); err != nil {
			return fmt.Errorf("limiting bwrap (is it set-user-id?): %w", err)
		}
		if err := limitCount(cmd.Process.Pid, l); err != nil {
			return fmt.Errorf("limiting processes: %w", err)
		}
		args := strings.Join(b.args(s, home), "\x00") + "\x00"
		if _, err := argsW.WriteString(args); err != nil && !errors.Is(err, syscall.EPIPE) {
			return fmt.Errorf("giving bwrap its options: %w", err)
		}
		_ = argsW.Close()
		first = firstProcess(infoR, cmd.Process.Pid)
		return nil
	}
	j.kill = func() {
		if first >= 0 {
			// The kernel kills the whole namespace with its process 1.
			_ = unix.PidfdSendSignal(first, unix.SIGKILL, nil, 0)
		}
		_ = cmd.Process.Kill() // and, by --die-with-parent, what it had begun
	}
	j.gone = func() bool { return first < 0 || exited(first, dieWithin) }
	return run(ctx, s, l, j)
}

// args are bwrap's options, in the order in which it applies them.
func (b *bubblewrap) args(s command.Spec, home string) []string {
	a := []string{"--unshare-all", "--die-with-parent", "--new-session", "--cap-drop", "ALL", "--info-fd", "4"}
	if b.noUserNS {
		a = append(a, "--unshare-user", "--disable-userns")
	}
	if s.Network {
		a = append(a, "--share-net")
	}
	for _, dir := range systemDirs() {
		if fi, err := os.Lstat(dir); err == nil && fi.Mode()&fs.ModeSymlink != 0 {
			if target, err := os.Readlink(dir); err == nil {
				a = append(a, "--symlink", target, dir)
				continue
			}
		}
		a = append(a, "--ro-bind", dir, dir)
	}
	for _, f := range systemFiles(s.Network) {
		a = append(a, "--ro-bind-try", f, f)
	}
	a = append(a, "--proc", "/proc", "--dev", "/dev",
		"--size", strconv.Itoa(tmpBytes), "--tmpfs", "/tmp", "--symlink", "/tmp", "/var/tmp", "--dir", "/run")
	for _, p := range b.extra {
		a = append(a, "--ro-bind-try", p, p)
	}
	a = append(a, "--bind", home, insideHome)
	if s.ReadOnly {
		a = append(a, "--ro-bind", s.Dir, s.Dir)
	} else {
		a = append(a, "--bind", s.Dir, s.Dir)
		// Hooks and settings below .git would run in the next git command.
		if git := filepath.Join(s.Dir, ".git"); exists(git) {
			a = append(a, "--ro-bind", git, git)
		}
	}
	return append(a, "--remount-ro", "/", "--chdir", s.Dir)
}

func exists(path string) bool {
	fi, err := os.Lstat(path)
	return err == nil && fi.Mode()&fs.ModeSymlink == 0
}

// firstProcess opens a handle on the sandbox's process 1, named by bwrap on
// its info pipe; -1 when bwrap ended before it made one.
func firstProcess(info *os.File, parent int) int {
	_ = info.SetReadDeadline(time.Now().Add(dieWithin))
	var told struct {
		ChildPID int `json:"child-pid"`
	}
	if json.NewDecoder(info).Decode(&told) != nil || told.ChildPID <= 1 {
		return -1
	}
	fd, err := unix.PidfdOpen(told.ChildPID, 0)
	if err != nil {
		return -1
	}
	// The number may be another process's by now.
	if p, ok := readProc(told.ChildPID); !ok || p.parent != parent {
		_ = unix.Close(fd)
		return -1
	}
	return fd
}

// exited waits for the process of a handle to be gone.
func exited(pidfd int, within time.Duration) bool {
	for end := time.Now().Add(within); ; {
		left := time.Until(end)
		if left <= 0 {
			return false
		}
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}, int(left.Milliseconds())+1)
		if n > 0 {
			return true
		}
		if err != nil && !errors.Is(err, unix.EINTR) {
			return false
		}
	}
}

// limitCount lets the kernel refuse forks before the watcher sees them. The
// limit counts the threads of the user on the whole machine, so those that
// exist are added; the kernel does not apply it to root, whom the watcher
// alone bounds.
func limitCount(pid int, l command.Limits) error {
	uid := os.Getuid()
	if uid == 0 {
		return nil
	}
	const threadsEach = 16
	n := uint64(l.Processes * threadsEach)
	tasks, _ := filepath.Glob("/proc/[0-9]*/task/[0-9]*")
	for _, t := range tasks {
		if fi, err := os.Stat(t); err == nil {
			if st, ok := fi.Sys().(*syscall.Stat_t); ok && int(st.Uid) == uid {
				n++
			}
		}
	}
	var now unix.Rlimit
	if err := unix.Prlimit(pid, unix.RLIMIT_NPROC, nil, &now); err != nil {
		return ignoreGone(err)
	}
	n = min(n, now.Max)
	return ignoreGone(unix.Prlimit(pid, unix.RLIMIT_NPROC, &unix.Rlimit{Cur: n, Max: n}, nil))
}

func ignoreGone(err error) error {
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	return err
}
