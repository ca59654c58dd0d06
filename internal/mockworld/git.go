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
	// A bare repository is a few files; writing them saves ten processes.
	for _, d := range []string{"objects/info", "objects/pack", "refs/heads", "refs/tags"} {
		if err := os.MkdirAll(filepath.Join(g.dir, d), 0o755); err != nil {
			return nil, fmt.Errorf("making repository %s/%s: %w", owner, name, err)
		}
	}
	for file, content := range map[string]string{"HEAD": "ref: refs/heads/" + branch + "\n", "config": bareConfig} {
		if err := os.WriteFile(filepath.Join(g.dir, file), []byte(content), 0o600); err != nil {
			return nil, fmt.Errorf("making repository %s/%s: %w", owner, name, err)
		}
	}
	return g, nil
}

// bareConfig hides references to pull requests from pushes, and trades the
// safety of the disk for speed.
const bareConfig = `[core]
	repositoryformatversion = 0
	filemode = true
	bare = true
	logAllRefUpdates = false
	fsync = none
[gc]
	auto = 0
[receive]
	autogc = false
	hideRefs = refs/pull
	fsckObjects = true
[uploadpack]
	allowFilter = true
	allowAnySHA1InWant = true
`

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

// commit writes one commit to a reference through fast-import, forcing it
// there, and returns its SHA; parent "" makes a root commit.
func (g *gitRepo) commit(ctx context.Context, c CommitSpec, ref, parent string) (string, error) {
	g.commits++
	stamp := fmt.Sprintf("%s <%s> %d +0000\n", gitName, gitEmail, gitEpoch+60*g.commits)
	msg := c.Message
	if msg == "" {
		msg = "Update files"
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "commit %s\nmark :1\nauthor %scommitter %sdata %d\n%s\n", ref, stamp, stamp, len(msg), msg)
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
	marks := filepath.Join(g.dir, "marks")
	if _, err := g.run(ctx, &b, "fast-import", "--quiet", "--done", "--force", "--date-format=raw", "--export-marks="+marks); err != nil {
		return "", err
	}
	out, err := os.ReadFile(marks)
	if err != nil {
		return "", fmt.Errorf("reading the new commit back: %w", err)
	}
	sha, ok := strings.CutPrefix(strings.TrimSpace(string(out)), ":1 ")
	if !ok {
		return "", fmt.Errorf("reading the new commit back: marks are %q", out)
	}
	return sha, nil
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
