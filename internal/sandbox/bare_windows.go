package sandbox

import (
	"os/exec"
	"strconv"
	"syscall"

	"github.com/pipelinebot/pipelinebot/internal/command"
)

// bare makes j die by its process tree; a process whose parent has ended is
// not found here.
func bare(j *job, _ command.Limits) {
	j.cmd.SysProcAttr = &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP}
	j.kill = func() {
		if !j.ended.Load() {
			_ = exec.Command("taskkill", "/T", "/F", "/PID", strconv.Itoa(j.cmd.Process.Pid)).Run()
			_ = j.cmd.Process.Kill()
		}
	}
	j.gone = func() bool { return true }
}
