package cli

import (
	"errors"
	"testing"

	"github.com/pipelinebot/pipelinebot/checkpoints"
	"github.com/pipelinebot/pipelinebot/internal/forge"
)

// A run whose result is none that its phase knows goes to a person, and the
// command says so with its exit code, as the guide to flows tells.
func TestVerdict(t *testing.T) {
	t.Parallel()
	ref := forge.Ref{Repo: forge.Repo{Owner: "acme", Name: "shop"}, Number: 1}
	for _, tt := range []struct {
		phase, result string
		status        checkpoints.Status
		want          int
	}{
		{"review", "approved", checkpoints.Done, ExitOK},
		{"implement", "merged", checkpoints.Done, ExitOK},
		{"implement", "changed", checkpoints.Done, ExitNo},
		{"implement", "declined", checkpoints.Done, ExitNo},
		{"implement", "error", checkpoints.Failed, ExitNo},
		{"implement", "", checkpoints.Halted, ExitBusy},
	} {
		err := verdict(ref, checkpoints.Run{Phase: tt.phase, Result: tt.result, Status: tt.status})
		got := ExitOK
		if e := new(exitError); errors.As(err, &e) {
			got = e.code
		}
		if got != tt.want {
			t.Errorf("%s, %s: exit code %d (%v), want %d", tt.phase, tt.result, got, err, tt.want)
		}
	}
}
