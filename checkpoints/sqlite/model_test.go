package sqlite_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/pipelinebot/pipelinebot/checkpoints"
	"github.com/pipelinebot/pipelinebot/checkpoints/memory"
	"github.com/pipelinebot/pipelinebot/checkpoints/sqlite"
	"github.com/pipelinebot/pipelinebot/internal/clock"
	"github.com/pipelinebot/pipelinebot/internal/queue"
)

// side is one of two stores that must do the same.
type side struct {
	checkpoints.Store
	ids    []string // of runs, in order of creation
	leases []checkpoints.Lease
	held   []checkpoints.Reservation
	tokens []queue.Token
}

func (s *side) lease(i int) checkpoints.Lease { return s.leases[i%len(s.leases)] }
func (s *side) id(i int) string               { return s.ids[i%len(s.ids)] }

// known replaces ids, which are random, by the order of creation.
func (s *side) known(id string) string {
	for i, known := range s.ids {
		if known == id {
			return fmt.Sprintf("run %d", i)
		}
	}
	return id
}

// childKey is a key without the random id of the parent in it.
func (s *side) childKey(r checkpoints.Run) string {
	return strings.Replace(r.Key, r.Parent, s.known(r.Parent), 1)
}

// words replaces the id at the end of a reason.
func (s *side) words(reason string) string {
	i := strings.LastIndex(reason, " ") + 1
	return reason[:i] + s.known(reason[i:])
}

// learn keeps the id of a run that may be new.
func (s *side) learn(id string) {
	if id != "" && s.known(id) == id {
		s.ids = append(s.ids, id)
	}
}

// class is what callers decide by.
func class(err error) string {
	for _, c := range []error{checkpoints.ErrLost, checkpoints.ErrBusy, checkpoints.ErrNotFound, checkpoints.ErrConflict, checkpoints.ErrBudget} {
		if errors.Is(err, c) {
			return c.Error()
		}
	}
	if err != nil {
		return "invalid"
	}
	return "ok"
}

// view is all that can be seen of a store.
func (s *side) view(ctx context.Context) (out []any) {
	runs, err := s.List(ctx, checkpoints.Filter{Limit: 1000})
	out = append(out, class(err))
	for _, r := range runs {
		history, err := s.History(ctx, r.ID)
		pending, err2 := s.Pending(ctx, r.ID, "approval")
		branches, err3 := s.Branches(ctx, r.ID)
		audits, err4 := s.Audits(ctx, r.ID)
		for i := range audits {
			audits[i].RunID = s.known(audits[i].RunID)
		}
		r.ID, r.Lineage = s.known(r.ID), s.known(r.Lineage)
		r.Key, r.Parent, r.Replaces, r.Reason = s.childKey(r), s.known(r.Parent), s.known(r.Replaces), s.words(r.Reason)
		out = append(out, r, history, class(err), pending, class(err2), branches, class(err3), audits, class(err4))
	}
	tokens := []string{} // a queue gives them in any order
	for _, t := range s.tokens {
		tokens = append(tokens, fmt.Sprint(t.Kind, s.known(t.ID), t.Epoch))
	}
	s.tokens = nil
	slices.Sort(tokens)
	out = append(out, tokens)
	run, issue, day, err := s.Spent(ctx, s.id(0), "acme/widgets", 1, time.Time{})
	return append(out, run, issue, day, class(err))
}

// op is one call with its arguments drawn.
type op func(ctx context.Context, s *side) (any, error)

// draw picks an operation.
func draw(t *rapid.T, now time.Time) (string, op) {
	i := rapid.IntRange(0, 30).Draw(t, "index")
	key := rapid.SampledFrom([]string{"k1", "k2", "k3"}).Draw(t, "key")
	small := rapid.Int64Range(0, 3).Draw(t, "small")
	req := checkpoints.StartReq{Key: key, Repo: "acme/widgets", Issue: 1, Entry: "a"}
	if small == 0 {
		req.Trigger = "trigger/" + key
	}
	policy := rapid.SampledFrom([]string{"", "", "queue", "replace", "reject"}).Draw(t, "policy")
	if policy != "" {
		req.Concurrency, req.OnConflict = "c", policy
	}
	child := rapid.IntRange(0, 3).Draw(t, "child") == 0
	start := func(s *side) checkpoints.StartReq {
		q := req
		if child {
			q.Parent, q.Counted = s.id(i), small > 1
			q.Key = "child of " + s.id(i) + key
		}
		return q
	}
	keep := rapid.IntRange(0, 2).Draw(t, "keep")
	wait := checkpoints.Wait{Node: "b", Since: now}
	if small%2 == 0 {
		wait.Event = "approval"
	}
	if small > 1 {
		wait.Until = now.Add(time.Duration(small) * time.Minute)
	}
	ended := checkpoints.Ended{Result: "r", Code: "c", Reason: key}
	ops := map[string]op{
		"start": func(ctx context.Context, s *side) (any, error) {
			r, err := s.Start(ctx, start(s))
			s.learn(r.ID)
			return s.known(r.ID), err
		},
		"claim": func(ctx context.Context, s *side) (any, error) {
			id := s.id(i)
			r, err := s.Get(ctx, id)
			if err != nil {
				return nil, err
			}
			_, l, err := s.Claim(ctx, id, r.Epoch-small/3, "w"+key, time.Minute)
			if err == nil {
				s.leases = append(s.leases, l)
			}
			return nil, err
		},
		"commit": func(ctx context.Context, s *side) (any, error) {
			r, err := s.Get(ctx, s.lease(i).RunID)
			if err != nil {
				return nil, err
			}
			c := checkpoints.Commit{
				Record: checkpoints.NodeRecord{Node: "a", Outcome: "ok", Began: now, Took: time.Second},
				Seq:    r.Seq + 1, Next: "b", State: json.RawMessage(`{"k":"` + key + `"}`), Visits: map[string]int{"a": 1},
			}
			switch small {
			case 1:
				c.Park = &wait
			case 2:
				c.Next, c.Ending = "", &ended
			case 3:
				c.EventKey = "comment/" + key
			}
			return nil, s.Commit(ctx, s.lease(i), c)
		},
		"park":    func(ctx context.Context, s *side) (any, error) { return nil, s.Park(ctx, s.lease(i), wait) },
		"halt":    func(ctx context.Context, s *side) (any, error) { return nil, s.Halt(ctx, s.lease(i), "c", key) },
		"end":     func(ctx context.Context, s *side) (any, error) { return nil, s.End(ctx, s.lease(i), ended) },
		"renew":   func(ctx context.Context, s *side) (any, error) { return nil, s.Renew(ctx, s.lease(i), time.Minute) },
		"release": func(ctx context.Context, s *side) (any, error) { return nil, s.Release(ctx, s.lease(i)) },
		"finish": func(ctx context.Context, s *side) (any, error) {
			var next *checkpoints.StartReq
			if small > 0 {
				q := start(s)
				next = &q
			}
			r, err := s.Finish(ctx, s.lease(i), checkpoints.Done, next)
			if r == nil {
				return "none", err
			}
			s.learn(r.ID)
			return s.known(r.ID), err
		},
		"wake":   func(ctx context.Context, s *side) (any, error) { return nil, s.Wake(ctx, s.id(i)) },
		"cancel": func(ctx context.Context, s *side) (any, error) { return nil, s.Cancel(ctx, s.id(i), ended) },
		"deliver": func(ctx context.Context, s *side) (any, error) {
			return s.Deliver(ctx, s.id(i), checkpoints.Event{Key: "comment/" + key, Kind: "approval", Data: json.RawMessage(`{}`)})
		},
		"sweep": func(ctx context.Context, s *side) (any, error) {
			return s.Sweep(ctx, time.Duration(small)*time.Minute)
		},
		"expire": func(ctx context.Context, s *side) (any, error) { return nil, s.ExpireAll(ctx) },
		"prune": func(ctx context.Context, s *side) (any, error) {
			return s.Prune(ctx, checkpoints.Retention{Before: now.Add(-time.Duration(small) * time.Minute), Keep: keep})
		},
		"branch": func(ctx context.Context, s *side) (any, error) {
			return nil, s.PutBranch(ctx, s.lease(i), checkpoints.BranchRecord{Fanout: "f", Visit: int(small), Branch: key, Began: now})
		},
		"audit": func(ctx context.Context, s *side) (any, error) {
			return nil, s.AddAudit(ctx, checkpoints.AuditLine{RunID: s.id(i), By: key, What: "approve"})
		},
		"accept": func(ctx context.Context, s *side) (any, error) {
			return nil, s.Accept(ctx, s.id(i), map[string]string{"a": key}, "ann")
		},
		"reserve": func(ctx context.Context, s *side) (any, error) {
			limit := int64(5)
			r, err := s.Reserve(ctx, s.lease(i), "a", checkpoints.Usage{MicroUSD: small}, checkpoints.Limits{
				Issue: checkpoints.Limit{MicroUSD: &limit}, Ancestors: map[string]checkpoints.Limit{s.id(int(small)): {MicroUSD: &limit}},
			})
			if err == nil {
				s.held = append(s.held, r)
			}
			return nil, err
		},
		"settle": func(ctx context.Context, s *side) (any, error) {
			if len(s.held) == 0 {
				return nil, nil
			}
			return nil, s.Settle(ctx, s.held[i%len(s.held)], checkpoints.Usage{MicroUSD: small / 2, ToolCalls: small})
		},
	}
	names := []string{"start", "claim", "claim", "commit", "commit", "park", "halt", "end", "renew", "release", "finish", "finish",
		"wake", "cancel", "deliver", "deliver", "sweep", "sweep", "expire", "prune", "reserve", "settle",
		"start", "branch", "audit", "accept"}
	name := rapid.SampledFrom(names).Draw(t, "op")
	return name, ops[name]
}

// Whatever is called in whatever order, the file and the memory answer alike
// and hold the same.
func TestSameAsInMemory(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	rapid.Check(t, func(rt *rapid.T) {
		clk := clock.NewFake(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
		mem, file := &side{}, &side{}
		mem.Store = memory.New(memory.Options{Clock: clk, Enqueue: func(tok queue.Token) { mem.tokens = append(mem.tokens, tok) }})
		path := filepath.Join(dir, "runs.db")
		for _, suffix := range []string{"-wal", "-shm"} {
			_ = os.Remove(path + suffix)
		}
		sqlite.Fresh(t, path)
		s, err := sqlite.Open(t.Context(), sqlite.Options{Path: path, Clock: clk, Synchronous: sqlite.Normal})
		if err != nil {
			rt.Fatal(err)
		}
		defer s.Close()
		s.SetEnqueuer(func(_ context.Context, _ *sql.Tx, tok queue.Token) error {
			file.tokens = append(file.tokens, tok)
			return nil
		})
		file.Store = s
		for _, x := range []*side{mem, file} { // so that there is something to work on
			r, err := x.Start(t.Context(), checkpoints.StartReq{Key: "k0", Repo: "acme/widgets", Issue: 1, Entry: "a"})
			if err != nil {
				rt.Fatal(err)
			}
			x.learn(r.ID)
			_, l, err := x.Claim(t.Context(), r.ID, r.Epoch, "w", time.Minute)
			if err != nil {
				rt.Fatal(err)
			}
			x.leases = append(x.leases, l)
		}
		for range rapid.IntRange(1, 40).Draw(rt, "calls") {
			clk.Advance(time.Duration(rapid.Int64Range(0, 40).Draw(rt, "seconds")) * time.Second)
			name, call := draw(rt, clk.Now())
			want, wantErr := call(t.Context(), mem)
			got, gotErr := call(t.Context(), file)
			if diff := cmp.Diff([]any{want, class(wantErr)}, []any{got, class(gotErr)}); diff != "" {
				rt.Fatalf("%s (-memory +file):\n%s\nmemory: %v\nfile: %v", name, diff, wantErr, gotErr)
			}
			if diff := cmp.Diff(mem.view(t.Context()), file.view(t.Context())); diff != "" {
				rt.Fatalf("after %s (-memory +file):\n%s", name, diff)
			}
		}
	})
}
