package gitws

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/pipelinebot/pipelinebot/flows"
	"github.com/pipelinebot/pipelinebot/internal/workspace"
)

// What a remote says decides whether it is asked again. A refusal that comes
// with a broken connection is still a refusal.
func TestClassify(t *testing.T) {
	t.Parallel()
	tests := []struct{ said, want string }{
		{"fatal: unable to access 'https://h/': The requested URL returned error: 403", "denied"},
		{"! [remote rejected] x -> x (refusing to allow an OAuth App to create or update workflow)", "denied"},
		{"remote: error: GH013: Repository rule violations found for refs/heads/x.", "denied"},
		{"remote: fatal: fsck error in pack objects\nerror: remote unpack failed: unpack-objects abnormal exit\nfatal: the remote end hung up unexpectedly", "denied"},
		{"remote: Repository not found.", "absent"},
		{"fatal: unable to access 'https://h/': Could not resolve host: h", "transient"},
		{"error: RPC failed; HTTP 502 curl 22 The requested URL returned error: 502", "transient"},
		{"fatal: unable to access 'https://h/': The requested URL returned error: 429", "rate-limited"},
		{"error: src refspec x does not match any", "plain"},
	}
	for _, tt := range tests {
		t.Run(tt.want+" "+tt.said[:20], func(t *testing.T) {
			t.Parallel()
			err := classify(&failure{command: "push", code: 1, message: tt.said, err: errors.New("exit status 1")})
			var retry *flows.Retry
			got := "plain"
			switch {
			case errors.Is(err, workspace.ErrDenied):
				got = "denied"
			case errors.Is(err, workspace.ErrNotFound):
				got = "absent"
			case errors.As(err, &retry):
				got = retry.Cause
			}
			if got != tt.want {
				t.Errorf("%s, want %s: %v", got, tt.want, err)
			}
		})
	}
	var retry *flows.Retry
	if err := classify(fmt.Errorf("ours: %w", context.DeadlineExceeded)); !errors.As(err, &retry) || retry.Cause != "transient" {
		t.Errorf("a deadline of ours: %v, want transient", err)
	}
}
