package gitws

import (
	"os/exec"
	"strconv"
)

// ownGroup makes cancelling kill the process tree of cmd.
func ownGroup(cmd *exec.Cmd) {
	cmd.Cancel = func() error {
		_ = exec.Command("taskkill", "/T", "/F", "/PID", strconv.Itoa(cmd.Process.Pid)).Run()
		return cmd.Process.Kill()
	}
}
