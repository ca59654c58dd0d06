package sandbox

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
	"sync"
	"sync/atomic"
	"time"

	"github.com/pipelinebot/pipelinebot/internal/command"
)

const (
	// watchEvery is how often memory, processes and idleness are looked at.
	watchEvery = 200 * time.Millisecond
	// dieWithin bounds the wait for killed processes to be gone.
	dieWithin = 5 * time.Second
)

// job is one prepared run of a driver.
type job struct {
	cmd *exec.Cmd
	// started is called once the process exists; an error kills it.
	started func() error
	// kill ends every process of the run; it may be called repeatedly and
	// after the end.
	kill func()
	// gone waits until no process of the run is left; false after dieWithin.
	gone func() bool
	// closers are closed after Start in this process, and on failure.
	closers []io.Closer
	// ended is set once the process was waited for: its number may be another
	// process's from then on.
	ended   atomic.Bool
	marker  string
	pidsDir string
	sandbox string
}

// run starts the job, bounds it and collects what it wrote.
func run(ctx context.Context, s command.Spec, l command.Limits, j *job) (command.Result, error) {
	if err := context.Cause(ctx); err != nil {
		closeAll(j.closers)
		return command.Result{}, err
	}
	out := newCapture(l.Output)
	var copying sync.WaitGroup
	readers, err := attach(j.cmd, s.Stdin, out, &copying, &j.closers)
	if err != nil {
		closeAll(j.closers)
		return command.Result{}, fmt.Errorf("running %s: %w", s.Argv[0], err)
	}
	begin := time.Now()
	startErr, ended := make(chan error, 1), make(chan error, 1)
	go func() {
		// The kernel delivers the parent-death signal when the thread that
		// started a child ends, so that thread must live as long as the child.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := j.cmd.Start()
		closeAll(j.closers)
		startErr <- err
		if err == nil {
			err := j.cmd.Wait()
			j.ended.Store(true)
			ended <- err
		}
	}()
	if err := <-startErr; err != nil {
		closeAll(readers)
		copying.Wait()
		return command.Result{}, fmt.Errorf("running %s: %w", s.Argv[0], err)
	}
	forget := remember(j)
	defer forget()
	var setup error
	if j.started != nil {
		setup = j.started()
	}
	res := command.Result{Sandbox: j.sandbox}
	var note string
	var waitErr error
	cause := setup
	if setup != nil {
		j.kill()
		waitErr = <-ended
	} else {
		note, res.TimedOut, cause, waitErr = supervise(ctx, l, j, out, ended, begin)
	}
	j.kill() // what the program left behind when it ended by itself
	allGone := j.gone()
	drain(&copying, readers)
	res.Took = time.Since(begin)
	if note != "" {
		out.write([]byte("\n[pipelinebot: killed: "+note+"]\n"), false)
	}
	res.Output, res.Stdout, res.Truncated = out.result()
	res.ExitCode = exitCode(waitErr)
	if note != "" {
		res.ExitCode = -1
	}
	switch {
	case cause != nil && setup != nil:
		return command.Result{}, fmt.Errorf("running %s in %s: %w", s.Argv[0], j.sandbox, cause)
	case cause != nil:
		return command.Result{}, cause
	case !allGone:
		return res, fmt.Errorf("running %s in %s: some of its processes did not die within %s", s.Argv[0], j.sandbox, dieWithin)
	}
	return res, nil
}

// supervise waits for the end, or brings it about. note says why it killed,
// cause is the context's.
func supervise(ctx context.Context, l command.Limits, j *job, out *capture, ended <-chan error, begin time.Time) (note string, timedOut bool, cause, waitErr error) {
	wall := time.NewTimer(time.Until(begin.Add(l.Wall)))
	defer wall.Stop()
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for {
		select {
		case waitErr = <-ended:
			return "", false, nil, waitErr
		case <-ctx.Done():
			cause = context.Cause(ctx)
		case <-wall.C:
			note, timedOut = fmt.Sprintf("it ran longer than %s", l.Wall), true
		case <-tick.C:
			if out.idle() >= l.Idle {
				note, timedOut = fmt.Sprintf("it wrote nothing for %s", l.Idle), true
			} else {
				note = usage(j.cmd.Process.Pid, l)
			}
		}
		if note != "" || cause != nil {
			j.kill()
			select {
			case waitErr = <-ended:
			case <-time.After(dieWithin):
				_ = j.cmd.Process.Kill()
				waitErr = <-ended
			}
			return note, timedOut, cause, waitErr
		}
	}
}

// attach gives cmd its streams. Pipes are ours, not exec's, so that a process
// that keeps one open can't hold up the end of the run.
func attach(cmd *exec.Cmd, stdin []byte, out *capture, copying *sync.WaitGroup, closers *[]io.Closer) (readers []io.Closer, err error) {
	if len(stdin) > 0 {
		cmd.Stdin = bytes.NewReader(stdin)
		cmd.WaitDelay = time.Second
	}
	for _, standard := range []bool{true, false} {
		r, w, err := os.Pipe()
		if err != nil {
			closeAll(readers)
			return nil, fmt.Errorf("making a pipe: %w", err)
		}
		*closers = append(*closers, w)
		readers = append(readers, r)
		if standard {
			cmd.Stdout = w
		} else {
			cmd.Stderr = w
		}
		copying.Go(func() {
			buf := make([]byte, 32<<10)
			for {
				n, err := r.Read(buf)
				if n > 0 {
					out.write(buf[:n], standard)
				}
				if err != nil {
					return
				}
			}
		})
	}
	return readers, nil
}

// drain takes what is still in the pipes, and no longer than that.
func drain(copying *sync.WaitGroup, readers []io.Closer) {
	done := make(chan struct{})
	go func() { copying.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(time.Second):
	}
	closeAll(readers)
	<-done
}

func closeAll(list []io.Closer) {
	for _, c := range list {
		_ = c.Close()
	}
}

func exitCode(waitErr error) int {
	var exit *exec.ExitError
	switch {
	case waitErr == nil, errors.Is(waitErr, exec.ErrWaitDelay):
		return 0
	case errors.As(waitErr, &exit):
		return exit.ExitCode() // -1 when a signal ended it
	}
	return -1
}

// check refuses specs that no driver should run.
func check(s command.Spec) error {
	if len(s.Argv) == 0 || s.Argv[0] == "" {
		return errors.New("running a command: the argv is empty")
	}
	if !filepath.IsAbs(s.Dir) || filepath.Clean(s.Dir) == filepath.VolumeName(s.Dir)+string(filepath.Separator) {
		return fmt.Errorf("running %s: folder %q: want an absolute path below the root", s.Argv[0], s.Dir)
	}
	fi, err := os.Stat(s.Dir)
	if err != nil {
		return fmt.Errorf("running %s: %w", s.Argv[0], err)
	}
	if !fi.IsDir() {
		return fmt.Errorf("running %s: %q is not a folder", s.Argv[0], s.Dir)
	}
	return nil
}
