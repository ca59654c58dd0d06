package sqlite

import (
	"errors"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pipelinebot/pipelinebot/checkpoints"
)

// walk uses every call that a daemon with many parked runs makes all day, and
// has the store prepare their statements.
func walk(t *testing.T, s *Store) {
	t.Helper()
	ctx := t.Context()
	ok := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	r, err := s.Start(ctx, checkpoints.StartReq{
		Key: "k", Trigger: "t", Repo: "a/b", Issue: 1, Flow: "f", DefinitionHash: "h", Concurrency: "c", Entry: "a", State: []byte(`{"n":1}`),
	})
	ok(err)
	child, err := s.Start(ctx, checkpoints.StartReq{Key: "child", Parent: r.ID, Counted: true})
	ok(err)
	_, l, err := s.Claim(ctx, r.ID, r.Epoch, "w", time.Minute)
	ok(err)
	_, cl, err := s.Claim(ctx, child.ID, child.Epoch, "w", time.Minute)
	ok(err)
	lim := checkpoints.Limits{Ancestors: map[string]checkpoints.Limit{r.ID: {}}}
	res, err := s.Reserve(ctx, cl, "a", checkpoints.Usage{MicroUSD: 1}, lim)
	ok(err)
	ok(s.Settle(ctx, res, checkpoints.Usage{}))
	ok(s.Renew(ctx, l, time.Minute))
	ok(s.PutBranch(ctx, l, checkpoints.BranchRecord{Fanout: "f", Branch: "b"}))
	parks := step(1, 1)
	parks.Park = &checkpoints.Wait{Node: "b", Event: "approval"}
	ok(s.Commit(ctx, l, parks))
	_, err = s.Deliver(ctx, r.ID, checkpoints.Event{Key: "e", Kind: "approval"})
	ok(err)
	_, l, err = s.Claim(ctx, r.ID, l.Fence, "w", time.Minute)
	ok(err)
	takes := step(2, 1)
	takes.EventKey = "e"
	ok(s.Commit(ctx, l, takes))
	ok(s.Halt(ctx, l, "c", "r"))
	ok(s.Wake(ctx, r.ID))
	ok(s.Cancel(ctx, r.ID, checkpoints.Ended{}))
	_, l, err = s.Claim(ctx, r.ID, l.Fence, "w", time.Minute)
	ok(err)
	_, err = s.Finish(ctx, l, checkpoints.Done, nil)
	ok(err)
	_, err = s.Receive(ctx, checkpoints.InboxEvent{ID: "e", Delivery: "d", Key: "k"})
	ok(err)
	ok(s.Decided(ctx, "e", "ignore", ""))
	ok(s.ExpireAll(ctx))
	_, err = s.Sweep(ctx, time.Hour)
	ok(err)
	_, err = s.Prune(ctx, checkpoints.Retention{Before: time.Unix(0, 0), Keep: 1})
	ok(err)
}

// What is asked of one parent's children goes by the index on parents.
func TestChildrenAreFoundByIndex(t *testing.T) {
	t.Parallel()
	s := openStore(t)
	where, args := selected(checkpoints.Filter{Parent: "p", Statuses: []checkpoints.Status{checkpoints.Ready, checkpoints.Waiting}})
	var id, parent, unused int
	var detail string
	row := s.reads.QueryRowContext(t.Context(), "EXPLAIN QUERY PLAN SELECT r.id FROM runs r"+where, args...)
	if err := row.Scan(&id, &parent, &unused, &detail); err != nil || !strings.Contains(detail, "INDEX runs_parent") {
		t.Errorf("plan: %s, %v", detail, err)
	}
}

// scans matches a step of a plan that reads all rows of a table.
var scans = regexp.MustCompile(`^SCAN (\w+)( USING (?:COVERING )?INDEX (\w+))?`)

// No call of the day walks through a table: what parked runs cost is their
// place on the disk. Indexes that hold only what is at work may be walked.
//
// Covers: BL22.
func TestNoCallWalksATable(t *testing.T) {
	t.Parallel()
	s := openStore(t)
	walk(t, s)
	allowed := []string{"CONSTANT", "definitions", "up", "f", "c", "chain", "family", "runs_leased", "runs_claimable"}
	s.stmts.mu.Lock()
	defer s.stmts.mu.Unlock()
	for query := range s.stmts.known {
		if strings.HasPrefix(query, "SAVEPOINT") || strings.HasPrefix(query, "RELEASE") {
			continue
		}
		rows, err := s.reads.QueryContext(t.Context(), "EXPLAIN QUERY PLAN "+query, make([]any, 40)...)
		if err != nil {
			t.Fatalf("%s: %v", query, err)
		}
		for rows.Next() {
			var id, parent, unused int
			var detail string
			if err := rows.Scan(&id, &parent, &unused, &detail); err != nil {
				t.Fatal(err)
			}
			if m := scans.FindStringSubmatch(detail); m != nil && !slices.Contains(allowed, m[1]) && !slices.Contains(allowed, m[3]) {
				t.Errorf("%s: %s", detail, query)
			}
		}
		if err := errors.Join(rows.Err(), rows.Close()); err != nil {
			t.Fatal(err)
		}
	}
}
