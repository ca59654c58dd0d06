// Package gh drives GitHub's REST API behind the ports of internal/forge. It
// is the only package that knows go-github and ghinstallation, and answers in
// its own transport what those leave open: redirects that carry the token
// away or turn a write into a read, rate limits told by text, pagination that
// stops early, unbounded bodies, blindness by cached answers.
//
// It must not know the pipeline, flows, stores or the inbox. It may import
// internal/{forge,clock,secret}, go-github and ghinstallation.
package gh

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/pipelinebot/pipelinebot/internal/clock"
	"github.com/pipelinebot/pipelinebot/internal/forge"
	"github.com/pipelinebot/pipelinebot/internal/secret"
)

// DefaultBaseURL is GitHub's public API.
const DefaultBaseURL = "https://api.github.com/"

// Options say where the API is and how to authenticate. Exactly one of Token
// and App must be given.
type Options struct {
	// BaseURL is the address of the REST API, "" for DefaultBaseURL. A GitHub
	// Enterprise Server has https://HOST/api/v3/. A missing final slash is
	// added.
	BaseURL string
	// Token is a personal access token.
	Token secret.Value
	// App authenticates as a GitHub App.
	App *App
	// CAFile is a PEM file of certificate authorities trusted beside the
	// system's. It needs a Transport that is nil or an *http.Transport.
	CAFile string
	// Transport sends the requests; nil for one that honours HTTPS_PROXY.
	Transport http.RoundTripper
	// Clock measures waits; nil for the machine's.
	Clock clock.Clock
	// Scrubber learns every token that is used or minted. It may be nil.
	Scrubber *secret.Scrubber
	// Log may be nil.
	Log *slog.Logger
	// UserAgent is "" for "pipelinebot".
	UserAgent string
	// WritesPerMinute and WritesPerHour pace content writes an installation;
	// 0 for GitHub's documented 80 and 500
	// (https://docs.github.com/rest/using-the-rest-api/rate-limits-for-the-rest-api).
	WritesPerMinute, WritesPerHour int
	// Timeout bounds one request, 0 for 30 s.
	Timeout time.Duration
	// MaxPages bounds one listing of 100 entries a page, 0 for 100.
	MaxPages int
}

// App is a GitHub App's identity.
type App struct {
	ID int64
	// InstallationID pins one installation; 0 finds that of each repository.
	InstallationID int64
	// Key is the App's private RSA key in PEM.
	Key secret.Value
}

// Client is GitHub behind forge.Forge. It is safe for concurrent use.
type Client struct {
	base     *url.URL
	wire     http.RoundTripper
	http     *http.Client
	tags     *etags
	auth     authenticator
	clock    clock.Clock
	scrub    *secret.Scrubber
	log      *slog.Logger
	agent    string
	pace     pace
	timeout  time.Duration
	maxPages int

	mu    sync.Mutex
	pools map[int64]*pool
	self  *forge.Actor
}

var _ forge.Forge = (*Client)(nil)

// New checks the options and builds a Client; it sends nothing.
func New(o Options) (*Client, error) {
	base, err := parseBase(o.BaseURL)
	if err != nil {
		return nil, err
	}
	wire, err := baseTransport(o)
	if err != nil {
		return nil, err
	}
	c := &Client{
		base: base, wire: wire, clock: o.Clock, scrub: o.Scrubber, log: o.Log, agent: o.UserAgent,
		timeout: o.Timeout, maxPages: o.MaxPages, pools: map[int64]*pool{},
		pace: pace{perMinute: o.WritesPerMinute, perHour: o.WritesPerHour},
	}
	c.defaults()
	checked := &strict{next: wire, clock: c.clock}
	c.tags = newETags(checked)
	c.http = &http.Client{Transport: c.tags, CheckRedirect: pinned(base)}
	if c.auth, err = newAuth(o, c, checked); err != nil {
		return nil, err
	}
	if base.Scheme == "http" && !loopback(base.Hostname()) {
		c.log.Warn("the GitHub API is addressed without TLS: the token travels in the clear", "url", base.String())
	}
	return c, nil
}

// Close ends the connections that are idle. The client can still be used.
func (c *Client) Close() {
	if w, ok := c.wire.(interface{ CloseIdleConnections() }); ok {
		w.CloseIdleConnections()
	}
}

func (c *Client) defaults() {
	if c.clock == nil {
		c.clock = clock.Real{}
	}
	if c.log == nil {
		c.log = slog.New(slog.DiscardHandler)
	}
	if c.agent == "" {
		c.agent = "pipelinebot"
	}
	if c.timeout <= 0 {
		c.timeout = 30 * time.Second
	}
	if c.maxPages <= 0 {
		c.maxPages = 100
	}
	if c.pace.perMinute <= 0 {
		c.pace.perMinute = 80
	}
	if c.pace.perHour <= 0 {
		c.pace.perHour = 500
	}
}

func parseBase(text string) (*url.URL, error) {
	if text == "" {
		text = DefaultBaseURL
	}
	u, err := url.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("GitHub API address: %w", err)
	}
	switch {
	case u.Scheme != "https" && u.Scheme != "http", u.Host == "":
		return nil, fmt.Errorf("GitHub API address %q: want https://HOST/ or, for an enterprise server, https://HOST/api/v3/", u.Redacted())
	case u.User != nil:
		return nil, errors.New("GitHub API address: it must not hold credentials; give the token by itself")
	case u.RawQuery != "" || u.Fragment != "":
		return nil, fmt.Errorf("GitHub API address %q: it must not have a query or a fragment", text)
	}
	if !strings.HasSuffix(u.Path, "/") {
		u.Path += "/"
	}
	return u, nil
}
