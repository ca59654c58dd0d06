package storetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/pipelinebot/pipelinebot/checkpoints"
	"github.com/pipelinebot/pipelinebot/internal/queue"
)

func effectCases() map[string]func(*fixture) {
	return map[string]func(*fixture){
		"recorded and replaced": func(f *fixture) {
			_, err := f.Effect(f.ctx, "k")
			f.is(err, checkpoints.ErrNotFound)
			value := json.RawMessage(`{"number":12}`)
			f.ok(f.RecordEffect(f.ctx, "k", value))
			value[2] = 'X'
			got, err := f.Effect(f.ctx, "k")
			f.ok(err)
			f.same(string(got), `{"number":12}`)
			f.ok(f.RecordEffect(f.ctx, "k", json.RawMessage(`13`)))
			got, err = f.Effect(f.ctx, "k")
			f.ok(err)
			f.same(string(got), `13`)
			f.refused(f.RecordEffect(f.ctx, "", nil))
		},
		"once": func(f *fixture) {
			done := 0
			do := func(context.Context) (json.RawMessage, error) {
				done++
				return json.RawMessage(`7`), nil
			}
			for range 3 {
				got, err := checkpoints.Once(f.ctx, f.Store, "k", nil, do)
				f.ok(err)
				f.same(string(got), `7`)
			}
			f.same(done, 1)
		},
	}
}

func stopCases() map[string]func(*fixture) {
	return map[string]func(*fixture){
		"scopes": func(f *fixture) {
			f.ok(f.SetStop(f.ctx, checkpoints.Stop{Scope: "Acme/Widgets", By: "ann", Reason: "all of it"}))
			f.ok(f.SetStop(f.ctx, checkpoints.Stop{Scope: "acme/other#3", By: "bob", Reason: "one"}))
			for _, c := range []struct {
				repo  string
				issue int
				by    string
			}{
				{"acme/WIDGETS", 1, "ann"}, {"acme/widgets", 99, "ann"},
				{"ACME/other", 3, "bob"}, {"acme/other", 33, ""}, {"acme/widgets2", 1, ""},
			} {
				got, ok, err := f.StopFor(f.ctx, c.repo, c.issue)
				f.ok(err)
				if got.By != c.by || ok != (c.by != "") {
					f.Errorf("%s#%d: got %+v %v, want by %q", c.repo, c.issue, got, ok, c.by)
				}
			}
		},
		"latched once, lifted once": func(f *fixture) {
			first := checkpoints.Stop{Scope: "acme/widgets#7", By: "ann", Reason: "first", At: f.clk.Now().Add(-time.Minute)}
			f.ok(f.SetStop(f.ctx, first))
			f.ok(f.SetStop(f.ctx, checkpoints.Stop{Scope: "ACME/Widgets#7", By: "bob", Reason: "second"}))
			got, ok, err := f.StopFor(f.ctx, "acme/widgets", 7)
			f.ok(err)
			f.same([]any{got, ok}, []any{first, true})
			lifted, err := f.LiftStop(f.ctx, "Acme/widgets#7")
			f.ok(err)
			f.same(lifted, true)
			lifted, err = f.LiftStop(f.ctx, "acme/widgets#7")
			f.ok(err)
			f.same(lifted, false)
			_, ok, err = f.StopFor(f.ctx, "acme/widgets", 7)
			f.ok(err)
			f.same(ok, false)
		},
		"lifting one leaves the other": func(f *fixture) {
			f.ok(f.SetStop(f.ctx, checkpoints.Stop{Scope: "acme/widgets"}))
			f.ok(f.SetStop(f.ctx, checkpoints.Stop{Scope: "acme/widgets#7"}))
			_, err := f.LiftStop(f.ctx, "acme/widgets#7")
			f.ok(err)
			_, ok, err := f.StopFor(f.ctx, "acme/widgets", 7)
			f.ok(err)
			f.same(ok, true)
		},
		"all": func(f *fixture) {
			f.ok(f.SetStop(f.ctx, checkpoints.Stop{Scope: "b/b", By: "x"}))
			f.clk.Advance(time.Second)
			f.ok(f.SetStop(f.ctx, checkpoints.Stop{Scope: "a/a", By: "y"}))
			got, err := f.ListStops(f.ctx)
			f.ok(err)
			f.same(got, []checkpoints.Stop{
				{Scope: "b/b", By: "x", At: f.clk.Now().Add(-time.Second)}, {Scope: "a/a", By: "y", At: f.clk.Now()},
			})
			f.refused(f.SetStop(f.ctx, checkpoints.Stop{}))
		},
	}
}

func inboxCases() map[string]func(*fixture) {
	receive := func(f *fixture, e checkpoints.InboxEvent, want bool) {
		f.Helper()
		fresh, err := f.Receive(f.ctx, e)
		f.ok(err)
		f.same(fresh, want)
	}
	return map[string]func(*fixture){
		"stored with its token": func(f *fixture) {
			e := checkpoints.InboxEvent{
				ID: "e1", Delivery: "guid-1", Key: "comment/1", Kind: "comment", Body: json.RawMessage(`{"a":1}`), At: f.clk.Now().Add(-time.Second),
			}
			receive(f, e, true)
			f.same(f.taken(), []queue.Token{{Kind: queue.Event, ID: "e1"}})
			got, err := f.Received(f.ctx, "e1")
			f.ok(err)
			f.same(got, e)
			f.ok(f.Decided(f.ctx, "e1", "start", "the label was added by a maintainer"))
			e.Decision, e.Explanation = "start", "the label was added by a maintainer"
			got, err = f.Received(f.ctx, "e1")
			f.ok(err)
			f.same(got, e)
		},
		"known by delivery or key": func(f *fixture) {
			receive(f, checkpoints.InboxEvent{ID: "e1", Delivery: "g1", Key: "k1", Body: []byte(`{}`)}, true)
			f.taken()
			receive(f, checkpoints.InboxEvent{ID: "e2", Delivery: "g1", Key: "k2", Body: []byte(`{}`)}, false)
			receive(f, checkpoints.InboxEvent{ID: "e3", Delivery: "g3", Key: "k1", Body: []byte(`{}`)}, false)
			receive(f, checkpoints.InboxEvent{ID: "e4", Key: "k1", Body: []byte(`{}`)}, false)
			receive(f, checkpoints.InboxEvent{ID: "e1", Key: "k9", Body: []byte(`{}`)}, false)
			f.noToken()
			_, err := f.Received(f.ctx, "e2")
			f.is(err, checkpoints.ErrNotFound)
			receive(f, checkpoints.InboxEvent{ID: "e5", Body: []byte(`{}`)}, true)
			receive(f, checkpoints.InboxEvent{ID: "e6", Body: []byte(`{}`)}, true)
			f.ok(f.Decided(f.ctx, "e1", "ignore", "x"))
			receive(f, checkpoints.InboxEvent{ID: "e7", Delivery: "g1", Body: []byte(`{}`)}, false)
		},
		"an id is given": func(f *fixture) {
			receive(f, checkpoints.InboxEvent{Key: "k1", Body: []byte(`{}`)}, true)
			tokens := f.taken()
			f.same(len(tokens), 1)
			got, err := f.Received(f.ctx, tokens[0].ID)
			f.ok(err)
			f.same([]any{got.Key, got.At}, []any{"k1", f.clk.Now()})
		},
		"newest first": func(f *fixture) {
			for i := range 3 {
				receive(f, checkpoints.InboxEvent{ID: fmt.Sprintf("e%d", i), Body: []byte(`{}`)}, true)
			}
			got, err := f.Inbox(f.ctx, 2)
			f.ok(err)
			f.same([]string{got[0].ID, got[1].ID}, []string{"e2", "e1"})
			f.same(len(got), 2)
		},
		"deciding": func(f *fixture) {
			f.is(f.Decided(f.ctx, "nope", "start", ""), checkpoints.ErrNotFound)
			receive(f, checkpoints.InboxEvent{ID: "e1", Body: []byte(`{}`)}, true)
			f.refused(f.Decided(f.ctx, "e1", "", ""))
		},
		"cursors": func(f *fixture) {
			got, err := f.Cursor(f.ctx, "poll/acme")
			f.ok(err)
			f.same(got, "")
			f.ok(f.SetCursor(f.ctx, "poll/acme", "10"))
			f.ok(f.SetCursor(f.ctx, "poll/acme", "11"))
			f.ok(f.SetCursor(f.ctx, "other", "1"))
			got, err = f.Cursor(f.ctx, "poll/acme")
			f.ok(err)
			f.same(got, "11")
		},
	}
}

func contextCases() map[string]func(*fixture) {
	return map[string]func(*fixture){
		"an ended context changes nothing": func(f *fixture) {
			r, l := f.claimed("k")
			ctx, cancel := context.WithCancelCause(f.ctx)
			cancel(errors.New("shutting down"))
			f.refused(f.Commit(ctx, l, step(1, "a", "b")))
			_, err := f.Start(ctx, req("other"))
			f.refused(err)
			_, err = f.Receive(ctx, checkpoints.InboxEvent{ID: "e", Body: []byte(`{}`)})
			f.refused(err)
			f.same(f.get(r.ID), r)
			f.noToken()
			f.start("other")
		},
	}
}
