// Package command is the contract for running a program on repository
// content: always an argv, never a shell string, inside some sandbox.
//
// It must not know which sandbox is used and imports only the standard
// library. Drivers live in internal/sandbox.
package command

import (
	"context"
	"time"
)

// Spec is one program run.
type Spec struct {
	// Argv is the program and its arguments; never a shell string.
	Argv []string
	// Dir is the absolute directory made writable (or readable, see
	// ReadOnly) at its own path inside the sandbox, and the working directory.
	Dir string
	// Env is added to the sandbox's own short list (PATH, HOME, LANG …).
	// The bot's environment is never inherited.
	Env map[string]string
	// ReadOnly mounts Dir read-only.
	ReadOnly bool
	// Network allows network access; the default is none.
	Network bool
	// Stdin is fed to the program; nil is an empty input.
	Stdin []byte
	// Limits bound the run; a zero field takes the runner's default.
	Limits Limits
}

// Limits bound one run. Zero means the runner's default, never "unlimited".
type Limits struct {
	// Wall is the total time; the whole process group is killed after it.
	Wall time.Duration
	// Idle is the time without output after which the run counts as hung.
	Idle time.Duration
	// Output is the most bytes kept of the combined output; the rest of the
	// middle is dropped and the result marked truncated.
	Output int64
	// Memory is the most bytes of address space or resident memory.
	Memory int64
	// Processes is the most processes at once.
	Processes int
	// FileSize is the most bytes of one written file.
	FileSize int64
}

// Result is what a run did. A non-zero exit or a timeout is a Result, not an
// error.
type Result struct {
	// ExitCode is the program's code, or -1 when it was killed.
	ExitCode int
	// Output is stdout and stderr in the order they were written, at most
	// Limits.Output bytes.
	Output []byte
	// Stdout is the standard output alone, at most Limits.Output bytes.
	Stdout []byte
	// Truncated says that Output lacks some of what was written.
	Truncated bool
	// TimedOut says that Wall or Idle ended it.
	TimedOut bool
	// Took is the wall time.
	Took time.Duration
	// Sandbox names what confined it: "bubblewrap", "landlock", "none".
	Sandbox string
}

// Runner runs programs in a sandbox. When ctx ends, every process of the run
// is killed before Run returns the cause of ctx.
type Runner interface {
	Run(ctx context.Context, s Spec) (Result, error)
	// Name says which sandbox this is, for the evidence and the doctor.
	Name() string
}
