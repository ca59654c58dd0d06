package cli

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pipelinebot/pipelinebot/internal/demo"
	"github.com/pipelinebot/pipelinebot/internal/mockworld/scenario"
	"github.com/pipelinebot/pipelinebot/internal/replay"
	"github.com/pipelinebot/pipelinebot/phases/markdown"
)

// worldTime is how long a served world may take to tell its story.
const worldTime = 24 * time.Hour

func (s *shell) mockworldCommand() *cobra.Command {
	var file, webhook, dir string
	serve := &cobra.Command{
		Use: "serve", Short: "Serve a fake GitHub and a scripted model on loopback", Args: cobra.NoArgs,
		Long: "serve makes the world of a scenario (the demo's when none is named), prints the\n" +
			"addresses and credentials that a bot needs, and plays the scenario's timeline.\n" +
			"Start `pipelinebot serve` with them in another process. Without --webhook the\n" +
			"bot has to poll. When the story has ended the world is judged and stays up until\n" +
			"you stop it; what a scenario claims of the bot's own books is left out.",
		RunE: func(c *cobra.Command, _ []string) error {
			sc, err := s.worldOf(file)
			if err != nil {
				return err
			}
			sc.Expect.Runs = nil
			sc.World.PollOnly = webhook == ""
			return s.serveWorld(c.Context(), sc, webhook, dir)
		},
	}
	serve.Flags().StringVar(&file, "scenario", "", "scenario file; the demo's world when absent")
	serve.Flags().StringVar(&webhook, "webhook", "", "where the bot takes webhooks, e.g. http://127.0.0.1:8080/webhook")
	serve.Flags().StringVar(&dir, "dir", "", "folder for the repositories; a temporary one when absent")
	return group("mockworld", "A fake GitHub that speaks the wire", serve)
}

func (s *shell) worldOf(file string) (*scenario.Scenario, error) {
	if file == "" {
		return scenario.Load(demo.Scenario())
	}
	loaded, err := loadScenarios([]string{file})
	if err != nil {
		return nil, err
	}
	return loaded[0], nil
}

func (s *shell) serveWorld(ctx context.Context, sc *scenario.Scenario, webhook, dir string) error {
	ended := false
	rep, err := scenario.Run(ctx, sc, replay.Outside{Webhook: webhook, Ready: s.printBot}, scenario.Options{
		Dir: dir, Timeout: worldTime, Observe: s.printEvent,
		Hold: func(ctx context.Context, l scenario.Live) error {
			ended = true
			s.printWorld(l.Report)
			<-ctx.Done()
			return nil
		},
	})
	switch {
	case !ended && ctx.Err() != nil:
		return said("stopped before the story had ended")
	case err != nil:
		return err
	case !rep.Passed:
		return said("the world did not end as the scenario expects")
	}
	return nil
}

// printBot says what a bot must be told to live in this world.
func (s *shell) printBot(b scenario.Bot) {
	v := map[string]any{
		"event": "ready", "base_url": b.APIURL, "token": b.Token, "webhook_secret": b.WebhookSecret,
		"model_url": b.ModelURL, "model_key": b.ModelKey, "repositories": b.Repos,
	}
	if b.App != nil {
		v["app_id"], v["installation_id"], v["private_key"] = b.App.ID, b.App.InstallationID, b.App.PEM
	}
	if s.json {
		s.emit(v)
		return
	}
	fmt.Fprintf(s.Out, "repositories    %v\ngithub.base_url %s\n", b.Repos, b.APIURL)
	if b.App != nil {
		fmt.Fprintf(s.Out, "App id          %d, installation %d, private key:\n%s", b.App.ID, b.App.InstallationID, b.App.PEM)
	} else {
		fmt.Fprintf(s.Out, "token           %s\n", b.Token)
	}
	fmt.Fprintf(s.Out, "people's tokens POST %s/_world/token?login=NAME\n", strings.TrimSuffix(b.APIURL, "/api/v3/"))
	fmt.Fprintf(s.Out, "webhook secret  %s\nmodel           %s on Anthropic's wire, %s/v1 on OpenAI's; key %s\n\n",
		b.WebhookSecret, b.ModelURL, b.ModelURL, b.ModelKey)
	if b.App == nil {
		s.printSetUp(b)
	}
}

// printSetUp is a bot for this world, to paste into another terminal.
func (s *shell) printSetUp(b scenario.Bot) {
	hooks := "webhooks: false"
	if !b.PollOnly {
		hooks = "webhook_secret_env: [WEBHOOK_SECRET]"
	}
	fmt.Fprintf(s.Out, "A bot for it, in an empty folder of another terminal:\n\n"+
		"  cat > config.yaml <<'YAML'\n"+
		"  github: {base_url: %q, token_env: GITHUB_TOKEN, poll_interval: 1s, %s}\n"+
		"  repositories: [{name: %s}]\n"+
		"  models: {backends: {main: {driver: anthropic, base_url: %q, api_key_env: MODEL_KEY}}, default: {model: claude-sonnet-4-5}}\n"+
		"  YAML\n"+
		"  export GITHUB_TOKEN=%s MODEL_KEY=%s WEBHOOK_SECRET=%s\n"+
		"  pipelinebot serve\n\n",
		b.APIURL, hooks, strings.Join(b.Repos, "}, {name: "), b.ModelURL, b.Token, b.ModelKey, b.WebhookSecret)
}

func (s *shell) printEvent(e scenario.Event) {
	if s.json {
		s.emit(e)
		return
	}
	fmt.Fprintf(s.Out, "%s  %-8s %s\n", e.At.Local().Format("15:04:05.000"), e.Kind, e.Text)
}

func (s *shell) printWorld(rep scenario.Report) {
	if s.json {
		s.emit(map[string]any{"event": "final", "passed": rep.Passed, "mismatches": rep.Mismatches, "world": rep.Seen.World})
		return
	}
	fmt.Fprintf(s.Out, "\nthe story has ended; stop me to end the world\n%s", rep)
	for _, name := range slices.Sorted(maps.Keys(rep.Seen.World.Repos)) {
		r := rep.Seen.World.Repos[name]
		fmt.Fprintf(s.Out, "%s: %s, %s, %s\n", name, markdown.Count(len(r.Issues), "issue"),
			markdown.Count(len(r.Pulls), "pull request"), markdown.Count(len(r.Branches), "branch"))
		for _, i := range r.Issues {
			fmt.Fprintf(s.Out, "  #%d %s: %v, %s\n", i.Number, i.Title, i.Labels, markdown.Count(len(i.Comments), "comment"))
		}
	}
}
