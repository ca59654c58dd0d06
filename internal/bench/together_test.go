package bench_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pipelinebot/pipelinebot/checkpoints"
	"github.com/pipelinebot/pipelinebot/flows"
	"github.com/pipelinebot/pipelinebot/flows/engine"
)

// BenchmarkTogether is 64 runs at once over one file, which share commits.
func BenchmarkTogether(b *testing.B) {
	const together = 64
	for _, level := range levels() {
		b.Run(string(level), func(b *testing.B) {
			s := newStage(b, file(b), level)
			f := s.load(chain(nodes, rewritten))
			var spent time.Duration
			rounds := 0
			round := func(name string) {
				var all []claimed
				for i := range together {
					req, err := request(s.eng, f, fmt.Sprint(name, rounds, "/", i))
					if err != nil {
						b.Fatal(err)
					}
					c, err := s.claim(b.Context(), req)
					if err != nil {
						b.Fatal(err)
					}
					all = append(all, c)
				}
				began := time.Now()
				if err := each(all, func(c claimed) error {
					out, err := s.walk(b.Context(), c, engine.Ended)
					if err == nil && len(out.Path) != nodes+1 {
						err = fmt.Errorf("path %v", out.Path)
					}
					return err
				}); err != nil {
					b.Fatal(err)
				}
				spent += time.Since(began)
				if err := each(all, func(c claimed) error {
					_, err := s.store.Finish(b.Context(), c.lease, checkpoints.Done, nil)
					return err
				}); err != nil {
					b.Fatal(err)
				}
				rounds++
			}
			round("warm")
			spent, rounds = 0, 0
			for b.Loop() {
				round("round")
			}
			b.ReportMetric(float64(rounds*together*nodes)/spent.Seconds(), "nodes/s")
			b.ReportMetric(float64(rounds*together*(nodes+1))/spent.Seconds(), "checkpoints/s")
		})
	}
}

// each does something with all items at once.
func each[T any](items []T, do func(T) error) error {
	errs := make([]error, len(items))
	var wg sync.WaitGroup
	for i, item := range items {
		wg.Go(func() { errs[i] = do(item) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// BenchmarkResume is 50 resumes of one parked run at the same instant: one
// advances, 49 are told that it is busy, each node runs once.
func BenchmarkResume(b *testing.B) {
	const resumes = 50
	s := newStage(b, file(b), "FULL")
	f := s.load(parking)
	var spent time.Duration
	rounds := 0
	for b.Loop() {
		id, err := s.park(b.Context(), f, fmt.Sprint("run", rounds))
		if err != nil {
			b.Fatal(err)
		}
		began := time.Now()
		if _, err := s.store.Deliver(b.Context(), id, checkpoints.Event{Key: "go", Kind: "go"}); err != nil {
			b.Fatal(err)
		}
		run, err := s.store.Get(b.Context(), id)
		if err != nil {
			b.Fatal(err)
		}
		var won, busy atomic.Int32
		if err := each(make([]struct{}, resumes), func(struct{}) error {
			run, lease, err := s.store.Claim(b.Context(), id, run.Epoch, "bench", time.Hour)
			switch {
			case errors.Is(err, checkpoints.ErrBusy):
				busy.Add(1)
				return nil
			case err != nil:
				return err
			}
			won.Add(1)
			if _, err := s.walk(b.Context(), claimed{run, lease}, engine.Ended); err != nil {
				return err
			}
			_, err = s.store.Finish(b.Context(), lease, checkpoints.Done, nil)
			return err
		}); err != nil {
			b.Fatal(err)
		}
		spent += time.Since(began)
		history, err := s.store.History(b.Context(), id)
		if won.Load() != 1 || busy.Load() != resumes-1 || err != nil || len(history) != 3 {
			b.Fatalf("%d won, %d were told busy, %d nodes ran, %v", won.Load(), busy.Load(), len(history), err)
		}
		rounds++
	}
	b.ReportMetric(float64(spent.Milliseconds())/float64(rounds), "ms/round")
}

// park starts a run of parking and walks it to its wait.
func (s *stage) park(ctx context.Context, f *flows.Flow, key string) (string, error) {
	req, err := request(s.eng, f, key)
	if err != nil {
		return "", err
	}
	c, err := s.claim(ctx, req)
	if err != nil {
		return "", err
	}
	_, err = s.walk(ctx, c, engine.Parked)
	return c.run.ID, err
}
