package driver

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/pipelinebot/pipelinebot/llm"
)

// ErrSilent is the cause when a connection gave no byte for too long.
var ErrSilent = errors.New("the model's server was silent for too long")

const (
	// DefaultIdle is how long a connection may be silent. A model that thinks
	// without streaming is silent until it answers.
	DefaultIdle = 5 * time.Minute
	// DefaultTotal bounds one call.
	DefaultTotal = 20 * time.Minute
	// maxAnswer bounds the bytes of an answer.
	maxAnswer = 32 << 20
)

// Heard is what was seen of the HTTP answer to one call; vendor libraries
// hide it.
type Heard struct {
	// Status is 0 when no answer came.
	Status int
	Header http.Header
}

// RetryAfter is how long the server wants to be left alone, 0 when it did not
// say: Retry-After-Ms, or Retry-After as seconds or a date.
func (h *Heard) RetryAfter(now time.Time) time.Duration {
	if h.Header == nil {
		return 0
	}
	if ms, err := strconv.ParseFloat(h.Header.Get("Retry-After-Ms"), 64); err == nil && ms > 0 && ms < 1e12 {
		return time.Duration(ms * float64(time.Millisecond))
	}
	v := strings.TrimSpace(h.Header.Get("Retry-After"))
	if s, err := strconv.ParseFloat(v, 64); err == nil {
		if s > 0 && s < 1e8 { // and no NaN
			return time.Duration(s * float64(time.Second))
		}
		return 0
	}
	if at, err := http.ParseTime(v); err == nil {
		return max(at.Sub(now), 0)
	}
	return 0
}

type heardKey struct{}

// Listen makes a Client note the answer to the call of the returned context.
func Listen(ctx context.Context) (context.Context, *Heard) {
	h := &Heard{}
	return context.WithValue(ctx, heardKey{}, h), h
}

// Client returns an HTTP client of its own that follows no redirect (a key
// must not travel to another host), bounds answers, gives up with ErrSilent
// on a connection that is silent for idle, and serves Listen. The certificate
// authorities in the PEM file caFile are trusted beside the system's; "" is
// none.
func Client(idle time.Duration, caFile string) (*http.Client, error) {
	if idle <= 0 {
		idle = DefaultIdle
	}
	base, ok := http.DefaultTransport.(*http.Transport)
	if ok {
		base = base.Clone()
	} else {
		base = &http.Transport{Proxy: http.ProxyFromEnvironment}
	}
	if caFile != "" {
		roots, err := authorities(caFile)
		if err != nil {
			return nil, err
		}
		if base.TLSClientConfig == nil {
			base.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12}
		}
		base.TLSClientConfig.RootCAs = roots
	}
	return &http.Client{
		Transport:     &transport{base, idle},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}, nil
}

// authorities are the system's and those of the file.
func authorities(file string) (*x509.CertPool, error) {
	pem, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("reading the certificate authorities: %w", err)
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool() // no system pool: the file alone counts
	}
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("certificate file %s: it holds no PEM certificate", file)
	}
	return pool, nil
}

type transport struct {
	base http.RoundTripper
	idle time.Duration
}

// RoundTrip implements http.RoundTripper.
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(r.Context())
	watch := time.AfterFunc(t.idle, func() { cancel(fmt.Errorf("%w (%s)", ErrSilent, t.idle)) })
	res, err := t.base.RoundTrip(r.WithContext(ctx))
	if err != nil {
		watch.Stop()
		cancel(nil)
		return nil, because(ctx, err)
	}
	watch.Reset(t.idle)
	if h, ok := r.Context().Value(heardKey{}).(*Heard); ok {
		h.Status, h.Header = res.StatusCode, res.Header.Clone()
	}
	res.Body = &body{rc: res.Body, ctx: ctx, watch: watch, idle: t.idle, left: maxAnswer,
		end: func() { watch.Stop(); cancel(nil) }}
	return res, nil
}

// because tells silence apart from a plain cancellation.
func because(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); errors.Is(cause, ErrSilent) {
		return cause
	}
	return err
}

// body is an answer whose reads push the watch forward.
type body struct {
	rc    io.ReadCloser
	ctx   context.Context //nolint:containedctx // lives exactly as long as the answer
	watch *time.Timer
	idle  time.Duration
	left  int64
	end   func()
}

// Read implements io.Reader.
func (b *body) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, fmt.Errorf("the answer has more than %d bytes", maxAnswer)
	}
	if int64(len(p)) > b.left {
		p = p[:b.left]
	}
	n, err := b.rc.Read(p)
	b.left -= int64(n)
	if n > 0 {
		b.watch.Reset(b.idle)
	}
	if err != nil && !errors.Is(err, io.EOF) {
		err = because(b.ctx, err)
	}
	return n, err
}

// Close implements io.Closer.
func (b *body) Close() error {
	b.end()
	return b.rc.Close()
}

// KindOf is what a status alone says.
func KindOf(status int) llm.Kind {
	switch {
	case status == http.StatusTooManyRequests:
		return llm.KindRateLimited
	case status == http.StatusServiceUnavailable, status == 529:
		return llm.KindOverloaded
	case status >= 500, status == http.StatusRequestTimeout, status == http.StatusConflict, status == http.StatusTooEarly, status == 0:
		return llm.KindTransient
	case status == http.StatusUnauthorized, status == http.StatusPaymentRequired, status == http.StatusForbidden:
		return llm.KindAuth
	case status == http.StatusRequestEntityTooLarge:
		return llm.KindTooLong
	default:
		return llm.KindInvalid
	}
}
