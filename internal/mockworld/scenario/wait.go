package scenario

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/pipelinebot/pipelinebot/internal/mockworld"
)

// await blocks until a condition holds; the error says what was waited for.
func (r *running) await(ctx context.Context, st Step) error {
	from := time.Now()
	t := time.NewTicker(tick / 2)
	defer t.Stop()
	for {
		ok, missing, err := r.holds(ctx, st, from)
		if err == nil && ok {
			return nil
		}
		lost := r.hopeless()
		if lost == nil && r.model.InFlight("") == 0 {
			lost = r.stuck()
		}
		if lost != nil {
			return fmt.Errorf("while waiting for %s: %w", missing, lost)
		}
		select {
		case <-t.C:
		case <-ctx.Done():
			if err != nil {
				return err
			}
			return fmt.Errorf("waited in vain for %s: %w", missing, context.Cause(ctx))
		}
	}
}

// holds judges a condition; missing names the first part that does not hold.
func (r *running) holds(ctx context.Context, st Step, from time.Time) (ok bool, missing string, err error) {
	w := st.After
	if w.Elapsed > 0 && time.Since(from) < w.Elapsed {
		return false, "elapsed " + w.Elapsed.String(), nil
	}
	if w.BotExited {
		if _, exited, _ := r.bots.state(); !exited {
			return false, "the bot to end by itself", nil
		}
	}
	if w.Quiet > 0 {
		r.mu.Lock()
		quiet := time.Since(r.active) >= w.Quiet && time.Since(from) >= w.Quiet
		r.mu.Unlock()
		if !quiet || r.model.InFlight("") > 0 {
			return false, "quiet for " + w.Quiet.String(), nil
		}
	}
	if m := w.Model; m != nil && !r.asked(*m) {
		return false, fmt.Sprintf("model request %d of %s", max(m.Nth, 1), m.Prompt), nil
	}
	if rw := w.Run; rw != nil {
		found, err := r.runIs(ctx, *rw)
		if !found {
			return false, fmt.Sprintf("a run of %s that is %s", rw.Phase, rw.Status), err
		}
	}
	if q := w.Request; q != nil {
		n, _ := matching(Seen{Requests: r.world.Requests()}, RequestWant{Method: q.Method, Path: q.Path})
		if n < max(q.Count, 1) {
			return false, fmt.Sprintf("%d requests %s %s (%d so far)", max(q.Count, 1), q.Method, q.Path, n), nil
		}
	}
	return r.worldHolds(st)
}

func (r *running) asked(m ModelWhen) bool {
	prompt, _, _ := strings.Cut(m.Prompt, "@")
	for _, rec := range r.model.Records() {
		if rec.Prompt == prompt && rec.Nth == max(m.Nth, 1) && (!m.InFlight || !rec.Done) {
			return true
		}
	}
	return false
}

func (r *running) runIs(ctx context.Context, w RunWhen) (bool, error) {
	runs, err := r.runs(ctx)
	for _, v := range runs {
		if v.Phase == w.Phase && (w.Status == "" || v.Status == w.Status) && (w.Node == "" || v.Nodes[w.Node] > 0) {
			return true, nil
		}
	}
	return false, err
}

func (r *running) worldHolds(st Step) (ok bool, missing string, err error) {
	w := st.After
	if w.Label+w.NoLabel+w.Comment+w.Status+w.Pull+w.Branch == "" && w.Reviews == 0 {
		return true, "", nil
	}
	snap, err := r.world.Snapshot()
	if err != nil {
		return false, "the world", err
	}
	s := Seen{Repo: r.s.World.Repos[0].Name, Bot: r.bots.bot.Login, World: snap}
	issue, _ := s.issue(st.Repo, st.Issue)
	has := func(want string, status bool) bool {
		for _, c := range issue.Comments {
			if s.isStatus(c) == status && strings.Contains(c.Body, want) {
				return true
			}
		}
		return false
	}
	p, found := newestPull(s.repo(st.Repo))
	branch := false
	for name := range s.repo(st.Repo).Branches {
		branch = branch || strings.Contains(name, w.Branch)
	}
	for _, part := range []struct {
		ok   bool
		what string
	}{
		{w.Label == "" || hasFold(issue.Labels, w.Label), fmt.Sprintf("label %s (there are: %s)", w.Label, list(issue.Labels))},
		{w.NoLabel == "" || !hasFold(issue.Labels, w.NoLabel), "label " + w.NoLabel + " to go"},
		{w.Comment == "" || has(w.Comment, false), fmt.Sprintf("a comment with %q", w.Comment)},
		{w.Status == "" || has(w.Status, true), fmt.Sprintf("a status comment with %q", w.Status)},
		{w.Pull == "" || (found && pullState(p) == w.Pull), "a pull request that is " + w.Pull},
		{w.Branch == "" || branch, fmt.Sprintf("a branch with %q", w.Branch)},
		{len(p.Reviews) >= w.Reviews, fmt.Sprintf("%d reviews", w.Reviews)},
	} {
		if !part.ok {
			return false, part.what, nil
		}
	}
	return true, "", nil
}

func newestPull(r mockworld.RepoState) (mockworld.PullState, bool) {
	var newest mockworld.PullState
	for _, p := range r.Pulls {
		if p.Number > newest.Number {
			newest = p
		}
	}
	return newest, newest.Number > 0
}

// planCommand is how a plan comment tells people to approve it.
var planCommand = regexp.MustCompile(`/pipeline approve ([0-9a-f]{6,64})`)

// planHash is the hash in the newest plan comment of the bot.
func planHash(bot string, i mockworld.IssueState) (string, bool) {
	hash := ""
	for _, c := range i.Comments {
		if m := planCommand.FindStringSubmatch(c.Body); m != nil && c.Author == bot {
			hash = m[1]
		}
	}
	return hash, hash != ""
}
