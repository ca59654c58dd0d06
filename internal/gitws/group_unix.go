//go:build unix

package gitws

import (
	"os/exec"
	"syscall"
)

// ownGroup makes cancelling kill the whole process group of cmd: git starts
// helpers that would otherwise live on.
func ownGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}
