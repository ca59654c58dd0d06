// Package gitws is the workspace driver on the git command: one bare mirror a
// repository, one worktree a run, diffs that count untracked files, commits
// that repeat to the same SHA, and pushes that overwrite only what is expected.
//
// The content of a worktree is hostile: nothing in it is executed. Git runs
// without system and user settings, hooks, file monitors, filters, external
// diffs and submodules, finds its repository by explicit path (never through
// the worktree's .git, which repository code may have rewritten), and has a
// credential only while it talks to the remote: handed over in the environment
// of that one process, to a helper that answers for that one host; never in an
// address, an argument or a file.
//
// It must not know forges, phases, stores or sandboxes. It may import flows
// (for Retry), internal/workspace and internal/secret, and runs git 2.36 or
// later.
package gitws

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"sync"

	"github.com/pipelinebot/pipelinebot/internal/secret"
	"github.com/pipelinebot/pipelinebot/internal/workspace"
)

// Options configure New.
type Options struct {
	// Dir keeps mirrors and worktrees; absolute, made if missing. One process
	// at a time may use it. Worktrees of one repository share a parent folder,
	// Dir/work/<repository>.
	Dir string
	// Token returns the credential for a clone address, asked before each
	// contact with the remote; an empty value, or a nil Token, is anonymous.
	Token func(ctx context.Context, cloneURL string) (secret.Value, error)
	// User is the name sent with the token; empty is "x-access-token", which
	// GitHub takes with every kind of token.
	User string
	// Git is the program; empty finds "git" on PATH.
	Git string
	// CAFile is a PEM bundle for a private certificate authority; optional.
	CAFile string
	// AllowFile permits file:// addresses, for tests.
	AllowFile bool
	// Scrubber cleans git's messages; nil still removes known token shapes.
	Scrubber *secret.Scrubber
	// Log gets what is fetched and pushed; nil discards.
	Log *slog.Logger
}

// Provider implements workspace.Provider.
type Provider struct {
	o     Options
	mu    sync.Mutex
	locks map[string]chan struct{} // by mirror name; a full channel is held
}

// New checks the options and makes the folders.
func New(o Options) (*Provider, error) {
	if !filepath.IsAbs(o.Dir) {
		return nil, fmt.Errorf("workspace folder %q: want an absolute path", o.Dir)
	}
	if o.Git == "" {
		o.Git = "git"
	}
	bin, err := exec.LookPath(o.Git)
	if err != nil {
		return nil, fmt.Errorf("finding git: %w; install git 2.36 or later", err)
	}
	o.Git = bin
	if o.CAFile != "" {
		if _, err := os.Stat(o.CAFile); err != nil {
			return nil, fmt.Errorf("certificate authority file: %w", err)
		}
	}
	if o.User == "" {
		o.User = "x-access-token"
	}
	if o.Scrubber == nil {
		o.Scrubber = secret.NewScrubber()
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	for _, d := range []string{"mirrors", "work", "home"} {
		if err := os.MkdirAll(filepath.Join(o.Dir, d), 0o700); err != nil {
			return nil, fmt.Errorf("making the workspace folder: %w", err)
		}
	}
	return &Provider{o: o, locks: map[string]chan struct{}{}}, nil
}

var _ workspace.Provider = (*Provider)(nil)

// remote is a checked clone address and where its mirror is.
type remote struct {
	url    string
	origin string // scheme://host of HTTP addresses, which credentials are for
	name   string // folder name of mirror and worktrees
	mirror string
}

func (p *Provider) remote(cloneURL string) (remote, error) {
	u, err := url.Parse(cloneURL)
	if err != nil {
		return remote{}, fmt.Errorf("clone address: %w", err)
	}
	switch {
	case u.User != nil:
		return remote{}, fmt.Errorf("clone address of host %q holds credentials: give them as a token instead", u.Host)
	case u.Scheme == "file" && p.o.AllowFile && u.Host == "":
	case (u.Scheme == "https" || u.Scheme == "http") && u.Host != "":
	default:
		return remote{}, fmt.Errorf("clone address %q: want https://host/owner/name", cloneURL)
	}
	sum := sha256.Sum256([]byte(cloneURL))
	name := slug(strings.TrimSuffix(path.Base(path.Dir(u.Path))+"-"+path.Base(u.Path), ".git")) + "-" + hex.EncodeToString(sum[:4])
	r := remote{url: cloneURL, name: name, mirror: filepath.Join(p.o.Dir, "mirrors", name+".git")}
	if u.Scheme != "file" {
		r.origin = u.Scheme + "://" + u.Host
	}
	return r, nil
}

// mayCarryToken keeps tokens off the open network.
func (r remote) mayCarryToken() error {
	u, err := url.Parse(r.url)
	if err != nil || u.Scheme != "http" {
		return err
	}
	if ip := net.ParseIP(u.Hostname()); u.Hostname() == "localhost" || (ip != nil && ip.IsLoopback()) {
		return nil
	}
	return fmt.Errorf("clone address %q would send the token unencrypted: use https", r.url)
}

var unsafeName = regexp.MustCompile(`[^A-Za-z0-9_-]+`)

// slug is a file name for s: safe, short, different for different s.
func slug(s string) string {
	clean := strings.Trim(unsafeName.ReplaceAllString(s, "-"), "-")
	if clean == s && len(s) <= 60 && s != "" {
		return s
	}
	sum := sha256.Sum256([]byte(s))
	if len(clean) > 40 {
		clean = clean[:40]
	}
	return clean + "-" + hex.EncodeToString(sum[:4])
}

// lock takes the repository's turn; the mirror and the list of worktrees are
// changed by one caller at a time.
func (p *Provider) lock(ctx context.Context, name string) (unlock func(), err error) {
	p.mu.Lock()
	c, ok := p.locks[name]
	if !ok {
		c = make(chan struct{}, 1)
		p.locks[name] = c
	}
	p.mu.Unlock()
	select {
	case c <- struct{}{}:
		return func() { <-c }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

var fullSHA = regexp.MustCompile(`^(?:[0-9a-f]{40}|[0-9a-f]{64})$`)

// Resolve implements workspace.Provider.
func (p *Provider) Resolve(ctx context.Context, cloneURL, branch string) (string, error) {
	r, err := p.remote(cloneURL)
	if err != nil {
		return "", err
	}
	unlock, err := p.lock(ctx, r.name)
	if err != nil {
		return "", err
	}
	err = p.ensureMirror(ctx, r)
	unlock()
	if err != nil {
		return "", err
	}
	ref := "HEAD"
	if branch != "" {
		ref = "refs/heads/" + branch
		if !validRef(ref) {
			return "", fmt.Errorf("branch %q is not a valid name: %w", branch, workspace.ErrNotFound)
		}
	}
	out, err := p.contact(ctx, r, lsDeadline, call{gitDir: r.mirror, args: []string{"ls-remote", r.url, ref}})
	if err != nil {
		return "", fmt.Errorf("resolving %s of %s: %w", ref, r.url, err)
	}
	for line := range strings.Lines(string(out)) {
		// ls-remote matches the tail of names: only the exact one counts.
		if sha, name, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "\t"); ok && name == ref && fullSHA.MatchString(sha) {
			return sha, nil
		}
	}
	return "", fmt.Errorf("resolving %s of %s: %w", ref, r.url, workspace.ErrNotFound)
}

// validRef follows git-check-ref-format(1), and refuses what a refspec or an
// option could be made of.
func validRef(ref string) bool {
	if !strings.HasPrefix(ref, "refs/") || strings.HasSuffix(ref, "/") || strings.HasSuffix(ref, ".") ||
		strings.Contains(ref, "..") || strings.Contains(ref, "@{") || strings.Contains(ref, "//") ||
		strings.ContainsAny(ref, " ~^:?*[\\\x7f") {
		return false
	}
	for _, c := range ref {
		if c < 0x20 {
			return false
		}
	}
	for _, part := range strings.Split(ref, "/") {
		if strings.HasPrefix(part, ".") || strings.HasSuffix(part, ".lock") {
			return false
		}
	}
	return true
}

// ensureMirror makes the bare repository once.
func (p *Provider) ensureMirror(ctx context.Context, r remote) error {
	if _, err := os.Stat(filepath.Join(r.mirror, "HEAD")); err == nil {
		return nil
	} else if !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("opening the mirror of %s: %w", r.url, err)
	}
	// A half-made mirror has no HEAD under its final name.
	half := r.mirror + ".new"
	if err := os.RemoveAll(half); err != nil {
		return fmt.Errorf("making the mirror of %s: %w", r.url, err)
	}
	if _, err := p.git(ctx, localDeadline, call{dir: p.o.Dir, args: []string{"init", "--quiet", "--bare", "--template=", half}}); err != nil {
		return fmt.Errorf("making the mirror of %s: %w", r.url, err)
	}
	if err := os.Rename(half, r.mirror); err != nil {
		return fmt.Errorf("making the mirror of %s: %w", r.url, err)
	}
	return nil
}

// ensureCommit fetches sha unless it is there. The caller holds the lock.
func (p *Provider) ensureCommit(ctx context.Context, r remote, sha string) error {
	if !fullSHA.MatchString(sha) {
		return fmt.Errorf("commit %q of %s: want a full SHA", sha, r.url)
	}
	has := func() bool {
		_, err := p.git(ctx, localDeadline, call{gitDir: r.mirror, args: []string{"cat-file", "-e", sha + "^{commit}"}})
		return err == nil
	}
	if has() {
		return nil
	}
	fetch := func(refspecs ...string) error {
		_, err := p.contact(ctx, r, fetchDeadline, call{gitDir: r.mirror, args: append([]string{
			"fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--no-recurse-submodules", "--no-auto-maintenance", r.url}, refspecs...)})
		return err
	}
	p.o.Log.InfoContext(ctx, "fetching", "url", r.url, "sha", sha)
	err := fetch(sha + ":" + keepRef(sha))
	if err == nil && has() {
		return nil
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if errors.Is(err, workspace.ErrDenied) {
		return fmt.Errorf("fetching %s of %s: %w", sha, r.url, err)
	}
	// Some servers give tips only.
	if err := fetch("+refs/heads/*:refs/remotes/origin/*"); err != nil {
		return fmt.Errorf("fetching %s of %s: %w", sha, r.url, err)
	}
	if !has() {
		return fmt.Errorf("fetching %s of %s: no branch leads to it: %w", sha, r.url, workspace.ErrNotFound)
	}
	return nil
}

// keepRef holds on to a commit, so that no clean-up of the mirror takes it.
func keepRef(sha string) string { return "refs/pipelinebot/keep/" + sha }
