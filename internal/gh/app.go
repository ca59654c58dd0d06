package gh

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/bradleyfalzon/ghinstallation/v2"

	"github.com/pipelinebot/pipelinebot/internal/forge"
	"github.com/pipelinebot/pipelinebot/internal/secret"
)

const (
	// minLeft is the life that a token for an API request must have left.
	minLeft = 2 * time.Minute
	// minLeftGit is that of a token for git: a big push takes minutes.
	minLeftGit = 10 * time.Minute
)

// appAuth is a GitHub App: a signed JWT for questions about itself, and a
// token an installation, which lives for an hour and can't be renewed.
type appAuth struct {
	client *Client
	app    App
	wire   http.RoundTripper
	// self sends as the App itself.
	self credential

	mu     sync.Mutex
	byRepo map[string]int64 // lower-case owner/name → installation
	byID   map[int64]*installation
}

// installation mints the tokens of one installation, one at a time.
type installation struct {
	id   int64
	turn chan struct{}             // holds one: who is minting
	tr   *ghinstallation.Transport // guarded by turn
}

func newAppAuth(a App, c *Client, wire http.RoundTripper) (*appAuth, error) {
	if a.ID <= 0 {
		return nil, errors.New("GitHub App: its id is missing")
	}
	if a.Key.Empty() {
		return nil, errors.New("GitHub App: its private key is missing")
	}
	auth := &appAuth{client: c, app: a, wire: wire, byRepo: map[string]int64{}, byID: map[int64]*installation{}}
	jwt, err := auth.transport()
	if err != nil {
		return nil, err
	}
	c.learn(a.Key)
	auth.self = credential{via: &http.Client{Transport: signed{jwt}, CheckRedirect: c.http.CheckRedirect}, pool: appPool}
	return auth, nil
}

// transport is a fresh one each time: an installation writes into that which
// it is made from, so they must not share one.
func (a *appAuth) transport() (*ghinstallation.AppsTransport, error) {
	t, err := ghinstallation.NewAppsTransport(a.wire, a.app.ID, []byte(a.app.Key.Reveal()))
	if err != nil {
		return nil, fmt.Errorf("GitHub App %d: the private key can't be read; it must be an RSA key in PEM, as the App's settings page generates it: %w", a.app.ID, err)
	}
	t.BaseURL = strings.TrimSuffix(a.client.base.String(), "/")
	return t, nil
}

// signed gives ghinstallation a request of its own to write into.
type signed struct{ jwt *ghinstallation.AppsTransport }

// RoundTrip implements http.RoundTripper.
func (s signed) RoundTrip(req *http.Request) (*http.Response, error) {
	req = req.Clone(req.Context())
	req.Header.Del("Accept") // the JWT transport adds its own
	return s.jwt.RoundTrip(req)
}

// credential implements authenticator.
func (a *appAuth) credential(ctx context.Context, repo forge.Repo) (credential, error) {
	id, err := a.find(ctx, repo)
	if err != nil {
		return credential{}, err
	}
	return a.as(ctx, id)
}

// as is the credential of one installation.
func (a *appAuth) as(ctx context.Context, id int64) (credential, error) {
	token, err := a.token(ctx, id, minLeft)
	if err != nil {
		return credential{}, err
	}
	return credential{"Bearer " + token.Reveal(), a.client.http, id}, nil
}

// refused implements authenticator: an installation's token may have been
// revoked, or have ended by a clock that is not ours.
func (a *appAuth) refused(cr credential) bool {
	if cr.pool <= 0 {
		return false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.byID, cr.pool)
	return true
}

// gitToken implements authenticator.
func (a *appAuth) gitToken(ctx context.Context, repo forge.Repo) (secret.Value, error) {
	id, err := a.find(ctx, repo)
	if err != nil {
		return secret.Value{}, err
	}
	return a.token(ctx, id, minLeftGit)
}

// token returns one that lives for another `left`, minting if need be.
func (a *appAuth) token(ctx context.Context, id int64, left time.Duration) (secret.Value, error) {
	in := a.get(id)
	select {
	case in.turn <- struct{}{}:
		defer func() { <-in.turn }()
	case <-ctx.Done():
		return secret.Value{}, context.Cause(ctx)
	}
	op := fmt.Sprintf("minting a token for installation %d", id)
	var token string
	err := a.client.retrying(ctx, true, func() error {
		if err := in.freshen(a, left); err != nil {
			return err
		}
		ctx, cancel := context.WithTimeoutCause(ctx, a.client.timeout, fmt.Errorf("%s: no answer within %s", op, a.client.timeout))
		defer cancel()
		var err error
		if token, err = in.tr.Token(ctx); err != nil {
			return named(ctx, op, err)
		}
		if token == "" {
			in.tr = nil
			return &forge.Error{Kind: forge.KindTransient, Op: op, Err: errors.New("the answer holds no token")}
		}
		return nil
	})
	if err != nil {
		if forge.IsKind(err, forge.KindNotFound) {
			a.forget(id)
		}
		return secret.Value{}, err
	}
	v := secret.New(token)
	a.client.learn(v)
	return v, nil
}

func (a *appAuth) get(id int64) *installation {
	a.mu.Lock()
	defer a.mu.Unlock()
	in, ok := a.byID[id]
	if !ok {
		in = &installation{id: id, turn: make(chan struct{}, 1)}
		a.byID[id] = in
	}
	return in
}

// freshen forgets a token that has less than `left` to live.
func (in *installation) freshen(a *appAuth, left time.Duration) error {
	if in.tr != nil {
		ends, _, err := in.tr.Expiry()
		if err == nil && ends.Sub(a.client.clock.Now()) >= left {
			return nil
		}
	}
	jwt, err := a.transport()
	if err != nil {
		return err
	}
	in.tr = ghinstallation.NewFromAppsTransport(jwt, in.id)
	return nil
}
