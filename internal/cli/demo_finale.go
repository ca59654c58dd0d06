package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/pipelinebot/pipelinebot/checkpoints"
	"github.com/pipelinebot/pipelinebot/internal/app"
	"github.com/pipelinebot/pipelinebot/internal/mockworld"
	"github.com/pipelinebot/pipelinebot/internal/mockworld/scenario"
)

// finale shows the end, table, evidence, diff and status comment, while the
// world is still there.
func (d *demoRun) finale(ctx context.Context, l scenario.Live) error {
	runs := d.ended()
	if err := d.costs(runs); err != nil {
		return err
	}
	if err := d.evidence(ctx, l, runs); err != nil {
		return err
	}
	repos := l.Report.Seen.World.Repos
	for _, name := range slices.Sorted(maps.Keys(repos)) {
		for _, p := range repos[name].Pulls {
			if err := d.pull(ctx, l.Bot, name, p); err != nil {
				return err
			}
		}
		for _, i := range repos[name].Issues {
			d.statusComment(i)
		}
	}
	if d.keep {
		d.leave(ctx, l.Bot)
	}
	return nil
}

// costs sums up the phases.
func (d *demoRun) costs(runs []checkpoints.Run) error {
	total := checkpoints.Usage{}
	for _, r := range runs {
		total = total.Add(r.Spent)
	}
	if d.json {
		d.emit(map[string]any{"event": "total", "usage": total})
		return nil
	}
	fmt.Fprintln(d.Out)
	w := tabwriter.NewWriter(d.Out, 0, 4, 2, ' ', 0)
	fmt.Fprintln(w, "PHASE\tRESULT\tNODES\tMODEL CALLS\tTOOL CALLS\tTOKENS\tCOST")
	for _, r := range runs {
		fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%d\t%d\t%s\n",
			r.Phase, r.Result, r.Seq, r.Spent.ModelCalls, r.Spent.ToolCalls, r.Spent.Tokens(), dollars(r.Spent.MicroUSD))
	}
	fmt.Fprintf(w, "total\t\t\t%d\t%d\t%d\t%s\n\n", total.ModelCalls, total.ToolCalls, total.Tokens(), dollars(total.MicroUSD))
	return w.Flush()
}

// evidence shows what the bot's own test runs said.
func (d *demoRun) evidence(ctx context.Context, l scenario.Live, runs []checkpoints.Run) error {
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

func (d *demoRun) pull(ctx context.Context, b scenario.Bot, repo string, p mockworld.PullState) error {
	diff, err := fetchDiff(ctx, b, repo, p.Number)
	if err != nil {
		return fmt.Errorf("reading the diff of pull request #%d of %s: %w", p.Number, repo, err)
	}
	d.say(map[string]any{"event": "pull_request", "repo": repo, "number": p.Number, "title": p.Title, "diff": diff},
		"\n== pull request #%d: %s\n\n%s", p.Number, p.Title, diff)
	return nil
}

func (d *demoRun) statusComment(i mockworld.IssueState) {
	for _, c := range i.Comments {
		if strings.Contains(c.Body, scenario.StatusMarker) {
			d.say(map[string]any{"event": "status_comment", "issue": i.Number, "labels": i.Labels, "body": c.Body},
				"\n== status comment on issue #%d (labels: %s)\n\n%s\n", i.Number, strings.Join(i.Labels, ", "), c.Body)
		}
	}
}

// leave says how to look around, and waits to be stopped.
func (d *demoRun) leave(ctx context.Context, b scenario.Bot) {
	d.say(map[string]any{"event": "kept", "base_url": b.APIURL, "token": b.Token, "dir": d.dir},
		"\nThe world is up until you stop me (Ctrl-C). Look at it with\n\n"+
			"  curl -H 'Authorization: Bearer %s' %srepos/%s/issues/1/comments\n"+
			"  pipelinebot runs list --config %s\n\nThe daemon's log is %s.\n",
		b.Token, b.APIURL, b.Repos[0], filepath.Join(b.Dir, "config.yaml"), d.logFile())
	<-ctx.Done()
	d.say(map[string]any{"event": "stopped", "dir": d.dir}, "\nStopped. The folder %s is left for you to look at; remove it when you are done.\n", d.dir)
}

// fetchDiff reads a pull request's diff from the world's API.
func fetchDiff(ctx context.Context, b scenario.Bot, repo string, number int) (string, error) {
	const (
		within = 30 * time.Second
		most   = 1 << 20
	)
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("%srepos/%s/pulls/%d", b.APIURL, repo, number), nil)
	if err != nil {
		return "", err
	}
	req.Header.Set("Accept", "application/vnd.github.diff")
	req.Header.Set("Authorization", "Bearer "+b.Token)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return "", errors.New(resp.Status)
	}
	text, err := io.ReadAll(io.LimitReader(resp.Body, most))
	return string(text), err
}
