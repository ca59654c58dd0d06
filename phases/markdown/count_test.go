package markdown_test

import (
	"testing"

	"github.com/pipelinebot/pipelinebot/phases/markdown"
)

func TestCount(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		n          int
		what, want string
	}{
		{0, "finding", "0 findings"},
		{1, "finding", "1 finding"},
		{2, "pull request", "2 pull requests"},
		{1, "repository", "1 repository"},
		{3, "repository", "3 repositories"},
		{4, "branch", "4 branches"},
	} {
		if got := markdown.Count(tt.n, tt.what); got != tt.want {
			t.Errorf("Count(%d, %q) = %q, want %q", tt.n, tt.what, got, tt.want)
		}
	}
}
