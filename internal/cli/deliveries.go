package cli

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/pipelinebot/pipelinebot/internal/app"
	"github.com/pipelinebot/pipelinebot/internal/config"
	"github.com/pipelinebot/pipelinebot/phases/markdown"
)

// deliveriesLooked is how many rows of the inbox are looked through.
const deliveriesLooked = 100_000

func (s *shell) deliveriesCommand() *cobra.Command {
	var since string
	var missed bool
	c := &cobra.Command{
		Use: "deliveries", Short: "List the events that came in, and those that no webhook told of", Args: cobra.NoArgs,
		Long: "Deliveries lists the events of the inbox, oldest first, with the way by which\n" +
			"each came: the webhook, or the poll that found it. Of what the poll found TOLD\n" +
			"says whether a webhook came later or never (missed): then look at the deliveries\n" +
			"of the webhook in the settings on GitHub. What happened while the bot was down\n" +
			"is missed, too: GitHub does not deliver again by itself.",
		Example: "  pipelinebot deliveries --missed --since 7d\n  pipelinebot deliveries --since 2026-11-30",
		RunE: func(c *cobra.Command, _ []string) error {
			from, err := sinceWhen(since, time.Now())
			if err != nil {
				return usage("--since: %v", err)
			}
			return s.withReader(c.Context(), func(r app.Reader, cfg *config.Config) error {
				return s.deliveries(c.Context(), r, cfg, from, missed)
			})
		},
	}
	c.Flags().StringVar(&since, "since", "24h", "how far back: a duration (90m, 24h, 7d), a date or a time (RFC 3339)")
	c.Flags().BoolVar(&missed, "missed", false, "only what no webhook told of")
	return c
}

// sinceWhen reads how far back to look.
func sinceWhen(text string, now time.Time) (time.Time, error) {
	if days, ok := strings.CutSuffix(text, "d"); ok {
		if n, err := strconv.ParseUint(days, 10, 16); err == nil {
			return now.AddDate(0, 0, -int(n)), nil
		}
	}
	if d, err := time.ParseDuration(text); err == nil && d >= 0 {
		return now.Add(-d), nil
	}
	if at, err := time.ParseInLocation(time.DateOnly, text, time.Local); err == nil { //nolint:gosmopolitan // what a person means by a date
		return at, nil
	}
	if at, err := time.Parse(time.RFC3339, text); err == nil {
		return at, nil
	}
	return time.Time{}, fmt.Errorf("%q is no duration (24h, 7d), date (2026-11-30) or time (2026-11-30T12:00:00Z)", text)
}

func (s *shell) deliveries(ctx context.Context, r app.Reader, cfg *config.Config, since time.Time, missed bool) error {
	all, whole, err := app.Deliveries(ctx, r, since, deliveriesLooked)
	if err != nil {
		return err
	}
	counts := map[app.Told]int{} // of what the poll found
	polled := 0
	var shown []app.Delivery
	for _, d := range all {
		if d.Source == "poll" {
			polled++
			counts[d.Told]++
		}
		if !missed || d.Told == app.Missed {
			shown = append(shown, d)
		}
	}
	if !whole {
		defer s.cut("only the newest %d events were looked through", deliveriesLooked)
	}
	if s.json {
		for _, d := range shown {
			s.emit(d)
		}
		return nil
	}
	if len(shown) > 0 {
		w := tabwriter.NewWriter(s.Out, 0, 4, 2, ' ', 0)
		fmt.Fprintln(w, "RECEIVED\tEVENT\tISSUE\tBY\tSOURCE\tTOLD\tAFTER\tDECISION")
		for _, d := range shown {
			event, after := d.Event, "-"
			if d.Label != "" {
				event += " " + d.Label
			}
			if d.Source == "poll" { // a webhook's time is when it came
				after = max(d.Received.Sub(d.Happened), 0).Round(time.Second).String()
			}
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n",
				moment(d.Received), event, d.Issue, orDash(d.Actor), d.Source, d.Told, after, orDash(d.Decision))
		}
		if err := w.Flush(); err != nil {
			return err
		}
	}
	fmt.Fprintf(s.Out, "%s since %s: %d found by the poll, of which a webhook told %d, later %d, never %d\n",
		markdown.Count(len(all), "event"), moment(since), polled, counts[app.ByWebhook], counts[app.Later], counts[app.Missed])
	if !cfg.GitHub.Webhooks && counts[app.Missed] > 0 {
		fmt.Fprintln(s.Out, "webhooks are off in the configuration: the poll finds everything")
	}
	return nil
}
