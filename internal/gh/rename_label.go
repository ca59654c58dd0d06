package gh

import (
	"context"
	"fmt"
	"net/http"

	"github.com/pipelinebot/pipelinebot/internal/forge"
)

// RenameLabel gives a label of the repository another name; issues that have
// it keep it. KindNotFound when there is none of the old name, KindInvalid or
// KindConflict when there is one of the new.
func (c *Client) RenameLabel(ctx context.Context, r forge.Repo, name, to string) error {
	return c.exchange(ctx, request{
		op: fmt.Sprintf("renaming label %s of %s to %s", name, r, to), method: http.MethodPatch,
		path: repoPath(r, "labels", name), repo: r,
		body: struct {
			Name string `json:"new_name"`
		}{to},
	}, nil)
}
