package scenario

import (
	"context"
	"fmt"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/pipelinebot/pipelinebot/internal/mockworld"
)

// note keeps an event and tells the observer.
func (r *running) note(kind, format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.noteLocked(kind, fmt.Sprintf(format, args...))
}

func (r *running) noteLocked(kind, text string) {
	e := Event{At: time.Now(), Kind: kind, Text: text}
	r.events = append(r.events, e)
	if r.o.Observe != nil {
		r.o.Observe(e)
	}
}

// complain keeps what the runner could not do; it makes the scenario fail.
func (r *running) complain(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	text := fmt.Sprintf(format, args...)
	r.trouble = append(r.trouble, text)
	r.noteLocked("trouble", text)
}

// onRequest sees each request to the world, before and after.
func (r *running) onRequest(ctx context.Context) mockworld.Hook {
	return func(stage mockworld.Stage, req mockworld.Request) {
		for _, d := range r.deaths {
			if d.strikes(stage, req) {
				r.note("bot", "fault %s strikes %s its request %s %s", d.name, stage, req.Method, req.Path)
				r.bots.killed(ctx, d.fault.StayDown)
			}
		}
		if writes(req) {
			if stage == mockworld.Before && !notices(req) {
				r.outside("%s %s", req.Method, req.Path)
			}
			if r.reached(ctx, "request", string(stage), requestName(req)) && stage == mockworld.Before {
				panic(http.ErrAbortHandler) // a dead client's request is not handled after all
			}
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		now := time.Now()
		r.heard = now
		if writes(req) {
			r.active = now
		}
		if stage == mockworld.After {
			r.noteLocked("request", fmt.Sprintf("%s %s %d", req.Method, req.Path, req.Status))
		}
	}
}

// writes tells requests that change something from polls.
func writes(r mockworld.Request) bool {
	return r.Method != "GET" && r.Method != "HEAD" && !strings.HasSuffix(r.Path, "git-upload-pack")
}

// watchModel notes requests to the model as they come and go.
func (r *running) watchModel(ctx context.Context) {
	seen, done := 0, map[int]bool{}
	for {
		changed := r.model.Changed()
		records := r.model.Records()
		r.mu.Lock()
		for i, rec := range records {
			if i >= seen {
				r.active = time.Now()
				r.noteLocked("model", fmt.Sprintf("%s asked, request %d, turn %d", rec.Prompt, rec.Nth, rec.Turn))
			}
			if rec.Done && !done[i] {
				done[i] = true
				r.active = time.Now()
				r.noteLocked("model", fmt.Sprintf("%s request %d ended: status %d, cancelled %v", rec.Prompt, rec.Nth, rec.Status, rec.Cancelled))
			}
		}
		seen = len(records)
		r.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

// look gathers everything that claims are about.
func (r *running) look(ctx context.Context) (Seen, error) {
	snap, err := r.world.Snapshot()
	if err != nil {
		return Seen{}, err
	}
	_, _, starts := r.bots.state()
	s := Seen{
		Repo: r.s.World.Repos[0].Name, Bot: r.bots.bot.Login, World: snap,
		Requests: r.world.Requests(), Deliveries: r.world.Deliveries(),
		Model: r.model.Records(), ModelViolations: r.model.Violations(),
		Starts: starts, Files: map[string]string{},
	}
	s.Runs, err = r.runs(ctx)
	if err != nil {
		return s, fmt.Errorf("reading the bot's runs: %w", err)
	}
	r.mu.Lock()
	s.Trouble = append([]string(nil), r.trouble...)
	r.mu.Unlock()
	r.files(ctx, &s)
	return s, nil
}

// runs reads the program's books, not more often than it can bear.
func (r *running) runs(ctx context.Context) ([]RunView, error) {
	const every = 150 * time.Millisecond
	r.mu.Lock()
	if time.Since(r.runsAt) < every {
		defer r.mu.Unlock()
		return r.runCache, nil
	}
	r.mu.Unlock()
	runs, err := r.bots.runs(ctx)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.runCache, r.runsAt = runs, time.Now()
	return runs, nil
}

// files reads what claims about content need, straight from the repository.
func (r *running) files(ctx context.Context, s *Seen) {
	for _, w := range r.s.Expect.Pulls {
		repo := w.Repo
		if repo == "" {
			repo = s.Repo
		}
		dir := filepath.Join(r.worldDir(), "git", filepath.FromSlash(strings.ToLower(repo))+".git")
		for path := range w.Content {
			for _, p := range s.repo(repo).Pulls {
				out, err := exec.CommandContext(ctx, "git", "--git-dir="+dir, "show", p.HeadSHA+":"+path).Output()
				if err == nil { // a file that is not there has no content
					s.Files[fmt.Sprintf("%s#%d:%s", repo, p.Number, path)] = string(out)
				}
			}
		}
	}
}
