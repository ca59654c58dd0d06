package app

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/pipelinebot/pipelinebot/internal/config"
	"github.com/pipelinebot/pipelinebot/internal/forge"
	"github.com/pipelinebot/pipelinebot/internal/secret"
	"github.com/pipelinebot/pipelinebot/labels"
)

// LabelChange is one label that SyncLabels changed.
type LabelChange struct {
	Repo  string `json:"repo"`
	Label string `json:"label"`
	Did   string `json:"did"` // created, updated
}

// SyncLabels makes the pipeline's labels be there, with colours and
// descriptions, in the given repositories or in all configured ones.
func SyncLabels(ctx context.Context, cfg *config.Config, log *slog.Logger, repos []forge.Repo) ([]LabelChange, error) {
	client, err := newForge(cfg, secret.NewScrubber(secretsOf(cfg)...), log)
	if err != nil {
		return nil, err
	}
	if len(repos) == 0 {
		for _, r := range cfg.Repositories {
			repos = append(repos, r.Repo)
		}
	}
	var changes []LabelChange
	for _, r := range repos {
		have, err := client.RepoLabels(ctx, r)
		if err != nil {
			return changes, fmt.Errorf("listing the labels of %s: %w", r, err)
		}
		for _, want := range labels.Palette(cfg.Labels) {
			did := missing(have, want)
			if did == "" {
				continue
			}
			if err := client.PutLabel(ctx, r, want); err != nil {
				return changes, fmt.Errorf("writing label %s of %s: %w", want.Name, r, err)
			}
			changes = append(changes, LabelChange{r.String(), want.Name, did})
		}
	}
	return changes, nil
}

// missing says what must be done about a label, "" for nothing.
func missing(have []forge.Label, want forge.Label) string {
	for _, h := range have {
		if labels.Same(h.Name, want.Name) {
			if labels.Same(h.Color, want.Color) && h.Description == want.Description {
				return ""
			}
			return "updated"
		}
	}
	return "created"
}
