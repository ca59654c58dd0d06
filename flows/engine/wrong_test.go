package engine_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/pipelinebot/pipelinebot/flows"
)

// The rows on which the systems they were learned from fail have tests that
// are known to bite: one check holds for ours and refuses a double that does,
// in a few lines, what the other system did (wrong_*_test.go).

// bites runs a check against ours, which must hold, and against the wrong
// double, which must be refused.
func bites[T any](t *testing.T, check func(T) error, ours, wrong T) {
	t.Helper()
	if err := check(ours); err != nil {
		t.Errorf("ours: %v", err)
	}
	if err := check(wrong); err == nil {
		t.Error("the check lets the wrong double pass")
	} else {
		t.Logf("the double is refused: %v", err)
	}
}

// loading is what a loader says of a flow: the codes of its problems, none
// when it accepts the file.
type loading func(src string) []string

// ourLoading is our loader over the actions of world.
func ourLoading(t *testing.T) loading {
	w := newWorld(t, nil)
	return func(src string) []string {
		_, problems := flows.Load("test.yaml", []byte(src), w.reg)
		return problems.Codes()
	}
}

// refuses checks that a loader refuses files with a code.
func refuses(code string, srcs ...string) func(loading) error {
	return func(load loading) error {
		for _, src := range srcs {
			if codes := load(src); !slices.Contains(codes, code) {
				return errors.New("not refused with " + code + ":" + src[len(header):])
			}
		}
		return nil
	}
}

// fails is a script that fails.
func fails(context.Context, flows.Call) (flows.Result, error) {
	return flows.Result{}, errors.New("scripted failure")
}
