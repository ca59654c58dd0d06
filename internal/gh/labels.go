package gh

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/google/go-github/v66/github"

	"github.com/pipelinebot/pipelinebot/internal/forge"
)

// AddLabel implements forge.Labels.
func (c *Client) AddLabel(ctx context.Context, ref forge.Ref, name string) error {
	return c.exchange(ctx, request{
		op: fmt.Sprintf("adding label %s to %s", name, ref), method: http.MethodPost,
		path: issuePath(ref, "labels"), repo: ref.Repo, safe: true,
		body: struct {
			Labels []string `json:"labels"`
		}{[]string{name}},
	}, nil)
}

// RemoveLabel implements forge.Labels.
func (c *Client) RemoveLabel(ctx context.Context, ref forge.Ref, name string) error {
	err := c.exchange(ctx, request{
		op: fmt.Sprintf("removing label %s from %s", name, ref), method: http.MethodDelete,
		path: issuePath(ref, "labels", name), repo: ref.Repo, safe: true,
	}, nil)
	if forge.IsKind(err, forge.KindNotFound) {
		return nil // somebody was faster
	}
	return err
}

// RepoLabels implements forge.Labels.
func (c *Client) RepoLabels(ctx context.Context, r forge.Repo) ([]forge.Label, error) {
	all, err := listAll[github.Label](ctx, c, request{op: "listing the labels of " + r.String(), path: repoPath(r, "labels") + "?per_page=100", repo: r}, plain)
	if err != nil {
		return nil, err
	}
	return mapped(all, label), nil
}

type labelBody struct {
	Name        string `json:"name,omitempty"`
	Color       string `json:"color,omitempty"`
	Description string `json:"description"`
}

// PutLabel implements forge.Labels. A label that is there as wanted costs no
// write.
func (c *Client) PutLabel(ctx context.Context, r forge.Repo, l forge.Label) error {
	l.Color = strings.TrimPrefix(l.Color, "#")
	read := request{op: fmt.Sprintf("reading label %s of %s", l.Name, r), path: repoPath(r, "labels", l.Name), repo: r}
	var have github.Label
	err := c.get(ctx, read, &have)
	if forge.IsKind(err, forge.KindNotFound) {
		err = c.exchange(ctx, request{
			op: fmt.Sprintf("creating label %s in %s", l.Name, r), method: http.MethodPost,
			path: repoPath(r, "labels"), repo: r, body: labelBody{l.Name, l.Color, l.Description},
		}, nil)
		if !forge.IsKind(err, forge.KindConflict) {
			return err
		}
		err = c.get(ctx, read, &have) // somebody created it meanwhile
	}
	if err != nil {
		return err
	}
	if strings.EqualFold(have.GetColor(), l.Color) && have.GetDescription() == l.Description {
		return nil
	}
	return c.exchange(ctx, request{
		op: fmt.Sprintf("updating label %s in %s", l.Name, r), method: http.MethodPatch,
		path: repoPath(r, "labels", l.Name), repo: r, body: labelBody{Color: l.Color, Description: l.Description}, safe: true,
	}, nil)
}
