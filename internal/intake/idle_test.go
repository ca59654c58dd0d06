package intake_test

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/pipelinebot/pipelinebot/checkpoints/memory"
	"github.com/pipelinebot/pipelinebot/internal/clock"
	"github.com/pipelinebot/pipelinebot/internal/forge"
	"github.com/pipelinebot/pipelinebot/internal/gh"
	"github.com/pipelinebot/pipelinebot/internal/intake"
	"github.com/pipelinebot/pipelinebot/internal/mockworld"
	"github.com/pipelinebot/pipelinebot/internal/secret"
	"github.com/pipelinebot/pipelinebot/labels"
)

// Polling 100 repositories with nothing new spends none of the primary quota
// after the first round, and stays below the secondary limits from the first
// request on, against a world that enforces the documented ones. It prints what
// docs/scale.md explains.
func TestIdlePollingOfAHundredRepositoriesIsFree(t *testing.T) {
	t.Parallel()
	const repositories, perMinute = 100, 600
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	limits := mockworld.DefaultLimits()
	clk := &stepped{Fake: clock.NewFake(start)}
	world, err := mockworld.New(mockworld.Options{Clock: clk, Dir: t.TempDir(), Limits: &limits})
	must(err)
	base, _, err := world.Serve(t.Context(), "127.0.0.1:0")
	must(err)
	must(world.AddUser("acme", mockworld.Organization))
	repos := make([]forge.Repo, repositories)
	for i := range repos {
		repos[i] = forge.Repo{Owner: "acme", Name: fmt.Sprintf("repo-%d", i)}
		must(world.AddRepo(mockworld.RepoSpec{
			Owner: "acme", Name: repos[i].Name, Files: map[string]string{"README.md": "# One\n"},
			Roles: map[string]mockworld.Role{"ann": mockworld.RoleAdmin, "bot": mockworld.RoleWrite},
		}))
		if i%4 == 0 { // with some history
			n, err := world.AddIssue(mockworld.IssueSpec{Repo: repos[i].String(), Author: "ann", Title: "It breaks", Body: "text"})
			must(err)
			must(world.Label(repos[i].String(), n, "ann", "pipeline:triage"))
			_, err = world.Comment(repos[i].String(), n, "ann", "hello")
			must(err)
		}
	}
	must(world.AddToken(mockworld.TokenSpec{Token: "tok-bot", Login: "bot"}))
	client, err := gh.New(gh.Options{BaseURL: base + "/api/v3/", Token: secret.New("tok-bot"), Clock: clk})
	must(err)
	t.Cleanup(func() {
		client.Close()
		must(world.Close())
	})
	names := labels.Default().All()
	client.Remember(repositories*(2+len(names)) + 1024)
	poller := intake.NewPoller(intake.PollerOptions{
		Source: client, Inbox: memory.New(memory.Options{}), Labels: names, Clock: clk, RequestsPerMinute: perMinute,
		Interest: func(context.Context) ([]forge.Ref, error) { return nil, nil },
		Repos:    func(context.Context) ([]forge.Repo, error) { return repos, nil },
	})

	type round struct{ requests, spent, refused int }
	total := []mockworld.Request{}
	one := func() (r round) {
		before := len(total)
		must(poller.Round(t.Context()))
		total = world.Requests()
		for _, q := range total[before:] {
			r.requests++
			if q.Status != http.StatusNotModified {
				r.spent++
			}
			if q.Status >= 400 {
				r.refused++
			}
		}
		return r
	}
	first := one()
	began := clk.Now()
	var quiet round
	const rounds = 20 // each repository is swept once
	fewest, most := 1<<30, 0
	for i := range rounds {
		r := one()
		if r.spent != 0 {
			t.Fatalf("round %d: %d of %d requests cost primary quota", i+2, r.spent, r.requests)
		}
		quiet.requests, quiet.refused = quiet.requests+r.requests, quiet.refused+r.refused
		fewest, most = min(fewest, r.requests), max(most, r.requests)
		clk.Advance(30 * time.Second)
	}
	if first.refused+quiet.refused != 0 {
		t.Errorf("%d requests were refused", first.refused+quiet.refused)
	}
	// In any minute of the world's clock, no more than the pace.
	peak := 0
	for i, j := 0, 0; j < len(total); j++ {
		for total[j].At.Sub(total[i].At) >= time.Minute {
			i++
		}
		peak = max(peak, j-i+1)
	}
	if peak > perMinute {
		t.Errorf("%d points in a minute, above the pace of %d", peak, perMinute)
	}
	average := float64(quiet.requests) / rounds
	t.Logf("%d repositories, %d labels", repositories, len(names))
	t.Logf("first round: %d requests, %d of the primary quota, done after %s", first.requests, first.spent, began.Sub(start))
	t.Logf("quiet rounds: %.1f requests on average (2 feeds a repository, and %d lists of a twentieth of them), %d to %d; 0 of the primary quota",
		average, len(names), fewest, most)
	t.Logf("points a minute: %.0f at an interval of 30 s, %d at the peak, of 900", average*2, peak)
}

// stepped is a clock whose sleepers are woken at once, by moving it on.
type stepped struct {
	*clock.Fake
	mu sync.Mutex
}

func (s *stepped) NewTimer(d time.Duration) clock.Timer {
	s.mu.Lock()
	defer s.mu.Unlock()
	timer := s.Fake.NewTimer(d)
	s.Fake.Advance(d)
	return timer
}
