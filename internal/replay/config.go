// Package replay runs scenarios against the real program: the launchers that
// start `pipelinebot serve` as a child process, or the same program inside
// this one for the demo.
//
// It must not judge what happened; package scenario does. It may import
// flows/templates and internal/{app,config,mockworld/scenario}.
package replay

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/pipelinebot/pipelinebot/flows/templates"
	"github.com/pipelinebot/pipelinebot/internal/mockworld/scenario"
)

// The environment variables by which the program gets its secrets.
const (
	envToken   = "PIPELINEBOT_REPLAY_TOKEN"
	envHook    = "PIPELINEBOT_REPLAY_WEBHOOK_SECRET"
	envModel   = "PIPELINEBOT_REPLAY_MODEL_KEY"
	configFile = "config.yaml"
	// flowsDir is where flows made from templates are put.
	flowsDir = "flows"
)

// settings is the configuration for a bot in a scenario's world, and the
// environment that it names.
func settings(b scenario.Bot) (config map[string]any, env map[string]string) {
	// Beside webhooks, polls only find what those missed; alone they are all
	// there is to wait for.
	interval := "1500ms"
	if b.PollOnly {
		interval = "300ms"
	}
	gh := map[string]any{"base_url": b.APIURL, "webhooks": !b.PollOnly, "poll_interval": interval, "writes_per_minute": 10000}
	env = map[string]string{envModel: b.ModelKey}
	switch {
	case b.App != nil:
		gh["app"] = map[string]any{"id": b.App.ID, "installation_id": b.App.InstallationID, "private_key_file": "app.pem"}
	default:
		gh["token_env"] = envToken
		env[envToken] = b.Token
	}
	if !b.PollOnly {
		gh["webhook_secret_env"] = []string{envHook}
		env[envHook] = b.WebhookSecret
	}
	var repos []map[string]any
	for _, r := range b.Repos {
		repos = append(repos, map[string]any{"name": r})
	}
	config = map[string]any{
		"data_dir": "data", "server": map[string]any{"listen": "127.0.0.1:0"}, "github": gh, "repositories": repos,
		"models": map[string]any{
			"backends": map[string]any{"main": map[string]any{"driver": "anthropic", "base_url": b.ModelURL, "api_key_env": envModel}},
			"default":  map[string]any{"backend": "main", "model": "claude-sonnet-4-5"},
		},
		"log": map[string]any{"level": "debug"},
	}
	if len(b.Templates) > 0 {
		config["flows_dir"] = flowsDir
	}
	return scenario.Merge(config, b.Overrides), env
}

// write puts the configuration (and an App's key) into the bot's folder. JSON
// is YAML, so that no YAML is made by hand.
func write(b scenario.Bot) (path string, env map[string]string, err error) {
	if err := os.MkdirAll(b.Dir, 0o700); err != nil {
		return "", nil, fmt.Errorf("making the bot's folder: %w", err)
	}
	cfg, env := settings(b)
	text, err := json.MarshalIndent(cfg, "", "  ")
	if err != nil {
		return "", nil, fmt.Errorf("encoding the bot's configuration: %w", err)
	}
	if b.App != nil {
		if err := os.WriteFile(filepath.Join(b.Dir, "app.pem"), []byte(b.App.PEM), 0o600); err != nil {
			return "", nil, fmt.Errorf("writing the App's key: %w", err)
		}
	}
	if err := writeFiles(b); err != nil {
		return "", nil, err
	}
	path = filepath.Join(b.Dir, configFile)
	if err := os.WriteFile(path, text, 0o600); err != nil {
		return "", nil, fmt.Errorf("writing the bot's configuration: %w", err)
	}
	return path, env, nil
}

// writeFiles puts the scenario's own files, and its flows made from templates,
// beside the configuration.
func writeFiles(b scenario.Bot) error {
	files := map[string][]byte{}
	for name, text := range b.Files {
		files[name] = []byte(text)
	}
	for name, template := range b.Templates {
		src, err := templates.New(template, name)
		if err != nil {
			return fmt.Errorf("making the flow %s: %w", name, err)
		}
		files[filepath.Join(flowsDir, name+".yaml")] = src
	}
	for name, content := range files {
		if !filepath.IsLocal(filepath.FromSlash(name)) {
			return fmt.Errorf("the file %q of the bot: want a path inside its folder", name)
		}
		path := filepath.Join(b.Dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return fmt.Errorf("making the folder of %s: %w", name, err)
		}
		if err := os.WriteFile(path, content, 0o600); err != nil {
			return fmt.Errorf("writing %s: %w", name, err)
		}
	}
	return nil
}
