package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"github.com/pipelinebot/pipelinebot/internal/config"
	"github.com/pipelinebot/pipelinebot/internal/forge"
	"github.com/pipelinebot/pipelinebot/internal/secret"
	"github.com/pipelinebot/pipelinebot/labels"
)

// LabelChange is one label that must be changed, or was.
type LabelChange struct {
	Repo  string `json:"repo"`
	Label string `json:"label"`
	// Did is created, updated or renamed; Was is the name before.
	Did string `json:"did"`
	Was string `json:"was,omitempty"`
}

// Rename is a label that gets another name in the repositories, and with it on
// every issue that has it.
type Rename struct{ Old, New string }

// LabelOptions are what PlanLabels and SyncLabels take.
type LabelOptions struct {
	// Repos are the repositories; none are all of the configuration.
	Repos []forge.Repo
	// Renames come first. A new name must be one that the configuration uses.
	Renames []Rename
}

// PlanLabels says what SyncLabels would do, and changes nothing.
func PlanLabels(ctx context.Context, cfg *config.Config, log *slog.Logger, o LabelOptions) ([]LabelChange, error) {
	return labelChanges(ctx, cfg, log, o, false)
}

// SyncLabels makes the pipeline's labels be there, with names, colours and
// descriptions as the configuration has them.
func SyncLabels(ctx context.Context, cfg *config.Config, log *slog.Logger, o LabelOptions) ([]LabelChange, error) {
	return labelChanges(ctx, cfg, log, o, true)
}

func labelChanges(ctx context.Context, cfg *config.Config, log *slog.Logger, o LabelOptions, do bool) ([]LabelChange, error) {
	for _, r := range o.Renames {
		if !labels.Has(cfg.Labels.All(), r.New) {
			return nil, fmt.Errorf("no label of the configuration is called %q: write the new name into `labels` first", r.New)
		}
		if labels.Has(cfg.Labels.All(), r.Old) && !labels.Same(r.Old, r.New) {
			return nil, fmt.Errorf("the configuration still uses the label %q, which is to be renamed", r.Old)
		}
	}
	client, err := newForge(cfg, secret.NewScrubber(secretsOf(cfg)...), log)
	if err != nil {
		return nil, err
	}
	repos := o.Repos
	if len(repos) == 0 {
		for _, r := range cfg.Repositories {
			repos = append(repos, r.Repo)
		}
	}
	if len(repos) == 0 {
		return nil, errors.New("name the repositories: the configuration lists none")
	}
	var changes []LabelChange
	for _, r := range repos {
		have, err := client.RepoLabels(ctx, r)
		if err != nil {
			return changes, fmt.Errorf("listing the labels of %s: %w", r, err)
		}
		for _, c := range missing(r, have, cfg.Labels, o.Renames) {
			if do && c.Was != "" {
				err = client.RenameLabel(ctx, r, c.Was, c.Label)
			} else if do {
				err = client.PutLabel(ctx, r, named(cfg.Labels, c.Label))
			}
			if err != nil {
				return changes, fmt.Errorf("writing label %s of %s: %w", c.Label, r, err)
			}
			changes = append(changes, c)
		}
	}
	return changes, nil
}

func named(n labels.Names, name string) forge.Label {
	all := labels.Palette(n)
	return all[slices.IndexFunc(all, func(l forge.Label) bool { return l.Name == name })]
}

// missing says what must be done about the labels of a repository. A label
// that is there under both names stays: which issues have which only a person
// can put right.
func missing(r forge.Repo, have []forge.Label, n labels.Names, renames []Rename) []LabelChange {
	var out []LabelChange
	have = slices.Clone(have)
	find := func(name string) int {
		return slices.IndexFunc(have, func(l forge.Label) bool { return labels.Same(l.Name, name) })
	}
	for _, want := range labels.Palette(n) {
		was := ""
		for _, re := range renames {
			if labels.Same(re.New, want.Name) && find(re.Old) >= 0 && (labels.Same(re.Old, re.New) || find(re.New) < 0) {
				was = re.Old
			}
		}
		at := find(want.Name)
		if was == "" && at >= 0 && have[at].Name != want.Name {
			was = have[at].Name // another spelling of the same name
		}
		if was != "" {
			at = find(was)
			out = append(out, LabelChange{r.String(), want.Name, "renamed", have[at].Name})
			have[at].Name = want.Name
		}
		switch {
		case at < 0:
			out = append(out, LabelChange{Repo: r.String(), Label: want.Name, Did: "created"})
		case !labels.Same(have[at].Color, want.Color) || have[at].Description != want.Description:
			out = append(out, LabelChange{Repo: r.String(), Label: want.Name, Did: "updated"})
		}
	}
	return out
}
