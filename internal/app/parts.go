package app

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"

	"github.com/pipelinebot/pipelinebot/internal/command"
	"github.com/pipelinebot/pipelinebot/internal/config"
	"github.com/pipelinebot/pipelinebot/internal/forge"
	"github.com/pipelinebot/pipelinebot/internal/gh"
	"github.com/pipelinebot/pipelinebot/internal/gitws"
	"github.com/pipelinebot/pipelinebot/internal/sandbox"
	"github.com/pipelinebot/pipelinebot/internal/secret"
	"github.com/pipelinebot/pipelinebot/llm"
	"github.com/pipelinebot/pipelinebot/llm/anthropic"
	"github.com/pipelinebot/pipelinebot/llm/openai"
	"github.com/pipelinebot/pipelinebot/phases/actuators"
	"github.com/pipelinebot/pipelinebot/phases/agent"
	"github.com/pipelinebot/pipelinebot/phases/delivery"
	"github.com/pipelinebot/pipelinebot/phases/gates"
	"github.com/pipelinebot/pipelinebot/phases/implement"
	"github.com/pipelinebot/pipelinebot/phases/plan"
	"github.com/pipelinebot/pipelinebot/phases/review"
	"github.com/pipelinebot/pipelinebot/phases/tree"
	"github.com/pipelinebot/pipelinebot/phases/triage"
)

func newForge(cfg *config.Config, scrub *secret.Scrubber, log *slog.Logger) (*gh.Client, error) {
	o := gh.Options{
		BaseURL: cfg.GitHub.BaseURL, Token: cfg.GitHub.Token, CAFile: cfg.GitHub.CAFile, Scrubber: scrub, Log: log,
		WritesPerMinute: cfg.GitHub.WritesPerMinute, WritesPerHour: writesPerHour(cfg.GitHub.WritesPerMinute),
		UserAgent: "pipelinebot",
	}
	if app := cfg.GitHub.App; app != nil {
		o.App = &gh.App{ID: app.ID, InstallationID: app.InstallationID, Key: app.Key}
	}
	return gh.New(o)
}

// writesPerHour is GitHub's documented 500. Whoever allows more than the
// documented 80 a minute has a server with other limits, and an hour in
// proportion.
func writesPerHour(perMinute int) int {
	const documentedMinute, documentedHour = 80, 500
	return max(documentedHour, perMinute*documentedHour/documentedMinute)
}

// tools are what phases work with.
type tools struct {
	runner command.Runner
	trees  *tree.Trees
	models models
}

func (a *App) newTools() (tools, error) {
	runner, err := sandbox.New(sandbox.Options{
		Mode: sandbox.Mode(a.cfg.Sandbox.Mode), CacheDir: filepath.Join(a.cfg.DataDir, "cache"),
		ReadOnlyPaths: a.cfg.Sandbox.ReadOnly, Log: a.Log,
	})
	if err != nil {
		return tools{}, err
	}
	ws, err := gitws.New(gitws.Options{
		Dir: filepath.Join(a.cfg.DataDir, "git"), Token: a.gitToken, CAFile: a.cfg.GitHub.CAFile,
		Log: a.Log, Scrubber: a.scrub,
	})
	if err != nil {
		return tools{}, err
	}
	m, err := newModels(a.cfg.Models, a.cfg.GitHub.CAFile)
	return tools{runner: runner, trees: tree.New(ws, a.forge), models: m}, err
}

// gitToken mints a credential for the repository behind a clone address.
func (a *App) gitToken(ctx context.Context, cloneURL string) (secret.Value, error) {
	parts := strings.Split(strings.TrimSuffix(strings.TrimSuffix(cloneURL, "/"), ".git"), "/")
	if len(parts) < 2 {
		return secret.Value{}, fmt.Errorf("no repository in the clone address %q", cloneURL)
	}
	return a.forge.GitToken(ctx, forge.Repo{Owner: parts[len(parts)-2], Name: parts[len(parts)-1]})
}

func (a *App) phaseDeps(t tools) deps {
	c := a.cfg
	identity := delivery.Identity{Name: c.Git.Name, Email: c.Git.Email, SignOff: c.Git.SignOff}
	protected := c.Implement.Protected
	if protected == nil { // not set; an empty list means none
		protected = gates.DefaultProtected()
	}
	rules := gates.Rules{
		MaxFiles: c.Implement.MaxFiles, MaxLines: c.Implement.MaxLines,
		Protected: protected, AllowWorkflows: c.Implement.AllowWorkflows,
	}
	return deps{
		triage: triage.Deps{
			Reader: a.forge, Speaker: a.forge, Linker: a.forge, Models: t.models, Scrub: a.scrub,
			Settings: triage.Settings{MinText: c.Triage.MinText},
		},
		plan: plan.Deps{
			Reader: a.forge, Repos: a.forge, Writer: a.forge, Trees: t.trees, Models: t.models, Labels: c.Labels, Scrub: a.scrub,
			Settings: plan.Settings{
				MaxFiles: min(25, c.Implement.MaxFiles), Protected: protected,
				AllowWorkflows: c.Implement.AllowWorkflows, AutoMin: c.Policy.Approve,
			},
		},
		implement: implement.Deps{
			Issues: a.forge, Pulls: a.forge, Trees: t.trees, Models: t.models, Runner: t.runner, Scrub: a.scrub, Saved: a.reporter.Saved,
			Settings: implement.Settings{TestFor: a.testsFor, Rules: rules, Allow: c.Implement.Commands, Identity: identity},
		},
		review: review.Deps{
			Forge: a.forge, Issues: a.forge, Trees: t.trees, Models: t.models, Runner: t.runner, Scrub: a.scrub,
			Settings: review.Settings{TestFor: a.testsFor, MaxRounds: c.Review.MaxRounds},
		},
		agent: agent.Deps{
			Forge: a.forge, Trees: t.trees, Models: t.models, Runner: t.runner, Scrub: a.scrub, Saved: a.reporter.Saved,
			Settings: agent.Settings{TestFor: a.testsFor, Rules: rules, Allow: c.Implement.Commands, Identity: identity},
		},
	}
}

// testsFor is how a repository's tests are run; an empty command is detected.
func (a *App) testsFor(repo string) gates.TestCommand {
	t := a.cfg.TestsFor(repo)
	return gates.TestCommand{Argv: t.Command, Timeout: t.Timeout, Network: t.Network, AllowUnknownCount: t.AllowUnknownCount, Reruns: t.Reruns}
}

// models chooses the model for a prompt: by its full name, its phase, or the
// default.
type models struct {
	cfg      config.Models
	backends map[string]llm.Backend
	prices   actuators.Prices
}

// newModels trusts the certificate authorities of caFile for every backend.
func newModels(cfg config.Models, caFile string) (models, error) {
	m := models{cfg: cfg, backends: map[string]llm.Backend{}, prices: actuators.DefaultPrices()}
	for name, b := range cfg.Backends {
		backend, err := newBackend(b, caFile)
		if err != nil {
			return m, fmt.Errorf("model backend %s: %w", name, err)
		}
		m.backends[name] = backend
	}
	own := actuators.Prices{}
	for name, p := range cfg.Prices {
		own[name] = actuators.Price{InputMicroUSD: p.Input, CachedMicroUSD: p.Cached, OutputMicroUSD: p.Output, Known: true}
	}
	m.prices = m.prices.With(own)
	return m, nil
}

func newBackend(b config.Backend, caFile string) (llm.Backend, error) {
	if b.Driver == "openai" {
		return openai.New(openai.Options{BaseURL: b.BaseURL, Key: b.Key, JSONMode: openai.JSONMode(b.JSONMode), Total: b.Timeout, CAFile: caFile})
	}
	return anthropic.New(anthropic.Options{BaseURL: b.BaseURL, Key: b.Key, Total: b.Timeout, CAFile: caFile})
}

// For implements actuators.Models.
func (m models) For(prompt string) (actuators.Model, error) {
	name, _, _ := strings.Cut(prompt, "@")
	phase, _, _ := strings.Cut(name, "/")
	chosen := m.cfg.Default
	for _, key := range []string{prompt, name, phase} {
		if c, ok := m.cfg.Prompts[key]; ok {
			chosen = c
			break
		}
	}
	backend, ok := m.backends[chosen.Backend]
	if !ok {
		return actuators.Model{}, fmt.Errorf("prompt %s: there is no backend %q", prompt, chosen.Backend)
	}
	return actuators.Model{
		Backend: backend, Name: chosen.Name, MaxOutput: chosen.MaxOutput, Price: m.prices.Of(chosen.Name), AllowUnknownPrice: m.cfg.AllowUnknownPrice,
	}, nil
}
