//go:build !linux

package sandbox

import (
	"context"
	"fmt"
	"io"
	"runtime"

	"github.com/pipelinebot/pipelinebot/internal/command"
)

func newBubblewrap(Options) (command.Runner, error) {
	return nil, fmt.Errorf("%w: bubblewrap runs on Linux only, this is %s", ErrUnavailable, runtime.GOOS)
}

func newLandlock(Options) (command.Runner, error) {
	return nil, fmt.Errorf("%w: landlock runs on Linux only, this is %s", ErrUnavailable, runtime.GOOS)
}

// Child does nothing on this system; see its Linux variant.
func Child([]string, io.Writer) (handled bool, code int) { return false, 0 }

func parentOf(*none) string { return "" }

func (*none) belowParent(context.Context, command.Spec, command.Limits, string, []string) (command.Result, error) {
	return command.Result{}, ErrUnavailable
}

func usage(int, command.Limits) string { return "" }

func remember(*job) (forget func()) { return func() {} }

func sweep(string) int { return 0 }
