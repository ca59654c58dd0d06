package mockworld

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"
)

// Handler serves the world below its prefix: {prefix}/api/v3/… is REST and
// {prefix}/git/owner/name.git is git; {prefix}/_world/ is for other processes
// that watch, and the html_url of things are plain-text pages.
func (w *World) Handler() http.Handler { return http.HandlerFunc(w.serveHTTP) }

// Serve listens on a loopback address such as "127.0.0.1:0" until ctx ends or
// stop is called, which cuts open connections and waits. The returned base
// URL is that of the prefix.
func (w *World) Serve(ctx context.Context, addr string) (baseURL string, stop func(), err error) {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return "", nil, fmt.Errorf("listening on %q: %w", addr, err)
	}
	if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return "", nil, fmt.Errorf("listening on %q: the world is for this machine only; use a loopback address", addr)
	}
	var lc net.ListenConfig
	ln, err := lc.Listen(ctx, "tcp", addr)
	if err != nil {
		return "", nil, fmt.Errorf("listening on %q: %w", addr, err)
	}
	base := "http://" + ln.Addr().String() + w.prefix
	w.mu.Lock()
	if w.closed {
		w.mu.Unlock()
		_ = ln.Close()
		return "", nil, errClosed
	}
	w.base = base
	w.wg.Add(1)
	w.mu.Unlock()
	srv := &http.Server{Handler: w.Handler(), ReadHeaderTimeout: 30 * time.Second,
		ErrorLog: slog.NewLogLogger(w.log.Handler(), slog.LevelWarn)}
	done := make(chan struct{})
	go func() {
		defer w.wg.Done()
		defer close(done)
		if err := srv.Serve(ln); err != nil && !errors.Is(err, http.ErrServerClosed) {
			w.log.ErrorContext(ctx, "serving", "error", err)
		}
	}()
	ctx, cancel := context.WithCancel(ctx)
	w.wg.Add(1)
	go func() {
		defer w.wg.Done()
		defer cancel()
		select {
		case <-ctx.Done():
		case <-w.ctx.Done():
		}
		_ = srv.Close() // cuts what is open; there is nothing to save
	}()
	return base, func() { cancel(); <-done }, nil
}
