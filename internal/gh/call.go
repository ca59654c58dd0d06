package gh

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/google/go-github/v66/github"

	"github.com/pipelinebot/pipelinebot/internal/clock"
	"github.com/pipelinebot/pipelinebot/internal/forge"
)

// maxTries is how often one request is sent at most.
const maxTries = 4

// request is one call of the API.
type request struct {
	// op says what is being done, for errors: "adding label x to a/b#1".
	op string
	// method is GET when "".
	method string
	// path is relative to the base address, or a Link's whole address.
	path string
	// repo chooses the installation.
	repo forge.Repo
	body any
	// safe marks a write that may be sent twice without harm.
	safe bool
	// forget keeps only the tag of the answer; see etags.
	forget bool
	// cred overrides what the authenticator would choose.
	cred *credential
}

// answer is what came back.
type answer struct {
	body   []byte
	header http.Header
}

// get decodes the answer of a GET into out.
func (c *Client) get(ctx context.Context, r request, out any) error { return c.exchange(ctx, r, out) }

// exchange sends r and decodes the answer into out, unless that is nil. An
// answer that is empty or no JSON is KindTransient, never an empty value: it
// would read as "no labels".
func (c *Client) exchange(ctx context.Context, r request, out any) error {
	a, err := c.send(ctx, r)
	if err != nil || out == nil {
		return err
	}
	return decode(r.op, a.body, out)
}

func decode(op string, body []byte, out any) error {
	text := bytes.TrimSpace(body)
	if len(text) == 0 || bytes.Equal(text, []byte("null")) {
		return &forge.Error{Kind: forge.KindTransient, Op: op, Status: http.StatusOK, Err: errors.New("the answer is empty")}
	}
	if err := json.Unmarshal(text, out); err != nil {
		return &forge.Error{Kind: forge.KindTransient, Op: op, Status: http.StatusOK, Err: fmt.Errorf("the answer is not what the API promises: %w", err)}
	}
	return nil
}

// send sends r, with retries where they do no harm.
func (c *Client) send(ctx context.Context, r request) (answer, error) {
	if r.method == "" {
		r.method = http.MethodGet
	}
	var a answer
	renewed := false
	err := c.retrying(ctx, r.safe || r.method == http.MethodGet, func() error {
		cred, err := c.credential(ctx, r)
		if err != nil {
			return err
		}
		a, err = c.once(ctx, r, cred)
		if status(err) == http.StatusUnauthorized && !renewed && r.cred == nil && c.auth.refused(cred) {
			renewed = true
			if cred, err = c.credential(ctx, r); err == nil {
				a, err = c.once(ctx, r, cred)
			}
		}
		return err
	})
	return a, err
}

func (c *Client) credential(ctx context.Context, r request) (credential, error) {
	if r.cred != nil {
		return *r.cred, nil
	}
	return c.auth.credential(ctx, r.repo, r.method != http.MethodGet)
}

// once sends r once, through the limiter and under a deadline.
func (c *Client) once(ctx context.Context, r request, cred credential) (answer, error) {
	pool := c.pool(cred.pool)
	leave, err := pool.enter(ctx, r.method != http.MethodGet)
	if err != nil {
		return answer{}, named(ctx, r.op, err)
	}
	defer leave()
	ctx, cancel := context.WithTimeoutCause(ctx, c.timeout, fmt.Errorf("no answer within %s", c.timeout))
	defer cancel()

	api := github.NewClient(cred.via) // fresh: its memory of rate limits can't be switched off
	api.BaseURL, api.UserAgent = c.base, c.agent
	req, err := api.NewRequest(r.method, r.path, r.body)
	if err != nil {
		return answer{}, &forge.Error{Kind: forge.KindInvalid, Op: r.op, Err: err}
	}
	if !sameHost(c.base, req.URL) {
		return answer{}, &forge.Error{Kind: forge.KindInvalid, Op: r.op, Err: fmt.Errorf(
			"refused the address %s://%s: the token is only for %s://%s", req.URL.Scheme, req.URL.Host, c.base.Scheme, c.base.Host)}
	}
	if cred.header != "" {
		req.Header.Set("Authorization", cred.header)
	}
	if r.forget {
		ctx = context.WithValue(ctx, forgetKey{}, true)
	}
	var body bytes.Buffer
	resp, err := api.Do(ctx, req, &body)
	if err != nil {
		err = named(ctx, r.op, err)
		var e *forge.Error
		if errors.As(err, &e) && e.Kind == forge.KindRateLimited {
			pool.hold(e.RetryAfter)
		}
		return answer{}, err
	}
	pool.observe(resp.Header)
	if got := resp.Request.Method; got != r.method {
		return answer{}, &forge.Error{Kind: forge.KindInvalid, Op: r.op, Status: resp.StatusCode, Err: fmt.Errorf(
			"a %s was answered as if it were a %s; nothing was changed", r.method, got)}
	}
	return answer{body.Bytes(), resp.Header}, nil
}

// retrying calls f again after failures of the network or the server, if
// safe, and after a rate limit that is over soon, which means that nothing
// was done.
func (c *Client) retrying(ctx context.Context, safe bool, f func() error) error {
	for try := 1; ; try++ {
		err := f()
		var e *forge.Error
		if err == nil || try == maxTries || ctx.Err() != nil || !errors.As(err, &e) {
			return err
		}
		var wait time.Duration
		switch {
		case e.Kind == forge.KindRateLimited && e.RetryAfter <= shortWait:
			wait = e.RetryAfter
		case e.Kind == forge.KindTransient && safe && e.RetryAfter <= shortWait:
			wait = max(backOff(try), e.RetryAfter)
		default:
			return err
		}
		if clock.Sleep(ctx, c.clock, wait) != nil {
			return err
		}
	}
}

// backOff is a quarter of a second, doubled each time, between half and all of
// it, so that many clients don't come back together.
func backOff(try int) time.Duration {
	d := 250 * time.Millisecond << (try - 1)
	return d/2 + rand.N(d/2+1) //nolint:gosec // spreads load, guards nothing
}

// named gives err its operation and its kind. An end of the caller's context
// stays that: it is nothing that the forge said.
func named(ctx context.Context, op string, err error) error {
	var e *forge.Error
	if errors.As(err, &e) {
		c := *e
		c.Op = op
		return &c
	}
	if ctx.Err() != nil {
		cause := context.Cause(ctx)
		if errors.Is(ctx.Err(), context.DeadlineExceeded) && !errors.Is(cause, context.DeadlineExceeded) {
			return &forge.Error{Kind: forge.KindTransient, Op: op, Err: cause}
		}
		if errors.Is(cause, ctx.Err()) {
			return fmt.Errorf("%s: %w", op, cause)
		}
		return fmt.Errorf("%s: %w (%w)", op, cause, ctx.Err())
	}
	if errors.As(err, new(x509.UnknownAuthorityError)) {
		return &forge.Error{Kind: forge.KindInvalid, Op: op, Err: fmt.Errorf("the server's certificate is not trusted; give its authority as the CA file: %w", err)}
	}
	return &forge.Error{Kind: forge.KindTransient, Op: op, Err: err}
}

func status(err error) int {
	var e *forge.Error
	if errors.As(err, &e) {
		return e.Status
	}
	return 0
}

// repoPath joins "repos/OWNER/NAME" with escaped path segments.
func repoPath(r forge.Repo, segments ...string) string {
	all := append([]string{"repos", r.Owner, r.Name}, segments...)
	for i, s := range all {
		all[i] = url.PathEscape(s)
	}
	return strings.Join(all, "/")
}
