package sandbox

import (
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pipelinebot/pipelinebot/internal/command"
)

// bare makes j die as one without namespaces: by process group, by descent
// and by the marker in the environment.
func bare(j *job, l command.Limits) {
	j.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
	j.started = func() error {
		// The program runs already; what it starts from now on inherits.
		return limitProcess(j.cmd.Process.Pid, l)
	}
	j.kill = func() {
		if !j.ended.Load() {
			var pids []int
			for _, p := range descendants(j.cmd.Process.Pid) {
				pids = append(pids, p.pid)
			}
			_ = syscall.Kill(-j.cmd.Process.Pid, syscall.SIGKILL)
			killAll(pids)
		}
		killAll(marked(j.marker))
	}
	j.gone = func() bool { return killMarked(j.marker) }
}

// killMarked kills until nothing with the marker lives, for at most
// dieWithin.
func killMarked(marker string) bool {
	//nolint:forbidigo // nothing signals the end of a process that is not ours to wait for
	for end := time.Now().Add(dieWithin); ; time.Sleep(2 * time.Millisecond) {
		pids := marked(marker)
		if len(pids) == 0 {
			return true
		}
		if time.Now().After(end) {
			return false
		}
		killAll(pids)
	}
}

// limitProcess sets what the kernel itself bounds. A process that is gone
// already needs no limits.
func limitProcess(pid int, l command.Limits) error {
	set := func(what int, n uint64) error {
		err := unix.Prlimit(pid, what, &unix.Rlimit{Cur: n, Max: n}, nil)
		if err == unix.ESRCH {
			return nil
		}
		return err
	}
	if err := set(unix.RLIMIT_FSIZE, uint64(l.FileSize)); err != nil {
		return err
	}
	return set(unix.RLIMIT_CORE, 0)
}
