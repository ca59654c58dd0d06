package gh

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/bradleyfalzon/ghinstallation/v2"
	"github.com/google/go-github/v66/github"

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

	mu      sync.Mutex
	byRepo  map[string]int64 // lower-case owner/name → installation
	byScope map[scope]*installation
	granted map[int64]map[string]string // installation → permission → level
	present map[string]string           // lower-case owner/name → its name now
}

// scope is what a token is good for: an installation, or one repository of it.
type scope struct {
	id   int64
	repo string // name without owner, "" for all
	use  use
}

// installation mints the tokens of one scope, one at a time. It keeps them by
// the injected clock; ghinstallation would go by the machine's.
type installation struct {
	scope
	turn chan struct{} // holds one: who is minting
	// guarded by turn
	token secret.Value
	ends  time.Time
}

func newAppAuth(a App, c *Client, wire http.RoundTripper) (*appAuth, error) {
	if a.ID <= 0 {
		return nil, errors.New("GitHub App: its id is missing")
	}
	if a.Key.Empty() {
		return nil, errors.New("GitHub App: its private key is missing")
	}
	auth := &appAuth{client: c, app: a, wire: wire, byRepo: map[string]int64{}, byScope: map[scope]*installation{}, granted: map[int64]map[string]string{}, present: map[string]string{}}
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

// credential implements authenticator. What reads has a token that can only
// read, what writes one that reaches the one repository.
func (a *appAuth) credential(ctx context.Context, repo forge.Repo, write bool) (credential, error) {
	id, err := a.find(ctx, repo)
	if err != nil {
		return credential{}, err
	}
	if !write {
		return a.as(ctx, id)
	}
	token, err := a.inRepo(ctx, id, repo, forWriting, minLeft)
	return a.bearing(token, id), err
}

// as is the credential of one installation, to read.
func (a *appAuth) as(ctx context.Context, id int64) (credential, error) {
	token, err := a.token(ctx, scope{id: id, use: forReading}, minLeft)
	return a.bearing(token, id), err
}

func (a *appAuth) bearing(token secret.Value, id int64) credential {
	return credential{"Bearer " + token.Reveal(), a.client.http, id}
}

// refused implements authenticator: an installation's token may have been
// revoked, or have ended by a clock that is not ours.
func (a *appAuth) refused(cr credential) bool {
	if cr.pool <= 0 {
		return false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.drop(cr.pool)
	return true
}

// gitToken implements authenticator. The token reaches the one repository:
// it leaves the process, for git's credential helper.
func (a *appAuth) gitToken(ctx context.Context, repo forge.Repo) (secret.Value, error) {
	id, err := a.find(ctx, repo)
	if err != nil {
		return secret.Value{}, err
	}
	return a.inRepo(ctx, id, repo, forGit, minLeftGit)
}

// token returns one that lives for another `left`, minting if need be.
func (a *appAuth) token(ctx context.Context, sc scope, left time.Duration) (secret.Value, error) {
	in := a.get(sc)
	select {
	case in.turn <- struct{}{}:
		defer func() { <-in.turn }()
	case <-ctx.Done():
		return secret.Value{}, context.Cause(ctx)
	}
	if !in.token.Empty() && in.ends.Sub(a.client.clock.Now()) >= left {
		return in.token, nil
	}
	err := a.client.retrying(ctx, true, func() error { return a.mint(ctx, in) })
	if forge.IsKind(err, forge.KindNotFound) {
		a.forget(sc.id)
	}
	return in.token, err
}

// mint asks for a new token. Minting twice does no harm.
func (a *appAuth) mint(ctx context.Context, in *installation) error {
	in.token = secret.Value{}
	op := fmt.Sprintf("minting a token for installation %d", in.id)
	jwt, err := a.transport()
	if err != nil {
		return err
	}
	tr := ghinstallation.NewFromAppsTransport(jwt, in.id)
	permissions, err := a.permissions(ctx, in.scope)
	if err != nil {
		return err
	}
	tr.InstallationTokenOptions = &github.InstallationTokenOptions{Permissions: permissions}
	if in.repo != "" {
		tr.InstallationTokenOptions.Repositories = []string{in.repo}
	}
	ctx, cancel := context.WithTimeoutCause(ctx, a.client.timeout, fmt.Errorf("no answer within %s", a.client.timeout))
	defer cancel()
	text, err := tr.Token(ctx)
	if err != nil {
		if status(err) == http.StatusUnprocessableEntity {
			a.forgetGrants(in.id) // they changed since they were read
		}
		return named(ctx, op, err)
	}
	ends, _, err := tr.Expiry()
	if err != nil || text == "" {
		return &forge.Error{Kind: forge.KindTransient, Op: op, Err: errors.New("the answer holds no token")}
	}
	in.token, in.ends = secret.New(text), ends
	a.client.learn(in.token)
	return nil
}

func (a *appAuth) get(sc scope) *installation {
	a.mu.Lock()
	defer a.mu.Unlock()
	in, ok := a.byScope[sc]
	if !ok {
		in = &installation{scope: sc, turn: make(chan struct{}, 1)}
		a.byScope[sc] = in
	}
	return in
}

// drop forgets the tokens of an installation; a.mu is held.
func (a *appAuth) drop(id int64) {
	maps.DeleteFunc(a.byScope, func(sc scope, _ *installation) bool { return sc.id == id })
	delete(a.granted, id)
}
