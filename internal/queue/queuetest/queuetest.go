// Package queuetest is the suite that every driver of queue.Queue passes.
//
// It must not know any driver. It imports testing and internal/queue.
package queuetest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/pipelinebot/pipelinebot/internal/queue"
)

// patience is how long a case waits for what must happen before it fails.
const patience = 20 * time.Second

// New returns a queue without tokens that has not been started and that works
// on at least two tokens of a kind at once, and the way to insert tokens. It
// registers its own cleaning up with t.
type New func(t *testing.T) (q queue.Queue, insert func(...queue.Token))

// Run runs the suite.
func Run(t *testing.T, open New) {
	t.Helper()
	for name, run := range map[string]func(*testing.T, queue.Queue, func(...queue.Token)){
		"delivers what is inserted while it runs":    delivers,
		"delivers what was inserted before":          deliversEarlier,
		"delivers an equal token twice":              delivers2,
		"drops the token of a failed handler":        dropsFailed,
		"survives a handler's panic":                 survivesPanic,
		"events get through while runs take the day": eventsPass,
		"starts once":                            startsOnce,
		"the end of the start's context is none": outlivesStart,
		"stop waits for handlers":                stopDrains,
		"stop cancels handlers in the end":       stopCancels,
		"stop takes no new token":                stopTakesNone,
		"stop before a start":                    stopEarly,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q, insert := open(t)
			run(t, q, insert)
		})
	}
}

func token(id string) queue.Token { return queue.Token{Kind: queue.Run, ID: id, Epoch: 7} }

// start starts q with h and stops it when the test ends.
func start(t *testing.T, q queue.Queue, h queue.Handler) {
	t.Helper()
	if err := q.Start(t.Context(), h); err != nil {
		t.Fatalf("start: %v", err)
	}
	t.Cleanup(func() { stop(t, q) })
}

func stop(t *testing.T, q queue.Queue) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := q.Stop(ctx); err != nil {
		t.Errorf("stop: %v", err)
	}
}

// into is a handler that passes tokens on.
func into(c chan<- queue.Token) queue.Handler {
	return func(ctx context.Context, t queue.Token) error {
		select {
		case c <- t:
		case <-ctx.Done():
		}
		return nil
	}
}

// next waits for a value.
func next[T any](t *testing.T, c <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-c:
	case <-time.After(patience):
		t.Fatal("waited in vain")
	}
	return v
}

// all waits for n tokens and fails unless they are those wanted, in any
// order.
func all(t *testing.T, c <-chan queue.Token, want ...queue.Token) {
	t.Helper()
	count := map[queue.Token]int{}
	for _, w := range want {
		count[w]++
	}
	for range want {
		got := next(t, c)
		if count[got]--; count[got] < 0 {
			t.Fatalf("token %+v was not inserted, or delivered too often", got)
		}
	}
}

func delivers(t *testing.T, q queue.Queue, insert func(...queue.Token)) {
	c := make(chan queue.Token)
	start(t, q, into(c))
	for i := range 5 {
		want := []queue.Token{token(fmt.Sprint("r", i)), {Kind: queue.Event, ID: fmt.Sprint("e", i)}}
		insert(want...)
		all(t, c, want...)
	}
}

func deliversEarlier(t *testing.T, q queue.Queue, insert func(...queue.Token)) {
	want := []queue.Token{token("r1"), token("r2"), {Kind: queue.Event, ID: "e1"}}
	insert(want...)
	c := make(chan queue.Token)
	start(t, q, into(c))
	all(t, c, want...)
}

func delivers2(t *testing.T, q queue.Queue, insert func(...queue.Token)) {
	c := make(chan queue.Token)
	start(t, q, into(c))
	insert(token("r"), token("r"))
	insert(token("r"))
	all(t, c, token("r"), token("r"), token("r"))
}

func dropsFailed(t *testing.T, q queue.Queue, insert func(...queue.Token)) {
	c := make(chan queue.Token, 10)
	start(t, q, func(_ context.Context, t queue.Token) error {
		c <- t
		return errors.New("boom")
	})
	insert(token("r1"))
	all(t, c, token("r1"))
	insert(token("r2"))
	all(t, c, token("r2")) // and not r1 again
	stop(t, q)
	if len(c) > 0 {
		t.Fatalf("delivered again: %+v", <-c)
	}
}

func survivesPanic(t *testing.T, q queue.Queue, insert func(...queue.Token)) {
	c := make(chan queue.Token, 10)
	start(t, q, func(_ context.Context, t queue.Token) error {
		c <- t
		panic("boom")
	})
	for _, id := range []string{"r1", "r2", "r3", "r4", "r5"} {
		insert(token(id))
		all(t, c, token(id))
	}
}

func eventsPass(t *testing.T, q queue.Queue, insert func(...queue.Token)) {
	events := make(chan queue.Token)
	start(t, q, func(ctx context.Context, tok queue.Token) error {
		if tok.Kind == queue.Event {
			return into(events)(ctx, tok)
		}
		<-ctx.Done()
		return ctx.Err()
	})
	for i := range 50 {
		insert(token(fmt.Sprint("r", i)))
	}
	insert(queue.Token{Kind: queue.Event, ID: "stop"})
	all(t, events, queue.Token{Kind: queue.Event, ID: "stop"})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := q.Stop(ctx); err != nil {
		t.Fatalf("stop: %v", err)
	}
}

func startsOnce(t *testing.T, q queue.Queue, _ func(...queue.Token)) {
	h := func(context.Context, queue.Token) error { return nil }
	start(t, q, h)
	if err := q.Start(t.Context(), h); !errors.Is(err, queue.ErrStarted) {
		t.Fatalf("second start: %v", err)
	}
	stop(t, q)
	if err := q.Start(t.Context(), h); !errors.Is(err, queue.ErrStarted) {
		t.Fatalf("start after a stop: %v", err)
	}
}

func outlivesStart(t *testing.T, q queue.Queue, insert func(...queue.Token)) {
	ctx, cancel := context.WithCancel(t.Context())
	c := make(chan queue.Token)
	if err := q.Start(ctx, into(c)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(t, q) })
	cancel()
	insert(token("r"))
	all(t, c, token("r"))
}

func stopDrains(t *testing.T, q queue.Queue, insert func(...queue.Token)) {
	begun, finish, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	start(t, q, func(ctx context.Context, _ queue.Token) error {
		close(begun)
		<-finish
		ended <- ctx.Err()
		return nil
	})
	insert(token("r"))
	next(t, begun)
	stopped := make(chan error, 1)
	go func() { stopped <- q.Stop(context.Background()) }()
	select {
	case err := <-stopped:
		t.Fatalf("stop returned %v with a handler in flight", err)
	case <-time.After(50 * time.Millisecond):
	}
	close(finish)
	if err := next(t, stopped); err != nil {
		t.Fatalf("stop: %v", err)
	}
	if err := next(t, ended); err != nil {
		t.Fatalf("the handler was cancelled: %v", err)
	}
}

func stopCancels(t *testing.T, q queue.Queue, insert func(...queue.Token)) {
	begun, returned := make(chan struct{}), make(chan struct{})
	start(t, q, func(ctx context.Context, _ queue.Token) error {
		close(begun)
		<-ctx.Done()
		close(returned)
		return ctx.Err()
	})
	insert(token("r"))
	next(t, begun)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := q.Stop(ctx); err != nil {
		t.Fatalf("stop: %v", err)
	}
	select {
	case <-returned:
	default:
		t.Fatal("stop didn't wait for the handler's return")
	}
	stop(t, q) // again does nothing
}

func stopTakesNone(t *testing.T, q queue.Queue, insert func(...queue.Token)) {
	c := make(chan queue.Token, 10)
	start(t, q, into(c))
	insert(token("r1"))
	all(t, c, token("r1"))
	stop(t, q)
	insert(token("r2"))
	select {
	case got := <-c:
		t.Fatalf("delivered after the stop: %+v", got)
	case <-time.After(100 * time.Millisecond):
	}
}

func stopEarly(t *testing.T, q queue.Queue, _ func(...queue.Token)) { stop(t, q) }
