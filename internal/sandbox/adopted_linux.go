package sandbox

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"

	"github.com/pipelinebot/pipelinebot/internal/command"
)

// adopted runs an order below this program, started again as the parent of all
// that comes of it: see Child. So nothing can leave the run, whatever it does
// to its session, its parents or its environment.
func adopted(ctx context.Context, s command.Spec, l command.Limits, order childOrder, marker, self, cacheDir, name string) (command.Result, error) {
	raw, err := json.Marshal(order)
	if err != nil {
		return command.Result{}, fmt.Errorf("encoding the rules: %w", err)
	}
	orderR, orderW, err := os.Pipe()
	if err != nil {
		return command.Result{}, fmt.Errorf("making a pipe: %w", err)
	}
	aliveR, aliveW, err := os.Pipe()
	if err != nil {
		closeAll([]io.Closer{orderR, orderW})
		return command.Result{}, fmt.Errorf("making a pipe: %w", err)
	}
	defer closeAll([]io.Closer{orderW})
	var once sync.Once
	letGo := func() { once.Do(func() { _ = aliveW.Close() }) }
	defer letGo()
	cmd := exec.Command(self) //nolint:noctx // supervise kills all that the run started, not one process
	cmd.Args = childArgs(childName)
	cmd.ExtraFiles = []*os.File{orderR, aliveR}
	cmd.Env = []string{markerName + "=" + marker}
	cmd.Dir = "/"
	// No parent-death signal: the child must live to kill what it started. It
	// sees this process end by the closing pipe.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	j := &job{
		cmd: cmd, closers: []io.Closer{orderR, aliveR}, sandbox: name,
		marker: marker, pidsDir: filepath.Join(cacheDir, "pids"),
	}
	j.started = func() error {
		_, err := io.Copy(orderW, bytes.NewReader(raw))
		_ = orderW.Close()
		return err
	}
	j.kill = letGo
	j.gone = func() bool { return killMarked(marker) }
	return run(ctx, s, l, j)
}
