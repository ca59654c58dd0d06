package app

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/pipelinebot/pipelinebot/internal/clock"
	"github.com/pipelinebot/pipelinebot/internal/forge"
	"github.com/pipelinebot/pipelinebot/internal/intake"
	"github.com/pipelinebot/pipelinebot/labels"
)

// boundary is which repositories are served, under which names, and what came
// in from them.
type boundary struct {
	*App
	poller *intake.Poller
	// look asks for a discovery; it holds one.
	look chan struct{}

	mu    sync.Mutex
	found []forge.Repo     // by discovery
	ids   map[int64]string // repository id → the name it is known by
	known map[string]int64 // lower-case known name → id
	told  map[string]int64 // "kind outcome" → count
}

func (a *App) newBoundary() *boundary {
	b := &boundary{App: a, look: make(chan struct{}, 1), ids: map[int64]string{}, known: map[string]int64{}, told: map[string]int64{}}
	pool := func(forge.Repo) string { return "" } // one token
	if a.cfg.GitHub.App != nil {
		// An App is installed once for an account, so the owner is as good as
		// the installation, and known without asking.
		pool = func(r forge.Repo) string { return strings.ToLower(r.Owner) }
	}
	b.poller = intake.NewPoller(intake.PollerOptions{
		Source: a.forge, Inbox: a.store, Interest: a.interest, Labels: a.cfg.Labels.All(),
		Repos:    func(context.Context) ([]forge.Repo, error) { return b.repos(), nil },
		Interval: a.cfg.GitHub.PollInterval, Clock: a.clock, Log: a.Log, Skip: a.ownStatus,
		Webhooks: a.cfg.GitHub.Webhooks, Pool: pool, Report: b.report,
	})
	return b
}

// handler receives webhooks.
func (b *boundary) handler() intake.Options {
	return intake.Options{
		Secrets: b.cfg.GitHub.WebhookSecrets, Inbox: b.store, Clock: b.clock, Log: b.Log, Skip: b.ownStatus,
		Name: b.name, Wants: b.wants, Told: b.heard, Observe: b.observed,
	}
}

// mostKinds bounds the counters: a kind's name comes from outside.
const mostKinds = 400

func (b *boundary) observed(kind, outcome string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	key := cmp.Or(kind, "?") + " " + outcome
	if _, ok := b.told[key]; !ok && len(b.told) >= mostKinds {
		key = "other " + outcome
	}
	b.told[key]++
}

// report says what the boundary cost and brought, at every full round.
func (b *boundary) report(ctx context.Context, s intake.Stats) {
	args := []any{"rounds", s.Rounds, "repositories", s.Repositories, "requests", s.Requests, "failing", s.Failing}
	if b.cfg.GitHub.Webhooks {
		args = append(args, "webhooks_distrusted", s.Distrusted)
	}
	b.mu.Lock()
	var deliveries []any
	for _, k := range slices.Sorted(maps.Keys(b.told)) {
		deliveries = append(deliveries, slog.Int64(strings.ReplaceAll(k, " ", "."), b.told[k]))
	}
	b.mu.Unlock()
	if len(deliveries) > 0 {
		args = append(args, slog.Group("deliveries", deliveries...))
	}
	for _, l := range b.forge.Budget() {
		if l.Requests == 0 {
			continue
		}
		args = append(args, slog.Group("limit."+strconv.FormatInt(l.Pool, 10),
			"remaining", l.Remaining, "of", l.Limit, "requests", l.Requests, "not_modified", l.NotModified,
			"writes_hour", l.WritesLastHour, "writes_queued", l.WritesQueued))
	}
	b.Log.InfoContext(ctx, "polled all", args...)
}

// wants is what gets a row: what the rules of labels decide on, and what
// happens to the bot's own branches, which work may be waiting for.
func (b *boundary) wants(ev forge.Event) bool {
	switch ev.Kind {
	case forge.IssueOpened:
		return b.cfg.Triage.Outsiders.Enabled
	case forge.Reviewed, forge.ChecksChanged, forge.Pushed:
		return ev.Head == "" && ev.Pull > 0 || strings.HasPrefix(ev.Head, "pipelinebot/")
	default:
		return true
	}
}

// heard is told of every event by webhook.
func (b *boundary) heard(ev forge.Event) {
	ctx := context.Background()
	if ev.Issue.Repo.Name != "" {
		b.poller.Told(ev.Issue.Repo)
	}
	switch ev.Kind {
	case forge.LabelChanged:
		b.labelChanged(ctx, ev)
	case forge.InstallationChanged:
		b.Log.InfoContext(ctx, "the App's installation changed: credentials are asked for anew", "installation", ev.Installation, "action", ev.Action, "actor", ev.Actor.Login)
		b.forge.Forget(ev.Installation)
		b.discoverSoon()
	case forge.RepoChanged:
		b.Log.WarnContext(ctx, "a repository changed", "repo", ev.Issue.Repo.String(), "action", ev.Action, "was", ev.Was, "actor", ev.Actor.Login)
		b.forge.Forget(ev.Installation)
		b.discoverSoon()
	case forge.MemberChanged:
		b.Log.InfoContext(ctx, "a collaborator changed; permissions are asked for at every decision", "repo", ev.Issue.Repo.String(), "action", ev.Action)
	default: // it has a row
	}
}

// labelChanged warns when one of the pipeline's labels is not what it was:
// nothing can be started by a label that is gone.
func (b *boundary) labelChanged(ctx context.Context, ev forge.Event) {
	names := b.cfg.Labels.All()
	if labels.Has(names, ev.Was) && !labels.Same(ev.Was, ev.Label) {
		b.Log.WarnContext(ctx, "a label of the pipeline was renamed: name it so in the configuration, or run `pipelinebot labels sync`",
			"repo", ev.Issue.Repo.String(), "label", ev.Was, "now", ev.Label, "actor", ev.Actor.Login)
	}
	if ev.Action == "deleted" && labels.Has(names, ev.Label) {
		b.Log.WarnContext(ctx, "a label of the pipeline was deleted: run `pipelinebot labels sync`",
			"repo", ev.Issue.Repo.String(), "label", ev.Label, "actor", ev.Actor.Login)
	}
}

// repos are those to poll: configured, then discovered.
func (b *boundary) repos() []forge.Repo {
	if b.Only != nil {
		return []forge.Repo{b.Only.Repo}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return append(b.configured(), b.found...)
}

func (b *boundary) configured() []forge.Repo {
	repos := make([]forge.Repo, len(b.cfg.Repositories))
	for i, r := range b.cfg.Repositories {
		repos[i] = r.Repo
	}
	return repos
}

// idCursor is where the store keeps the id of a repository's name.
func idCursor(name string) string { return "repo-id/" + strings.ToLower(name) }

// recall reads the ids that earlier runs of the program have seen, so that a
// repository renamed while it was down is still known.
func (b *boundary) recall(ctx context.Context) error {
	for _, r := range b.repos() {
		text, err := b.store.Cursor(ctx, idCursor(r.String()))
		if err != nil {
			return fmt.Errorf("reading the id of %s: %w", r, err)
		}
		if id, err := strconv.ParseInt(text, 10, 64); err == nil && id > 0 {
			b.mu.Lock()
			b.ids[id], b.known[strings.ToLower(r.String())] = r.String(), id
			b.mu.Unlock()
		}
	}
	return nil
}

// name is the name by which a repository is served: its own, or, when it was
// renamed or transferred, the one before, by which the store knows its runs
// and stops. GitHub answers under the old name as long as nobody takes it.
func (b *boundary) name(now forge.Repo, id int64) (forge.Repo, bool) {
	return b.named(context.Background(), now, id)
}

func (b *boundary) named(ctx context.Context, now forge.Repo, id int64) (forge.Repo, bool) {
	key := strings.ToLower(now.String())
	b.mu.Lock()
	old, moved := b.ids[id]
	was := b.known[key]
	served := slices.ContainsFunc(append(b.configured(), b.found...), func(r forge.Repo) bool { return strings.EqualFold(r.String(), now.String()) })
	fresh := served && id > 0 && was == 0 && !moved
	if fresh {
		b.ids[id], b.known[key] = now.String(), id
	}
	b.mu.Unlock()
	switch {
	case served && was != 0 && id > 0 && was != id:
		// Somebody made a new repository under the name of one that moved away.
		b.Log.WarnContext(ctx, "webhook ignored: its repository has the name of one that is served, but is another",
			"repo", now.String(), "id", id, "served_id", was)
		return now, false
	case served:
		if fresh {
			ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
			defer cancel()
			if err := b.store.SetCursor(ctx, idCursor(now.String()), strconv.FormatInt(id, 10)); err != nil {
				b.Log.WarnContext(ctx, "the id of a repository was not kept", "repo", now.String(), "error", err)
			}
		}
		return now, true
	case moved && id > 0:
		repo, err := forge.ParseRepo(old)
		return repo, err == nil
	default:
		return now, false
	}
}

const (
	// idsAfter and idsEvery keep the one question a repository, in its life
	// with this store, away from the start's reads and from each other.
	idsAfter = 30 * time.Second
	idsEvery = 2 * time.Second
)

// learn asks for the ids that no webhook has told yet, so that a rename is
// understood whenever it happens.
func (b *boundary) learn(ctx context.Context) {
	if b.Only != nil || !b.cfg.GitHub.Webhooks || clock.Sleep(ctx, b.clock, idsAfter) != nil {
		return
	}
	for _, r := range b.configured() {
		b.mu.Lock()
		known := b.known[strings.ToLower(r.String())] != 0
		b.mu.Unlock()
		if known {
			continue
		}
		if now, err := b.forge.Repository(ctx, r); err == nil {
			b.named(ctx, r, now.ID) // under the configured name, whatever its present one
		}
		if clock.Sleep(ctx, b.clock, idsEvery) != nil {
			return
		}
	}
}

func (b *boundary) discoverSoon() {
	select {
	case b.look <- struct{}{}:
	default: // one is due already
	}
}

// discover keeps the list of the repositories that the credential reaches and
// the configuration allows, until ctx ends.
func (b *boundary) discover(ctx context.Context) {
	d := b.cfg.Discover
	if d == nil || b.Only != nil {
		return
	}
	failed := ""
	for {
		all, err := b.forge.Repositories(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil && err.Error() != failed: // the ones found before stay
			failed = err.Error()
			b.Log.WarnContext(ctx, "discovery failed", "error", err)
		case err == nil:
			failed = ""
			b.adopt(ctx, all)
		}
		wait, cancel := context.WithCancel(ctx)
		go func() {
			defer cancel()
			select {
			case <-b.look:
			case <-wait.Done():
			}
		}()
		_ = clock.Sleep(wait, b.clock, d.Every)
		cancel()
	}
}

// adopt takes what a discovery found.
func (b *boundary) adopt(ctx context.Context, all []forge.Repository) {
	var found []forge.Repo
	for _, r := range all {
		configured := slices.ContainsFunc(b.configured(), func(c forge.Repo) bool { return strings.EqualFold(c.String(), r.Repo.String()) })
		if configured || !b.cfg.Discover.Serves(r.Repo) {
			continue
		}
		found = append(found, r.Repo)
	}
	b.mu.Lock()
	before := b.found
	b.found = found
	b.mu.Unlock()
	for _, r := range found {
		if !slices.Contains(before, r) {
			b.Log.InfoContext(ctx, "discovered", "repo", r.String())
		}
	}
	for _, r := range before {
		if !slices.Contains(found, r) {
			b.Log.InfoContext(ctx, "discovered no more", "repo", r.String())
		}
	}
	b.remember()
}

// remember sizes the memory of unchanged answers: two feeds and a list a label
// for each repository, and three answers for each issue that is worked on.
func (b *boundary) remember() {
	b.forge.Remember(len(b.repos())*(2+len(b.cfg.Labels.All())) + 1024)
}
