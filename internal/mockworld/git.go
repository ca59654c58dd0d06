package mockworld

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"time"
)

// gitRepo is a bare repository behind the git program.
type gitRepo struct {
	program string
	dir     string
	home    string
	commits int // made by the world; dates count up with it
}

// gitEpoch is the date of the first commit that the world makes; each later
// one comes a minute after, so that SHAs do not depend on when it ran.
const gitEpoch = 1767225600 // 2026-01-01T00:00:00Z

const (
	gitName  = "Mock World"
	gitEmail = "world@users.noreply.example.com"
)

func (w *World) newGit(owner, name, branch string) (*gitRepo, error) {
	g := &gitRepo{
		program: w.opts.Git,
		dir:     filepath.Join(w.dir, "git", strings.ToLower(owner), strings.ToLower(name)+".git"),
		home:    filepath.Join(w.dir, "home"),
	}
	if _, err := os.Stat(g.dir); err == nil {
		return nil, fmt.Errorf("making repository %s/%s: %s exists", owner, name, g.dir)
	}
	if err := os.MkdirAll(g.dir, 0o755); err != nil {
		return nil, fmt.Errorf("making repository %s/%s: %w", owner, name, err)
	}
	if _, err := g.run(w.ctx, nil, "init", "--quiet", "--bare", "--initial-branch="+branch, "."); err != nil {
		return nil, err
	}
	for _, kv := range [][2]string{
		{"gc.auto", "0"}, {"receive.autogc", "false"}, {"receive.hideRefs", "refs/pull"},
		{"uploadpack.allowFilter", "true"}, {"uploadpack.allowAnySHA1InWant", "true"},
		{"core.logAllRefUpdates", "false"}, {"core.fsync", "none"}, {"receive.fsckObjects", "true"},
	} {
		if _, err := g.run(w.ctx, nil, "config", kv[0], kv[1]); err != nil {
			return nil, err
		}
	}
	return g, nil
}

// env is all that git sees of the machine.
func (g *gitRepo) env(extra ...string) []string {
	date := strconv.Itoa(gitEpoch+60*g.commits) + " +0000"
	return append([]string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + g.home, "LC_ALL=C", "TZ=UTC",
		"GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_TERMINAL_PROMPT=0",
		"GIT_AUTHOR_NAME=" + gitName, "GIT_AUTHOR_EMAIL=" + gitEmail, "GIT_AUTHOR_DATE=" + date,
		"GIT_COMMITTER_NAME=" + gitName, "GIT_COMMITTER_EMAIL=" + gitEmail, "GIT_COMMITTER_DATE=" + date,
	}, extra...)
}

func (g *gitRepo) cmd(ctx context.Context, env []string, args ...string) *exec.Cmd {
	c := exec.CommandContext(ctx, g.program, args...)
	c.Dir = g.dir
	c.Env = g.env(env...)
	c.WaitDelay = 5 * time.Second
	return c
}

// run is git's standard output.
func (g *gitRepo) run(ctx context.Context, stdin io.Reader, args ...string) ([]byte, error) {
	return g.runEnv(ctx, nil, stdin, args...)
}

func (g *gitRepo) runEnv(ctx context.Context, env []string, stdin io.Reader, args ...string) ([]byte, error) {
	c := g.cmd(ctx, env, args...)
	var out, errOut bytes.Buffer
	c.Stdin, c.Stdout, c.Stderr = stdin, &out, &errOut
	if err := c.Run(); err != nil {
		return out.Bytes(), fmt.Errorf("running git %s: %w: %s", args[0], err, strings.TrimSpace(errOut.String()))
	}
	return out.Bytes(), nil
}

// exitCode is the exit status in err's chain, or -1.
func exitCode(err error) int {
	var e *exec.ExitError
	if errors.As(err, &e) {
		return e.ExitCode()
	}
	return -1
}

// refs are all references, full name to SHA.
func (g *gitRepo) refs(ctx context.Context) (map[string]string, error) {
	out, err := g.run(ctx, nil, "for-each-ref", "--format=%(objectname) %(refname)")
	if err != nil {
		return nil, err
	}
	m := map[string]string{}
	for line := range strings.Lines(string(out)) {
		sha, name, ok := strings.Cut(strings.TrimSpace(line), " ")
		if ok {
			m[name] = sha
		}
	}
	return m, nil
}

// resolve is the commit that a branch, tag, full reference or SHA means; ""
// when there is none.
func (g *gitRepo) resolve(ctx context.Context, rev string) string {
	if rev == "" || strings.HasPrefix(rev, "-") || strings.ContainsAny(rev, " ^~:?*[\\\n") || strings.Contains(rev, "..") || strings.Contains(rev, "@{") {
		return ""
	}
	for _, name := range []string{rev, "refs/heads/" + rev, "refs/tags/" + rev, "refs/" + rev} {
		if name == rev && !strings.HasPrefix(rev, "refs/") && !isHex(rev) && rev != "HEAD" {
			continue
		}
		out, err := g.run(ctx, nil, "rev-parse", "--quiet", "--verify", "--end-of-options", name+"^{commit}")
		if err == nil {
			return strings.TrimSpace(string(out))
		}
	}
	return ""
}

func isHex(s string) bool {
	return len(s) >= 7 && len(s) <= 40 && strings.Trim(s, "0123456789abcdefABCDEF") == ""
}

// updateRef moves, makes (old "") or removes (sha "") a reference.
func (g *gitRepo) updateRef(ctx context.Context, name, sha string) error {
	if sha == "" {
		_, err := g.run(ctx, nil, "update-ref", "-d", name)
		return err
	}
	_, err := g.run(ctx, nil, "update-ref", name, sha)
	return err
}

// commit writes one commit on a branch through fast-import and returns its
// SHA; parent "" makes a root commit.
func (g *gitRepo) commit(ctx context.Context, c CommitSpec, parent string) (string, error) {
	g.commits++
	stamp := fmt.Sprintf("%s <%s> %d +0000\n", gitName, gitEmail, gitEpoch+60*g.commits)
	msg := c.Message
	if msg == "" {
		msg = "Update files"
	}
	var b bytes.Buffer
	tmp := "refs/world/new"
	fmt.Fprintf(&b, "commit %s\nauthor %scommitter %sdata %d\n%s\n", tmp, stamp, stamp, len(msg), msg)
	if parent != "" {
		fmt.Fprintf(&b, "from %s\n", parent)
	}
	for _, p := range c.Delete {
		fmt.Fprintf(&b, "D %s\n", quotePath(p))
	}
	for _, group := range []struct {
		mode  string
		files map[string]string
	}{{"100644", c.Files}, {"100755", c.Executable}, {"120000", c.Symlinks}} {
		for _, p := range sortedKeys(group.files) {
			fmt.Fprintf(&b, "M %s inline %s\ndata %d\n%s\n", group.mode, quotePath(p), len(group.files[p]), group.files[p])
		}
	}
	for _, p := range sortedKeys(c.Submodules) {
		fmt.Fprintf(&b, "M 160000 %s %s\n", c.Submodules[p], quotePath(p))
	}
	b.WriteString("done\n")
	if _, err := g.run(ctx, &b, "fast-import", "--quiet", "--done", "--force", "--date-format=raw"); err != nil {
		return "", err
	}
	sha := g.resolve(ctx, tmp)
	if sha == "" {
		return "", errors.New("reading the new commit back: it is not there")
	}
	return sha, g.updateRef(ctx, tmp, "")
}

// quotePath is fast-import's C-style quoting.
func quotePath(p string) string {
	r := strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)
	return `"` + r.Replace(p) + `"`
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	return keys
}

// count is the number of commits that a revision range reaches.
func (g *gitRepo) count(ctx context.Context, revs ...string) (int, error) {
	out, err := g.run(ctx, nil, append([]string{"rev-list", "--count"}, revs...)...)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(string(out)))
}

// mergeTree merges b into a and returns the tree; ok is false on a conflict.
func (g *gitRepo) mergeTree(ctx context.Context, a, b string) (tree string, ok bool, err error) {
	out, err := g.run(ctx, nil, "merge-tree", "--write-tree", a, b)
	if err != nil {
		if exitCode(err) == 1 {
			return "", false, nil
		}
		return "", false, err
	}
	return strings.TrimSpace(string(out)), true, nil
}

// commitTree makes a commit of a tree.
func (g *gitRepo) commitTree(ctx context.Context, tree, msg string, parents ...string) (string, error) {
	g.commits++
	args := []string{"commit-tree", tree, "-m", msg}
	for _, p := range parents {
		args = append(args, "-p", p)
	}
	out, err := g.run(ctx, nil, args...)
	return strings.TrimSpace(string(out)), err
}
