//go:build unix && !linux

package sandbox

import (
	"syscall"
	"time"

	"github.com/pipelinebot/pipelinebot/internal/command"
)

// bare makes j die by process group; a process that leaves the group is not
// found here.
func bare(j *job, _ command.Limits) {
	j.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	j.kill = func() {
		// A group that has members keeps its number.
		_ = syscall.Kill(-j.cmd.Process.Pid, syscall.SIGKILL)
	}
	j.gone = func() bool {
		//nolint:forbidigo // nothing signals the end of a process that is not ours to wait for
		for end := time.Now().Add(dieWithin); time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
			if syscall.Kill(-j.cmd.Process.Pid, 0) == syscall.ESRCH {
				return true
			}
			j.kill()
		}
		return false
	}
}
