package config

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"maps"
	"net"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/pipelinebot/pipelinebot/internal/forge"
	"github.com/pipelinebot/pipelinebot/internal/secret"
	"github.com/pipelinebot/pipelinebot/internal/strictyaml"
	"github.com/pipelinebot/pipelinebot/labels"
)

// config builds the valid form; problems are collected on the way.
func (c *checker) config() *Config {
	r := c.raw
	cfg := &Config{
		raw: r, DataDir: c.path(or(r.DataDir, "data")), FlowsDir: c.folder("flows_dir", r.FlowsDir),
		Workers: c.workers(), Listen: or(r.Server.Listen, "127.0.0.1:8080"),
		GitHub: c.github(), Repositories: c.repositories(), Discover: c.discover(), Labels: c.labels(), Policy: c.policy(),
		AllowedBots: r.Bots.Allow, Breaker: c.breaker(), Models: c.models(), Limits: c.limits(),
		Triage: Triage{MinText: c.positive("phases.triage.min_text", r.Phases.Triage.MinText, 30), Outsiders: c.outsiders()},
		Implement: Implement{
			MaxFiles:       c.positive("phases.implement.max_files", r.Phases.Implement.MaxFiles, 40),
			MaxLines:       c.positive("phases.implement.max_lines", r.Phases.Implement.MaxLines, 1500),
			Protected:      c.patterns("phases.implement.protected", r.Phases.Implement.Protected),
			AllowWorkflows: r.Phases.Implement.Workflows,
			Tests:          c.tests("phases.implement.tests", r.Phases.Implement.Tests),
			Commands:       c.commands("phases.implement.commands", r.Phases.Implement.Commands),
		},
		Review:  Review{MaxRounds: c.positive("phases.review.max_rounds", r.Phases.Review.MaxRounds, 3)},
		Sandbox: Sandbox{Mode: c.oneOf("sandbox.mode", r.Sandbox.Mode, "auto", "bubblewrap", "landlock", "none"), ReadOnly: r.Sandbox.ReadOnly},
		Git: Git{
			Name:  c.identity("git.name", r.Git.Name, "pipelinebot"),
			Email: c.identity("git.email", r.Git.Email, "pipelinebot@users.noreply.github.com"), SignOff: r.Git.SignOff,
		},
		Store: Store{Synchronous: c.oneOf("store.synchronous", r.Store.Synchronous, "full", "normal")},
		Log: Log{
			Level:  c.oneOf("log.level", r.Log.Level, "info", "debug", "warn", "error"),
			Format: c.oneOf("log.format", r.Log.Format, "text", "json"),
		},
	}
	if _, _, err := net.SplitHostPort(cfg.Listen); err != nil {
		c.fail("server.listen", `write it like "127.0.0.1:8080"`, "not an address: %v", err)
	}
	return cfg
}

func or(s, fallback string) string {
	if s == "" {
		return fallback
	}
	return s
}

func (c *checker) positive(path string, v *int, fallback int) int {
	if v == nil {
		return fallback
	}
	if *v < 1 {
		c.fail(path, "", "want a number above 0, got %d", *v)
	}
	return *v
}

// oneOf checks a word; the first known word is the default.
func (c *checker) oneOf(path, word string, known ...string) string {
	if word == "" {
		return known[0]
	}
	if !slices.Contains(known, word) {
		c.fail(path, strictyaml.DidYouMean(word, known), "want one of %s, got %q", strings.Join(known, ", "), word)
	}
	return word
}

func (c *checker) url(path, s string) string {
	if s == "" {
		return s
	}
	u, err := url.Parse(s)
	if err != nil || (u.Scheme != "https" && u.Scheme != "http") || u.Host == "" {
		c.fail(path, "write it like https://host/path/", "not a web address: %q", s)
		return s
	}
	if u.User != nil {
		c.fail(path, "credentials go into *_env or *_file", "a secret must not stand in the address")
	}
	return s
}

func (c *checker) github() GitHub {
	r := c.raw.GitHub
	g := GitHub{
		BaseURL: or(c.url("github.base_url", r.BaseURL), "https://api.github.com/"), PollInterval: r.PollInterval,
		CAFile: c.path(r.CAFile), Webhooks: r.Webhooks == nil || *r.Webhooks,
		WritesPerMinute: c.positive("github.writes_per_minute", r.WritesPerMinute, 80),
		Token:           c.secret("github.token_env", r.TokenEnv, "github.token_file", r.TokenFile),
	}
	if !strings.HasSuffix(g.BaseURL, "/") {
		g.BaseURL += "/"
	}
	if g.PollInterval == 0 {
		g.PollInterval = 30 * time.Second
	}
	if g.PollInterval < 100*time.Millisecond {
		c.fail("github.poll_interval", "", "want at least 100ms, got %s", g.PollInterval)
	}
	switch hasToken := r.TokenEnv != "" || r.TokenFile != ""; {
	case r.App != nil && hasToken:
		c.fail("github.app", "keep one of the two", "both an App and a token are set")
	case r.App != nil:
		g.App = c.app(*r.App)
	case !hasToken:
		c.fail("github", "set token_env, token_file or app", "no credential is named")
	}
	if g.CAFile != "" {
		if _, err := os.Stat(g.CAFile); err != nil {
			c.fail("github.ca_file", "", "cannot read it: %v", err)
		}
	}
	for i, name := range r.WebhookEnv {
		g.WebhookSecrets = append(g.WebhookSecrets, c.secretEnv(fmt.Sprintf("github.webhook_secret_env[%d]", i), name))
	}
	for i, name := range r.WebhookFile {
		g.WebhookSecrets = append(g.WebhookSecrets, c.secretFile(fmt.Sprintf("github.webhook_secret_file[%d]", i), name))
	}
	if g.Webhooks && len(g.WebhookSecrets) == 0 {
		c.fail("github.webhooks", "set webhook_secret_env, or `webhooks: false` to live by polling alone", "webhooks are on and no webhook secret is named")
	}
	return g
}

func (c *checker) app(r RawApp) *App {
	a := &App{ID: r.ID, InstallationID: r.InstallationID}
	if r.ID <= 0 {
		c.fail("github.app.id", "it stands on the App's settings page", "want the App's id")
	}
	before := len(c.problems)
	a.Key = c.secret("github.app.private_key_env", r.KeyEnv, "github.app.private_key_file", r.KeyFile)
	path := "github.app.private_key_file"
	if r.KeyEnv != "" {
		path = "github.app.private_key_env"
	}
	switch {
	case len(c.problems) > before:
	case a.Key.Empty() && r.KeyEnv == "" && r.KeyFile == "":
		c.fail("github.app", "set private_key_file or private_key_env", "no private key is named")
	case !c.blind:
		c.pemKey(path, a.Key)
	}
	return a
}

func (c *checker) pemKey(path string, key secret.Value) {
	const hint = "download a new private key from the App's settings page"
	block, _ := pem.Decode([]byte(key.Reveal()))
	if block == nil {
		c.fail(path, hint, "the private key is not PEM")
		return
	}
	if _, err := x509.ParsePKCS1PrivateKey(block.Bytes); err == nil {
		return
	}
	if _, err := x509.ParsePKCS8PrivateKey(block.Bytes); err != nil {
		c.fail(path, hint, "the private key cannot be read: %v", err)
	}
}

func (c *checker) repositories() []Repository {
	if len(c.raw.Repositories) == 0 && c.raw.Discover == nil {
		c.fail("repositories", "list them as `- name: owner/name`, or let `discover` find them", "no repository is named")
	}
	var out []Repository
	seen := map[string]bool{}
	for i, r := range c.raw.Repositories {
		path := fmt.Sprintf("repositories[%d].name", i)
		repo, err := forge.ParseRepo(r.Name)
		if err != nil {
			c.fail(path, "", "%v", err)
		}
		if key := strings.ToLower(r.Name); seen[key] {
			c.fail(path, "", "%s is listed twice", r.Name)
		} else {
			seen[key] = true
		}
		entry := Repository{Repo: repo}
		if r.Tests != nil {
			t := c.tests(fmt.Sprintf("repositories[%d].tests", i), *r.Tests)
			entry.Tests = &t
		}
		out = append(out, entry)
	}
	return out
}

func (c *checker) tests(path string, r RawTests) Tests {
	t := Tests(r)
	if t.Timeout == 0 {
		t.Timeout = 10 * time.Minute
	}
	if t.Timeout < 0 {
		c.fail(path+".timeout", "", "want a time above 0")
	}
	if t.Reruns < 0 || t.Reruns > MaxReruns {
		c.fail(path+".reruns", "a test that needs more is not flaky but broken", "want 0 to %d", MaxReruns)
	}
	if c.doc.Has(path+".command") && (len(t.Command) == 0 || t.Command[0] == "") {
		c.fail(path+".command", "write it like [go, test, ./...]", "the command is empty")
	}
	return t
}

func (c *checker) labels() labels.Names {
	n, r := labels.Default(), c.raw.Labels
	for _, l := range []struct {
		key, given string
		into       *string
	}{
		{"triage", r.Triage, &n.Triage}, {"plan", r.Plan, &n.Plan},
		{"awaiting_approval", r.AwaitingApproval, &n.AwaitingApproval}, {"approved", r.Approved, &n.Approved},
		{"implement", r.Implement, &n.Implement}, {"review", r.Review, &n.Review}, {"done", r.Done, &n.Done},
		{"needs_human", r.NeedsHuman, &n.NeedsHuman}, {"declined", r.Declined, &n.Declined},
		{"stop", r.Stop, &n.Stop}, {"stop_all", r.StopAll, &n.StopAll}, {"auto", r.Auto, &n.Auto},
	} {
		*l.into = or(strings.TrimSpace(l.given), *l.into)
		// https://docs.github.com/rest/issues/labels: 50 characters; a comma
		// separates labels in list filters.
		if len([]rune(*l.into)) > 50 || strings.ContainsAny(*l.into, ",\n") {
			c.fail("labels."+l.key, "", "a label has at most 50 characters and no comma")
		}
	}
	seen := map[string]bool{}
	for _, l := range n.All() {
		if key := strings.ToLower(l); seen[key] {
			c.fail("labels", "", "two labels have the name %q", l)
		} else {
			seen[key] = true
		}
	}
	return n
}

func (c *checker) policy() labels.Policy {
	p := labels.DefaultPolicy()
	p.Outsiders = c.raw.Phases.Triage.Outsiders.Enabled
	known := []string{"triage", "plan", "implement", "review", "approve", "stop", "lift", "answer"}
	for _, key := range slices.Sorted(maps.Keys(c.raw.Permissions)) {
		path := "permissions." + key
		perm, err := forge.ParsePermission(c.raw.Permissions[key])
		if err != nil {
			c.fail(path, "", "%v", err)
			continue
		}
		if perm == forge.None && key != "answer" {
			c.fail(path, "use read to let everybody who can see the repository", `"none" would let strangers spend your money`)
		}
		switch key {
		case "approve":
			p.Approve = perm
		case "stop":
			p.Stop = perm
		case "lift":
			p.Lift = perm
		case "answer":
			p.Answer = perm
		default:
			if !slices.Contains(known, key) {
				c.fail(path, strictyaml.DidYouMean(key, known), "unknown key")
			}
			p.Start[labels.Phase(key)] = perm
		}
	}
	return p
}
