package sandbox

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// The names under which this program runs as a child: first a parent that
// adopts, kills and is not bound itself, then the process that binds itself,
// where landlock is asked for, and becomes the program. They are two, because rules taken by a Go
// program bind each of its threads apart, and such threads may not signal what
// another of them started.
const (
	childName = "pipelinebot-command-parent"
	boundName = "pipelinebot-command"
)

// Exit codes of a child that could not start the program, as shells have them.
const (
	childFailed  = 125
	childNoStart = 126
)

// childOrder is what a child is told on descriptor 3.
type childOrder struct {
	// Free leaves the program unbound.
	Free      bool
	Argv      []string
	Program   string
	Dir       string
	Env       []string
	Network   bool
	ReadDirs  []string
	ReadFiles []string
	WriteDirs []string
	FileSize  int64
}

// noTests comes before the role: should a test program that does not call
// Child be started by the landlock driver, it runs no test.
const noTests = "-test.run=^$"

// childArgs are the arguments of a child with that role.
func childArgs(role string) []string { return []string{role, noTests, role} }

// role is read from arguments with or without the program's name.
func role(args []string) string {
	if n := len(args); (n == 2 || n == 3) && args[n-2] == noTests {
		return args[n-1]
	}
	return ""
}

// Child turns the process into the parent of one program when it was started as
// such by the drivers landlock and none. main calls it before anything else,
// with or without the program's name in args:
//
//	if handled, code := sandbox.Child(os.Args, os.Stderr); handled {
//		os.Exit(code)
//	}
//
// It adopts everything the program leaves behind, and kills all of it when the
// program ends or the bot does.
func Child(args []string, stderr io.Writer) (handled bool, code int) {
	var err error
	switch role(args) {
	case childName:
		code, err = adopt()
	case boundName:
		code, err = become()
	default:
		return false, 0
	}
	if err != nil {
		fmt.Fprintf(stderr, "pipelinebot sandbox: %v\n", err)
	}
	return true, code
}

// adopt runs the bound process and outlives all that comes of it.
func adopt() (int, error) {
	unix.CloseOnExec(3)
	unix.CloseOnExec(4)
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return childFailed, fmt.Errorf("becoming the reaper: %w", err)
	}
	self, err := os.Executable()
	if err != nil {
		return childFailed, fmt.Errorf("finding this program: %w", err)
	}
	order := os.NewFile(3, "order")
	p, err := os.StartProcess(self, childArgs(boundName), &os.ProcAttr{ // with our environment, which holds the marker alone
		Dir: "/", Files: []*os.File{os.Stdin, os.Stdout, os.Stderr, order},
	})
	if err != nil {
		return childFailed, fmt.Errorf("starting the bound process: %w", err)
	}
	_ = order.Close()
	go func() {
		// The write end closes when the bot cancels the run, or is no more.
		alive := os.NewFile(4, "alive")
		_, _ = alive.Read(make([]byte, 1))
		killBelow()
	}()
	return reap(p.Pid), nil
}

// become binds this process and turns it into the program.
func become() (int, error) {
	unix.CloseOnExec(3)
	in := os.NewFile(3, "order")
	var o childOrder
	if err := json.NewDecoder(in).Decode(&o); err != nil {
		return childFailed, fmt.Errorf("reading the order: %w", err)
	}
	_ = in.Close()
	for what, n := range map[int]uint64{unix.RLIMIT_FSIZE: uint64(o.FileSize), unix.RLIMIT_CORE: 0} {
		if err := unix.Setrlimit(what, &unix.Rlimit{Cur: n, Max: n}); err != nil {
			return childFailed, fmt.Errorf("setting limits: %w", err)
		}
	}
	runtime.LockOSThread() // the bounding set is a thread's, and exec takes this one's
	if !o.Free {
		if err := restrict(o); err != nil {
			return childFailed, err
		}
		dropCapabilities()
	}
	if err := os.Chdir(o.Dir); err != nil {
		return childFailed, fmt.Errorf("entering the worktree: %w", err)
	}
	return childNoStart, fmt.Errorf("starting %s: %w", o.Argv[0], syscall.Exec(o.Program, o.Argv, o.Env))
}

// dropCapabilities leaves root without any after exec. Otherwise the kernel
// would show it the environment of every process (CAP_PERFMON), landlock or
// not. Users without capabilities may not drop and need not.
func dropCapabilities() {
	for c := uintptr(0); c < 64; c++ {
		if unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0) != nil {
			return
		}
	}
}

// reap waits for the program and then for all it left, which is killed.
func reap(program int) int {
	code := childFailed
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, 0, nil)
		switch {
		case err == syscall.EINTR:
		case err != nil: // ECHILD: nobody is left
			return code
		case pid == program:
			code = status.ExitStatus()
			if status.Signaled() {
				code = 128 + int(status.Signal())
			}
			go killBelow()
		}
	}
}

// killBelow kills descendants until the process ends; new ones may be born
// while it looks.
func killBelow() {
	//nolint:forbidigo // nothing signals the birth of a process
	for ; ; time.Sleep(time.Millisecond) {
		for _, p := range descendants(os.Getpid()) {
			_ = syscall.Kill(p.pid, syscall.SIGKILL)
		}
	}
}
