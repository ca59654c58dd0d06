package cli

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/pipelinebot/pipelinebot/checkpoints"
	"github.com/pipelinebot/pipelinebot/internal/app"
	"github.com/pipelinebot/pipelinebot/internal/demo"
	"github.com/pipelinebot/pipelinebot/internal/mockworld/scenario"
	"github.com/pipelinebot/pipelinebot/internal/replay"
)

func (s *shell) demoCommand() *cobra.Command {
	var keep, unconfined bool
	c := &cobra.Command{
		Use: "demo", Short: "Walk an issue through the whole pipeline, offline", Args: cobra.NoArgs,
		Long: "demo starts a fake GitHub with a small Go repository that has a genuine bug, a\n" +
			"scripted model, and this program as `serve` would run it. People in the world label\n" +
			"the issue and approve the plan; git, HTTP, the sandbox and the tests are real.",
		RunE: func(c *cobra.Command, _ []string) error {
			sc, err := scenario.Load(demo.Scenario())
			if err != nil {
				return err
			}
			if unconfined {
				sc.Bot.Config = scenario.Merge(sc.Bot.Config, map[string]any{"sandbox": map[string]any{"mode": "none"}})
			}
			return (&demoRun{shell: s, keep: keep, began: time.Now()}).play(c.Context(), sc)
		},
	}
	c.Flags().BoolVar(&keep, "keep", false, "leave the world up until stopped, and say what to open")
	c.Flags().BoolVar(&unconfined, "no-sandbox", false, "run the repository's tests without a sandbox")
	return c
}

// demoRun draws the demo's timeline.
type demoRun struct {
	*shell
	keep  bool
	began time.Time
	mu    sync.Mutex // guards the output and total
	total checkpoints.Usage
	runs  []checkpoints.Run
	ends  []time.Time
}

func (d *demoRun) play(ctx context.Context, sc *scenario.Scenario) error {
	dir, err := os.MkdirTemp("", "pipelinebot-demo-")
	if err != nil {
		return fmt.Errorf("making a folder for the demo: %w", err)
	}
	if !d.keep {
		defer os.RemoveAll(dir) //nolint:errcheck // a temporary folder
	}
	log, err := os.Create(filepath.Join(dir, "demo.log"))
	if err != nil {
		return fmt.Errorf("making the demo's log: %w", err)
	}
	defer func() { _ = log.Close() }()
	d.say(map[string]any{"event": "begin", "about": sc.About}, "%s\n\n", strings.TrimSpace(sc.About))
	var held error
	rep, err := scenario.Run(ctx, sc, replay.Inside{
		Log: slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug})), Observer: d, Started: d.sandbox,
	}, scenario.Options{Dir: dir, Observe: d.world, Hold: func(ctx context.Context, l scenario.Live) error {
		held = d.finale(ctx, l, dir)
		return nil
	}})
	if err != nil {
		return fmt.Errorf("playing the demo: %w", err)
	}
	if held != nil {
		return held
	}
	if !rep.Passed {
		fmt.Fprint(d.Err, rep)
		return said("the demo did not end as it should")
	}
	return nil
}

// say prints a line for people or an event as JSON.
func (d *demoRun) say(v map[string]any, format string, args ...any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.json {
		v["t"] = time.Since(d.began).Seconds()
		d.emit(v)
		return
	}
	fmt.Fprintf(d.Out, format, args...)
}

func (d *demoRun) since() string { return fmt.Sprintf("%6.1fs", time.Since(d.began).Seconds()) }

func (d *demoRun) sandbox(name string) {
	d.say(map[string]any{"event": "sandbox", "name": name}, "sandbox: %s\n\n%7s  %-9s  %-14s  %-16s %8s %8s %9s  %s\n",
		name, "time", "phase", "node", "outcome", "took", "tokens", "cost", "note")
}

// world shows what people do; what the bot does is shown by its nodes.
func (d *demoRun) world(e scenario.Event) {
	if e.Kind == "step" {
		d.say(map[string]any{"event": "world", "text": e.Text}, "%s  %-9s  %s\n", d.since(), "people", e.Text)
	}
}

// Node implements app.Observer.
func (d *demoRun) Node(ev app.NodeEvent) {
	if ev.Stage != "end" {
		if d.json {
			d.say(map[string]any{"event": "node", "node": ev}, "")
		}
		return
	}
	d.say(map[string]any{"event": "node", "node": ev}, "%s  %-9s  %-14s  %-16s %8s %8d %9s  %s\n",
		d.since(), ev.Phase, ev.Node, ev.Outcome, ev.Took.Round(time.Millisecond), ev.Usage.Tokens(), dollars(ev.Usage.MicroUSD), firstLine(ev.Note))
}

// RunEnded implements app.Observer.
func (d *demoRun) RunEnded(run checkpoints.Run, status checkpoints.Status) {
	d.mu.Lock()
	d.runs, d.ends = append(d.runs, run), append(d.ends, time.Now())
	d.mu.Unlock()
	d.say(map[string]any{"event": "phase", "phase": run.Phase, "result": run.Result, "status": status, "reason": run.Reason},
		"%s  %-9s  → %s\n", d.since(), run.Phase, run.Result)
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	if r := []rune(line); len(r) > 90 {
		line = string(r[:90]) + "…"
	}
	return line
}

// finale shows the end: table, evidence, diff, status comment.
func (d *demoRun) finale(ctx context.Context, l scenario.Live, dir string) error {
	if err := d.table(ctx, l); err != nil {
		return err
	}
	for name, repo := range l.Report.Seen.World.Repos {
		for _, p := range repo.Pulls {
			diff, err := fetchDiff(ctx, l.Bot, name, p.Number)
			if err != nil {
				return err
			}
			d.say(map[string]any{"event": "pull_request", "repo": name, "number": p.Number, "title": p.Title, "diff": diff},
				"\n== pull request #%d: %s\n\n%s", p.Number, p.Title, diff)
		}
		for _, i := range repo.Issues {
			for _, c := range i.Comments {
				if strings.Contains(c.Body, scenario.StatusMarker) {
					d.say(map[string]any{"event": "status_comment", "issue": i.Number, "labels": i.Labels, "body": c.Body},
						"\n== status comment on issue #%d (labels: %s)\n\n%s\n", i.Number, strings.Join(i.Labels, ", "), c.Body)
				}
			}
		}
	}
	if !d.keep {
		return nil
	}
	d.say(map[string]any{"event": "kept", "base_url": l.Bot.APIURL, "token": l.Bot.Token, "dir": dir},
		"\nThe world is up until you stop me (Ctrl-C). Look at it with\n\n"+
			"  curl -H 'Authorization: Bearer %s' %srepos/%s/issues/1/comments\n"+
			"  pipelinebot runs list --config %s\n\nThe daemon's log is %s.\n",
		l.Bot.Token, l.Bot.APIURL, l.Bot.Repos[0], filepath.Join(l.Bot.Dir, "config.yaml"), filepath.Join(dir, "demo.log"))
	<-ctx.Done()
	return nil
}

// table sums up the phases and shows what the bot's own test runs said.
func (d *demoRun) table(ctx context.Context, l scenario.Live) error {
	d.mu.Lock()
	runs := append([]checkpoints.Run(nil), d.runs...)
	d.mu.Unlock()
	if !d.json {
		fmt.Fprintln(d.Out)
	}
	w := tabwriter.NewWriter(d.Out, 0, 4, 2, ' ', 0)
	if !d.json {
		fmt.Fprintln(w, "PHASE\tRESULT\tNODES\tMODEL CALLS\tTOOL CALLS\tTOKENS\tCOST")
	}
	total := checkpoints.Usage{}
	for _, r := range runs {
		total = total.Add(r.Spent)
		if !d.json {
			fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%d\t%d\t%s\n", r.Phase, r.Result, r.Seq, r.Spent.ModelCalls, r.Spent.ToolCalls, r.Spent.Tokens(), dollars(r.Spent.MicroUSD))
		}
	}
	if !d.json {
		fmt.Fprintf(w, "total\t\t\t%d\t%d\t%d\t%s\n", total.ModelCalls, total.ToolCalls, total.Tokens(), dollars(total.MicroUSD))
		if err := w.Flush(); err != nil {
			return err
		}
	}
	d.say(map[string]any{"event": "total", "usage": total}, "\n")
	evidence, err := app.Evidence(ctx, filepath.Join(l.Bot.Dir, "data"), runs)
	if err != nil {
		return err
	}
	for _, e := range evidence {
		verdict := "passed"
		if !e.Passed {
			verdict = "failed: " + strings.Join(e.Failing, ", ")
		}
		d.say(map[string]any{"event": "tests", "when": e.When, "evidence": e.Evidence},
			"tests %-11s %s: %d ran, exit code %d, %s (tree %.12s, in %s)\n",
			e.When, strings.Join(e.Argv, " "), e.TestsRun, e.ExitCode, verdict, e.Tree, e.Sandbox)
	}
	return nil
}

// fetchDiff reads the pull request's diff from the world's API.
func fetchDiff(ctx context.Context, b scenario.Bot, repo string, number int) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("%srepos/%s/pulls/%d", b.APIURL, repo, number), nil)
	if err != nil {
		return "", err
	}
	req.Header.Set("Accept", "application/vnd.github.diff")
	req.Header.Set("Authorization", "Bearer "+b.Token)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", fmt.Errorf("reading the pull request's diff: %w", err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil || resp.StatusCode != http.StatusOK {
		return "", fmt.Errorf("reading the pull request's diff: HTTP %d, %w", resp.StatusCode, err)
	}
	return string(text), nil
}
