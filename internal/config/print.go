package config

import (
	"bytes"
	"encoding/json"
	"fmt"

	"go.yaml.in/yaml/v3"

	"github.com/pipelinebot/pipelinebot/checkpoints"
	"github.com/pipelinebot/pipelinebot/internal/secret"
	"github.com/pipelinebot/pipelinebot/labels"
)

// View is the configuration in force, defaults included, as the file would
// say it; secrets are stars, durations text, and what is not set is left out.
func (c *Config) View() (map[string]any, error) {
	encoded, err := json.Marshal(c.view())
	if err != nil {
		return nil, fmt.Errorf("encoding the configuration: %w", err)
	}
	var plain map[string]any
	d := json.NewDecoder(bytes.NewReader(encoded))
	d.UseNumber()
	if err := d.Decode(&plain); err != nil {
		return nil, fmt.Errorf("encoding the configuration: %w", err)
	}
	tidy(plain)
	return plain, nil
}

func (c *Config) view() map[string]any {
	gh := map[string]any{
		"base_url": c.GitHub.BaseURL, "webhooks": c.GitHub.Webhooks, "poll_interval": c.GitHub.PollInterval.String(),
		"writes_per_minute": c.GitHub.WritesPerMinute, "ca_file": c.GitHub.CAFile, "webhook_secrets": c.GitHub.WebhookSecrets,
	}
	if c.GitHub.App != nil {
		gh["app"] = map[string]any{
			"id": c.GitHub.App.ID, "installation_id": c.GitHub.App.InstallationID, "private_key": c.GitHub.App.Key,
		}
	} else {
		gh["token"] = c.GitHub.Token
	}
	permissions := map[string]string{
		"approve": c.Policy.Approve.String(), "stop": c.Policy.Stop.String(), "lift": c.Policy.Lift.String(), "answer": c.Policy.Answer.String(),
	}
	for _, p := range labels.Phases() {
		permissions[string(p)] = c.Policy.Start[p].String()
	}
	v := map[string]any{
		"data_dir": c.DataDir, "flows_dir": c.FlowsDir, "workers": c.Workers, "server": map[string]any{"listen": c.Listen},
		"github": gh, "repositories": c.repositoryView(), "labels": c.labelView(), "permissions": permissions,
		"bots":    map[string]any{"allow": c.AllowedBots},
		"breaker": map[string]any{"window": c.Breaker.Window.String(), "starts": c.Breaker.Starts, "comments": c.Breaker.Comments},
		"models":  c.modelView(),
		"budgets": map[string]any{"run": limitView(c.Limits.Run), "issue": limitView(c.Limits.Issue), "day": limitView(c.Limits.Day)},
		"phases": map[string]any{
			"triage": map[string]any{"min_text": c.Triage.MinText, "outsiders": map[string]any{
				"enabled": c.Triage.Outsiders.Enabled, "per_day": c.Triage.Outsiders.PerDay, "budget": limitView(c.Triage.Outsiders.Budget),
			}},
			"implement": map[string]any{
				"max_files": c.Implement.MaxFiles, "max_lines": c.Implement.MaxLines, "protected": c.Implement.Protected,
				"allow_workflows": c.Implement.AllowWorkflows, "commands": c.Implement.Commands, "tests": testsView(c.Implement.Tests),
			},
			"review": map[string]any{"max_rounds": c.Review.MaxRounds},
		},
		"sandbox": map[string]any{"mode": c.Sandbox.Mode, "read_only_paths": c.Sandbox.ReadOnly},
		"git":     map[string]any{"name": c.Git.Name, "email": c.Git.Email, "sign_off": c.Git.SignOff},
		"store":   map[string]any{"synchronous": c.Store.Synchronous},
		"log":     map[string]any{"level": c.Log.Level, "format": c.Log.Format},
	}
	if d := c.Discover; d != nil {
		v["discover"] = map[string]any{"allow": d.Allow, "deny": d.Deny, "every": d.Every.String()}
	}
	return v
}

func (c *Config) repositoryView() []map[string]any {
	views := []map[string]any{}
	for _, r := range c.Repositories {
		v := map[string]any{"name": r.Repo.String()}
		if r.Tests != nil {
			v["tests"] = testsView(*r.Tests)
		}
		views = append(views, v)
	}
	return views
}

func testsView(t Tests) map[string]any {
	return map[string]any{
		"command": t.Command, "timeout": t.Timeout.String(), "network": t.Network, "allow_unknown_count": t.AllowUnknownCount,
		"reruns": t.Reruns,
	}
}

func (c *Config) labelView() RawLabels {
	n := c.Labels
	return RawLabels{
		n.Triage, n.Plan, n.AwaitingApproval, n.Approved, n.Implement, n.Review, n.Done,
		n.NeedsHuman, n.Declined, n.Stop, n.StopAll, n.Auto,
	}
}

func (c *Config) modelView() map[string]any {
	backends := map[string]any{}
	for name, b := range c.Models.Backends {
		view := map[string]any{"driver": b.Driver, "base_url": b.BaseURL, "timeout": b.Timeout.String()}
		if !b.Key.Empty() {
			view["api_key"] = secret.Stars
		}
		if b.JSONMode != "" {
			view["json_mode"] = b.JSONMode
		}
		backends[name] = view
	}
	return map[string]any{
		"backends": backends, "prices": c.raw.Models.Prices, "allow_unknown_price": c.Models.AllowUnknownPrice,
		"default": RawModel{c.Models.Default.Backend, c.Models.Default.Name, c.Models.Default.MaxOutput},
		"prompts": c.raw.Models.Prompts,
	}
}

func limitView(l checkpoints.Limit) map[string]any {
	show := func(v *int64, scale float64) any {
		if v == nil {
			return Unlimited
		}
		return float64(*v) / scale
	}
	return map[string]any{"tokens": show(l.Tokens, 1), "cost_usd": show(l.MicroUSD, 1e6), "tool_calls": show(l.ToolCalls, 1)}
}

// YAML renders View.
func (c *Config) YAML() ([]byte, error) {
	v, err := c.View()
	if err != nil {
		return nil, err
	}
	return yaml.Marshal(v)
}

// tidy drops nulls and turns json.Number into what both outputs print without
// quotes.
func tidy(v any) any {
	switch x := v.(type) {
	case map[string]any:
		for k := range x {
			if x[k] == nil {
				delete(x, k)
				continue
			}
			x[k] = tidy(x[k])
		}
	case []any:
		for i := range x {
			x[i] = tidy(x[i])
		}
	case json.Number:
		if n, err := x.Int64(); err == nil {
			return n
		}
		f, _ := x.Float64()
		return f
	}
	return v
}
