package config

import (
	"fmt"
	"path"
	"strings"
	"time"

	"github.com/pipelinebot/pipelinebot/internal/forge"
)

// Discover says which of the repositories that the credential can reach are
// served, beside the ones that are listed.
type Discover struct {
	// Allow and Deny are patterns of owner/name, lower case, as in path.Match.
	Allow, Deny []string
	// Every is the time between looks.
	Every time.Duration
}

// Serves reports that a repository that was found is to be served: some
// pattern allows it, and none denies it.
func (d *Discover) Serves(r forge.Repo) bool {
	return d != nil && matches(d.Allow, r) && !matches(d.Deny, r)
}

func matches(patterns []string, r forge.Repo) bool {
	name := strings.ToLower(r.String())
	for _, p := range patterns {
		if ok, err := path.Match(p, name); err == nil && ok {
			return true
		}
	}
	return false
}

const (
	usualDiscovery    = 10 * time.Minute
	shortestDiscovery = time.Second
)

func (c *checker) discover() *Discover {
	r := c.raw.Discover
	if r == nil {
		return nil
	}
	d := &Discover{Allow: c.repoPatterns("discover.allow", r.Allow), Deny: c.repoPatterns("discover.deny", r.Deny), Every: r.Every}
	if len(r.Allow) == 0 {
		c.fail("discover.allow", `write it like ["acme/*"]; ["*/*"] is everything that the credential can reach`, "no pattern allows anything")
	}
	if d.Every == 0 {
		d.Every = usualDiscovery
	}
	if d.Every < shortestDiscovery {
		c.fail("discover.every", "", "want at least %s, got %s", shortestDiscovery, d.Every)
	}
	return d
}

// repoPatterns are patterns of owner/name, lower case: names are the same in
// either case.
func (c *checker) repoPatterns(at string, patterns []string) []string {
	var out []string
	for i, p := range patterns {
		if _, err := path.Match(p, "x/y"); err != nil || strings.Count(p, "/") != 1 || strings.HasPrefix(p, "/") || strings.HasSuffix(p, "/") {
			c.fail(fmt.Sprintf("%s[%d]", at, i), `write it like "acme/*"`, "this pattern matches no owner/name: %q", p)
			continue
		}
		out = append(out, strings.ToLower(p))
	}
	return out
}
