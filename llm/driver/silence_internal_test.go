package driver

import (
	"context"
	"errors"
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"
)

// server is a RoundTripper that answers after wait and writes a byte after each
// gap; then it ends, or says nothing more until its request ends.
type server struct {
	wait  time.Duration
	gaps  []time.Duration
	ended bool
}

func (s server) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := pass(r.Context(), s.wait); err != nil {
		return nil, err
	}
	return &http.Response{StatusCode: http.StatusOK, Body: &stream{ctx: r.Context(), server: s}}, nil
}

type stream struct {
	ctx context.Context
	server
}

func (s *stream) Read(p []byte) (int, error) {
	if len(s.gaps) == 0 {
		if s.ended {
			return 0, io.EOF
		}
		<-s.ctx.Done()
		return 0, s.ctx.Err()
	}
	if err := pass(s.ctx, s.gaps[0]); err != nil {
		return 0, err
	}
	s.gaps = s.gaps[1:]
	return copy(p, "x"), nil
}

func (*stream) Close() error { return nil }

// pass lets the bubble's time pass.
func pass(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

func TestSilence(t *testing.T) {
	t.Parallel()
	const idle = time.Minute
	soon := idle - time.Second
	for name, tc := range map[string]struct {
		server server
		silent bool
		after  time.Duration
	}{
		"no answer":             {server{wait: time.Hour}, true, idle},
		"an answer, no byte":    {server{wait: soon}, true, soon + idle},
		"silent in mid-stream":  {server{gaps: []time.Duration{soon, soon}}, true, 2*soon + idle},
		"slow, but never quiet": {server{wait: soon, gaps: []time.Duration{soon, soon, soon}, ended: true}, false, 4 * soon},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				err := read(t.Context(), tc.server, idle)
				if errors.Is(err, ErrSilent) != tc.silent || !tc.silent && err != nil {
					t.Errorf("error = %v", err)
				}
				if took := time.Since(began); took != tc.after {
					t.Errorf("it took %s, want %s", took, tc.after)
				}
			})
		})
	}
}

// The caller's own deadline is not taken for silence.
func TestDeadlineIsNotSilence(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err := read(ctx, server{wait: time.Hour}, time.Minute)
		if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, ErrSilent) {
			t.Errorf("error = %v, want the deadline", err)
		}
	})
}

func read(ctx context.Context, s server, idle time.Duration) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://model.invalid/", nil)
	if err != nil {
		return err
	}
	res, err := (&transport{s, idle}).RoundTrip(req)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, res.Body)
	return errors.Join(err, res.Body.Close())
}
