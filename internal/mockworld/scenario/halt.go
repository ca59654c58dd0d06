package scenario

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/pipelinebot/pipelinebot/internal/mockworld"
)

// StopAt is a stop by a person in the middle of a story.
type StopAt struct {
	At Point `json:"at"`
	// All stops the whole repository instead of the issue.
	All bool `json:"all"`
}

const (
	// stopGrace is how long the bot may take from hearing of a stop until it
	// does nothing more outside; stopWatch how long it is then watched.
	stopGrace = 2 * time.Second
	stopWatch = 1200 * time.Millisecond
)

// haltedAt is a stop in force.
type haltedAt struct {
	repo  string
	issue int
	by    string
	label string
	done  bool
}

// act is something that the bot did outside, where others see or pay it.
type outsideAct struct {
	at   time.Time
	what string
}

// stopLabel is the label as the bot's configuration names it.
func (s *Scenario) stopLabel(all bool) string {
	key, label := "stop", "pipeline:stop"
	if all {
		key, label = "stop_all", "pipeline:stop-all"
	}
	if labels, ok := s.Bot.Config["labels"].(map[string]any); ok {
		if own, ok := labels[key].(string); ok {
			return own
		}
	}
	return label
}

// Stopper is who stops and lifts: the account with the highest role in the
// first repository that is no bot; "" when nobody may.
func (s *Scenario) Stopper() string {
	best, who := 0, ""
	ranks := []string{"", "triage", "write", "maintain", "admin"}
	if len(s.World.Repos) == 0 {
		return ""
	}
	for login, role := range s.World.Repos[0].Roles {
		n := slices.Index(ranks, role)
		if n < 1 || login == BotLogin || strings.HasSuffix(login, "[bot]") || s.World.Users[login] == "bot" {
			continue
		}
		if n > best || n == best && login < who {
			best, who = n, login
		}
	}
	if best < 2 {
		return "" // lifting needs more than triage
	}
	return who
}

// stopIssue is the first one that somebody labels.
func (s *Scenario) stopIssue() int {
	for _, st := range s.Timeline {
		if st.Do.Label != "" {
			return max(st.Issue, 1)
		}
	}
	return 1
}

// halt puts the stop label on, in the middle of whatever is under way, and
// lets the stop be watched and lifted meanwhile.
func (r *running) halt(ctx context.Context, p Point) {
	h := &haltedAt{repo: r.s.World.Repos[0].Name, issue: r.s.stopIssue(), by: r.s.Stopper(), label: r.s.stopLabel(r.o.Stop.All)}
	r.mu.Lock()
	r.halted = h
	r.mu.Unlock()
	r.note("step", "%s puts %s on %s", h.by, h.label, p)
	if err := r.world.Label(h.repo, h.issue, h.by, h.label); err != nil {
		r.complain("stopping: %v", err)
		r.release(h)
		return
	}
	r.bots.wg.Go(func() {
		defer r.release(h)
		if err := r.watchHalt(ctx, h); err != nil && ctx.Err() == nil {
			r.complain("%s, stopped %s: %v", h.label, p, err)
		}
	})
}

// release ends the pause of the people.
func (r *running) release(h *haltedAt) {
	r.mu.Lock()
	defer r.mu.Unlock()
	h.done = true
}

// watchHalt sees that a stop holds, and lifts it.
func (r *running) watchHalt(ctx context.Context, h *haltedAt) error {
	if err := r.heardOf(ctx, h); err != nil {
		return err
	}
	if err := pause(ctx, stopGrace); err != nil {
		return err
	}
	from := time.Now()
	if err := pause(ctx, stopWatch); err != nil {
		return err
	}
	r.mu.Lock()
	var done []string
	for _, a := range r.acts {
		if a.at.After(from) {
			done = append(done, a.what)
		}
	}
	r.mu.Unlock()
	if len(done) > 0 {
		return fmt.Errorf("it went on outside %s after it heard of the stop: %s", stopGrace, strings.Join(done, "; "))
	}
	runs, err := r.bots.runs(ctx)
	if err != nil {
		return err
	}
	for _, v := range runs {
		if v.Status == "running" || v.Status == "ready" {
			return fmt.Errorf("the run of %s is still %s", v.Phase, v.Status)
		}
	}
	r.model.Rewind() // what was under way begins anew
	r.note("step", "%s takes %s off", h.by, h.label)
	return r.world.Unlabel(h.repo, h.issue, h.by, h.label)
}

// heardOf waits until the bot was told of the label, by a webhook or a poll.
func (r *running) heardOf(ctx context.Context, h *haltedAt) error {
	const longest = 10 * time.Second
	put := time.Now()
	for time.Since(put) < longest {
		for _, d := range slices.Backward(r.world.Deliveries()) {
			if deliveryName(d) == "issues.labeled" && d.Done && d.Status/100 == 2 && strings.Contains(d.Payload, `"name":"`+h.label+`"`) {
				return nil
			}
		}
		// Two polls go by at the latest.
		if time.Since(put) > 3200*time.Millisecond {
			return nil
		}
		if err := pause(ctx, tick); err != nil {
			return err
		}
	}
	return nil
}

func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// paused waits while a stop is in force and reports that there was one.
func (r *running) paused(ctx context.Context) bool {
	waited := false
	for !r.lifted() && pause(ctx, tick) == nil {
		waited = true
	}
	return waited
}

func (r *running) lifted() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.halted == nil || r.halted.done
}

// calm reports that nothing of the variant is under way.
func (r *running) calm() bool { return r.lifted() && r.shuffled.idle() }

// outside keeps what the bot does where others see it.
func (r *running) outside(format string, args ...any) {
	if r.o.Stop == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.acts = append(r.acts, outsideAct{time.Now(), fmt.Sprintf(format, args...)})
}

var ownNotices = regexp.MustCompile(`/issues/\d+/labels`)

// notices are the writes by which the bot says that it has stopped: its status
// comment and its labels.
func notices(q mockworld.Request) bool {
	return ownNotices.MatchString(q.Path) || strings.Contains(q.Path, "/comments") && strings.Contains(q.Body, "pipelinebot:status")
}

// withoutKept leaves out the branches on which a stop kept unfinished work.
func (r *running) withoutKept(s Seen) Seen {
	if r.o.Stop == nil {
		return s
	}
	repos := maps.Clone(s.World.Repos)
	for name, repo := range repos {
		repo.Branches = maps.Clone(repo.Branches)
		maps.DeleteFunc(repo.Branches, func(branch string, _ mockworld.BranchState) bool { return strings.Contains(branch, "/wip/") })
		repos[name] = repo
	}
	s.World.Repos = repos
	return s
}

// normal is Normal without what a stop leaves behind on purpose: its label,
// and the branch on which unfinished work was kept.
func (r *running) normal(s Seen) []string {
	all := Normal(r.withoutKept(s))
	if r.o.Stop == nil {
		return all
	}
	label := r.s.stopLabel(r.o.Stop.All)
	return slices.DeleteFunc(all, func(line string) bool {
		return strings.HasPrefix(line, "label of ") && strings.HasSuffix(line, ": "+label)
	})
}

// MayStop reports that a stop at this point stops work under way: a model call,
// a command, a write that others see, a node's commit. Elsewhere a stop meets
// what has not begun, and is rightly answered with a refusal instead.
func (p Point) MayStop() bool {
	switch p.Kind {
	case "model", "command":
		return true
	case "commit":
		return p.Name == "Commit"
	case "request":
		return p.Stage == "before" && !ownNotices.MatchString(p.Name)
	}
	return false
}

// UsesStop reports that a story stops something itself.
func (s *Scenario) UsesStop() bool {
	one, all := s.stopLabel(false), s.stopLabel(true)
	for _, st := range s.Timeline {
		if l := st.Do.Label; l == one || l == all || strings.Contains(st.Do.Comment, "/pipeline stop") {
			return true
		}
	}
	return false
}
