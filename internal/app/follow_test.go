package app_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pipelinebot/pipelinebot/checkpoints"
	"github.com/pipelinebot/pipelinebot/checkpoints/memory"
	"github.com/pipelinebot/pipelinebot/internal/app"
	"github.com/pipelinebot/pipelinebot/internal/forge"
)

// story is a store with a run whose owner writes to it step by step.
type story struct {
	t *testing.T
	*memory.Store
	lease checkpoints.Lease
	seq   int64
}

func (s *story) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Error(err)
	}
}

func (s *story) claim(run checkpoints.Run) {
	s.t.Helper()
	claimed, lease, err := s.Claim(s.t.Context(), run.ID, run.Epoch, "test", time.Hour)
	s.must(err)
	s.lease, s.seq = lease, claimed.Seq
}

func (s *story) commit(node, next string, then func(*checkpoints.Commit)) {
	s.t.Helper()
	s.seq++
	c := checkpoints.Commit{
		Record: checkpoints.NodeRecord{Seq: s.seq, Node: node, Kind: "step", Visit: 1, Outcome: "ok", Next: next},
		Seq:    s.seq, Next: next, State: []byte(`{}`),
	}
	if then != nil {
		then(&c)
	}
	s.must(s.Commit(s.t.Context(), s.lease, c))
}

func (s *story) finish(next *checkpoints.StartReq) {
	s.t.Helper()
	_, err := s.Finish(s.t.Context(), s.lease, checkpoints.Done, next)
	s.must(err)
}

func TestFollow(t *testing.T) {
	t.Parallel()
	ref := forge.Ref{Repo: forge.Repo{Owner: "acme", Name: "widgets"}, Number: 1}
	tests := []struct {
		name string
		// happens while it is followed.
		happens func(s *story)
		nodes   []string
		status  checkpoints.Status // "" for no run
		said    string
	}{
		{
			name:    "decided without a run",
			happens: func(s *story) { s.must(s.Decided(s.t.Context(), "row", "ignore", "the issue is closed")) },
			said:    "ignore",
		},
		{
			name: "two nodes, then it is over",
			happens: func(s *story) {
				run := start(s.t, s.Store, 1)
				s.must(s.Decided(s.t.Context(), "row", "start", ""))
				s.claim(run)
				s.commit("one", "two", nil)
				time.Sleep(time.Second) //nolint:forbidigo // the bubble's clock
				s.commit("two", "", func(c *checkpoints.Commit) { c.Ending = &checkpoints.Ended{Result: "declined"} })
				s.finish(nil)
			},
			nodes: []string{"triage/one", "triage/two"}, status: checkpoints.Done, said: "start",
		},
		{
			name: "the next phase is followed, too, to where a person is needed",
			happens: func(s *story) {
				run := start(s.t, s.Store, 1)
				s.must(s.Decided(s.t.Context(), "row", "start", ""))
				s.claim(run)
				s.commit("one", "", func(c *checkpoints.Commit) { c.Ending = &checkpoints.Ended{Result: "accepted"} })
				s.finish(&checkpoints.StartReq{
					Key: run.Key, Repo: run.Repo, Issue: run.Issue, Phase: "plan", Flow: "plan", Round: 1, Lineage: run.Lineage,
					Entry: "draft", State: []byte(`{}`), Definition: []byte("name: plan"), DefinitionHash: "def",
				})
				runs, err := s.List(s.t.Context(), checkpoints.Filter{Phase: "plan"})
				s.must(err)
				s.claim(runs[0])
				s.commit("draft", "await", func(c *checkpoints.Commit) {
					c.Park = &checkpoints.Wait{Node: "await", Event: "approval", Since: time.Now()}
				})
			},
			nodes: []string{"triage/one", "plan/draft"}, status: checkpoints.Waiting, said: "start",
		},
		{
			name: "a child that waits for a person is where it rests",
			happens: func(s *story) {
				run := start(s.t, s.Store, 1)
				s.must(s.Decided(s.t.Context(), "row", "start", ""))
				s.claim(run)
				child, err := s.Start(s.t.Context(), checkpoints.StartReq{
					Key: run.ID + ":ask:1", Repo: run.Repo, Issue: run.Issue, Phase: "plan", Entry: "ask", Parent: run.ID, ParentNode: "spawn",
				})
				s.must(err)
				s.must(s.Park(s.t.Context(), s.lease, checkpoints.Wait{Node: "spawn", Event: "child/" + child.ID}))
				time.Sleep(time.Minute) //nolint:forbidigo // the bubble's clock
				s.claim(child)
				s.commit("one", "ask", func(c *checkpoints.Commit) { c.Park = &checkpoints.Wait{Node: "ask", Event: "approval"} })
			},
			nodes: []string{"plan/one"}, status: checkpoints.Waiting, said: "start",
		},
		{
			name: "in line behind another issue",
			happens: func(s *story) {
				_, err := s.Start(s.t.Context(), checkpoints.StartReq{Key: "acme/widgets#9", Repo: "acme/widgets", Issue: 9, Entry: "a", Concurrency: "one"})
				s.must(err)
				_, err = s.Start(s.t.Context(), checkpoints.StartReq{Key: "acme/widgets#1", Repo: "acme/widgets", Issue: 1, Phase: "plan", Entry: "a", Concurrency: "one"})
				s.must(err)
				s.must(s.Decided(s.t.Context(), "row", "start", ""))
			},
			status: checkpoints.Queued, said: "start",
		},
		{
			name: "halted",
			happens: func(s *story) {
				run := start(s.t, s.Store, 1)
				s.must(s.Decided(s.t.Context(), "row", "start", ""))
				s.claim(run)
				s.must(s.Halt(s.t.Context(), s.lease, "stopped", "somebody said so"))
			},
			status: checkpoints.Halted, said: "start",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := &story{t: t, Store: memory.New(memory.Options{})}
				// Work that ended before is none of it.
				s.claim(start(t, s.Store, 1))
				s.commit("old", "", func(c *checkpoints.Commit) { c.Ending = &checkpoints.Ended{Result: "declined"} })
				s.finish(nil)
				time.Sleep(time.Minute) //nolint:forbidigo // the bubble's clock
				_, err := s.Receive(t.Context(), checkpoints.InboxEvent{ID: "row", Kind: "manual_run", Body: []byte(`{}`), At: time.Now()})
				s.must(err)
				go func() {
					time.Sleep(time.Minute) //nolint:forbidigo // the bubble's clock
					tt.happens(s)
				}()
				var nodes []string
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				row, run, err := app.Follow(ctx, s, ref, "row", "", func(r checkpoints.Run, n checkpoints.NodeRecord) {
					nodes = append(nodes, r.Phase+"/"+n.Node)
				})
				s.must(err)
				if diff := cmp.Diff(tt.nodes, nodes); diff != "" {
					t.Errorf("nodes (-want +got):\n%s", diff)
				}
				got := checkpoints.Status("")
				if run != nil {
					got = run.Status
				}
				if got != tt.status || row.Decision != tt.said {
					t.Errorf("ended with run %q and decision %q, want %q and %q", got, row.Decision, tt.status, tt.said)
				}
			})
		})
	}
}

func TestFollowIsInterrupted(t *testing.T) {
	t.Parallel()
	s := memory.New(memory.Options{})
	if _, err := s.Receive(t.Context(), checkpoints.InboxEvent{ID: "row", Kind: "manual_run", Body: []byte(`{}`), At: time.Now()}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	enough := errors.New("enough")
	cancel(enough)
	if _, _, err := app.Follow(ctx, s, forge.Ref{}, "row", "", nil); !errors.Is(err, enough) && !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want the interruption", err)
	}
}
