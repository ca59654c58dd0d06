package gh

import (
	"context"
	"errors"
	"net/http"

	"golang.org/x/oauth2"

	"github.com/pipelinebot/pipelinebot/internal/forge"
	"github.com/pipelinebot/pipelinebot/internal/secret"
)

// credential is what one request is sent with.
type credential struct {
	// header is the Authorization header, "" when via signs by itself.
	header string
	// via sends the request.
	via *http.Client
	// pool is the rate limit that the request counts against.
	pool int64
}

// The pools that are no installation.
const (
	tokenPool int64 = 0
	appPool   int64 = -1
)

// authenticator gives credentials for requests.
type authenticator interface {
	// credential is for a request about repo; zero: about none. write says
	// that it changes something.
	credential(ctx context.Context, repo forge.Repo, write bool) (credential, error)
	// refused forgets a credential that was answered 401, and reports that a
	// new one may do better.
	refused(cr credential) bool
	// gitToken is good for long enough to push with.
	gitToken(ctx context.Context, repo forge.Repo) (secret.Value, error)
}

func newAuth(o Options, c *Client, wire http.RoundTripper) (authenticator, error) {
	switch {
	case o.App != nil && !o.Token.Empty():
		return nil, errors.New("GitHub authentication: both a token and an App are given; choose one")
	case o.App != nil:
		return newAppAuth(*o.App, c, wire)
	case o.Token.Empty():
		return nil, errors.New("GitHub authentication: neither a token nor an App is given")
	default:
		c.learn(o.Token)
		via := *c.http
		via.Transport = &oauth2.Transport{
			Source: oauth2.StaticTokenSource(&oauth2.Token{AccessToken: o.Token.Reveal()}), Base: c.http.Transport,
		}
		return tokenAuth{o.Token, &via}, nil
	}
}

// tokenAuth is a personal access token.
type tokenAuth struct {
	token secret.Value
	via   *http.Client
}

func (t tokenAuth) credential(context.Context, forge.Repo, bool) (credential, error) {
	return credential{via: t.via, pool: tokenPool}, nil
}

func (tokenAuth) refused(credential) bool { return false }

func (t tokenAuth) gitToken(context.Context, forge.Repo) (secret.Value, error) { return t.token, nil }

// GitToken returns a token for fetching from and pushing to r over HTTPS
// (user "x-access-token"). An installation's is good for ten minutes at
// least; ask again before each push. It is registered in the Scrubber.
func (c *Client) GitToken(ctx context.Context, r forge.Repo) (secret.Value, error) {
	return c.auth.gitToken(ctx, r)
}

// learn makes the scrubber know a secret that is in use.
func (c *Client) learn(v secret.Value) {
	if c.scrub != nil {
		c.scrub.Add(v)
	}
}
