package app

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pipelinebot/pipelinebot/checkpoints"
	"github.com/pipelinebot/pipelinebot/internal/forge"
	"github.com/pipelinebot/pipelinebot/internal/intake"
)

// Delivery is one event that came in, and by which way.
type Delivery struct {
	// Received is when its row was stored, Happened when it happened, as far as
	// the source knows: a webhook does not say.
	Received time.Time `json:"received"`
	Happened time.Time `json:"happened"`
	// Source is "webhook" or "poll", GUID the webhook's.
	Source string `json:"source"`
	GUID   string `json:"guid,omitempty"`
	Event  string `json:"event"`
	Issue  string `json:"issue"`
	Label  string `json:"label,omitempty"`
	Actor  string `json:"actor,omitempty"`
	// Told says whether a webhook told of it: "webhook" when that was first,
	// "later" when it came after the poll, "missed" when none came.
	Told     Told   `json:"told"`
	Decision string `json:"decision,omitempty"`
	Why      string `json:"why,omitempty"`
}

// Told is whether a webhook told of an event.
type Told string

// The values of Told.
const (
	ByWebhook Told = "webhook"
	Later     Told = "later"
	Missed    Told = "missed"
)

// A webhook has no id of the issue's log, so that its label and state events
// are matched by what they say and when: GitHub gives up after some seconds,
// and the clocks differ.
const (
	earliestTold = time.Minute
	latestTold   = 5 * time.Minute
)

// Deliveries lists the events that came in since then, oldest first, and
// whether a webhook told of each; an operator's commands are left out. It
// looks through at most `rows` rows of the inbox; whole is false when there
// were more.
func Deliveries(ctx context.Context, r Reader, since time.Time, rows int) (out []Delivery, whole bool, err error) {
	// A webhook may have come shortly before the poll's event by its clock.
	inbox, err := r.Inbox(ctx, rows+1)
	if err != nil {
		return nil, false, fmt.Errorf("reading the inbox: %w", err)
	}
	whole = len(inbox) <= rows || inbox[len(inbox)-1].At.Before(since)
	inbox = inbox[:min(len(inbox), rows)]
	slices.Reverse(inbox)
	var hooks []*hookRow
	var events []forge.Event
	for _, row := range inbox {
		var ev forge.Event
		_ = json.Unmarshal(row.Body, &ev) // what can't be read has no source
		events = append(events, ev)
		if ev.Source == "webhook" {
			hooks = append(hooks, &hookRow{ev: ev, at: row.At})
		}
	}
	for i, row := range inbox {
		ev := events[i]
		if ev.Source != "webhook" && ev.Source != "poll" || row.At.Before(since) {
			continue
		}
		d := Delivery{
			Received: row.At, Happened: ev.At, Source: ev.Source, GUID: row.Delivery, Event: string(ev.Kind), Issue: ev.Issue.String(),
			Label: ev.Label, Actor: ev.Actor.Login, Told: ByWebhook, Decision: row.Decision, Why: row.Explanation,
		}
		if ev.Issue.Number == 0 {
			d.Issue = ev.Issue.Repo.String()
			if ev.Pull > 0 {
				d.Issue = forge.Ref{Repo: ev.Issue.Repo, Number: ev.Pull}.String()
			}
		}
		if ev.Source == "poll" {
			if d.Told, err = toldOf(ctx, r, row, ev, hooks); err != nil {
				return nil, false, err
			}
		}
		out = append(out, d)
	}
	return out, whole, nil
}

// hookRow is a webhook's row; it tells of one event of the poll only.
type hookRow struct {
	ev   forge.Event
	at   time.Time
	used bool
}

// cursors is what a store that can be read has, too.
type cursors interface {
	Cursor(ctx context.Context, name string) (string, error)
}

// toldOf finds the webhook of an event that the poll stored.
func toldOf(ctx context.Context, r Reader, row checkpoints.InboxEvent, ev forge.Event, hooks []*hookRow) (Told, error) {
	for _, h := range hooks {
		if h.used || h.ev.Kind != ev.Kind || !strings.EqualFold(h.ev.Issue.String(), ev.Issue.String()) || !strings.EqualFold(h.ev.Label, ev.Label) {
			continue
		}
		if h.at.Before(ev.At.Add(-earliestTold)) || h.at.After(ev.At.Add(latestTold)) {
			continue
		}
		h.used = true
		if h.at.After(row.At) {
			return Later, nil
		}
		return ByWebhook, nil
	}
	if c, ok := r.(cursors); ok && row.Key != "" {
		later, err := c.Cursor(ctx, intake.ToldLater(row.Key))
		if err != nil {
			return "", fmt.Errorf("reading whether a webhook told of %s: %w", row.Key, err)
		}
		if later != "" {
			return Later, nil
		}
	}
	return Missed, nil
}
