package gitws

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/pipelinebot/pipelinebot/internal/workspace"
)

// Commit implements workspace.Workspace. The worktree's HEAD stays at the
// parent, so that the same content commits to the same SHA again.
func (w *worktree) Commit(ctx context.Context, c workspace.Commit) (string, error) {
	for what, v := range map[string]string{"name": c.Name, "email": c.Email} {
		if strings.Trim(v, " .,:;<>\"'\\") == "" || strings.ContainsAny(v, "<>\n\x00") {
			return "", fmt.Errorf("committing in worktree %s: %s %q can't stand in a commit", w.s.Key, what, v)
		}
	}
	if strings.TrimSpace(c.Message) == "" || strings.ContainsRune(c.Message, 0) {
		return "", fmt.Errorf("committing in worktree %s: the message is empty or holds a zero byte", w.s.Key)
	}
	if c.When.IsZero() {
		return "", fmt.Errorf("committing in worktree %s: the date is missing", w.s.Key)
	}
	tree, err := w.snapshot(ctx)
	if err != nil {
		return "", err
	}
	before, err := w.run(ctx, call{gitDir: w.r.mirror, args: []string{"rev-parse", "--verify", "--quiet", w.s.Parent + "^{tree}"}})
	if err != nil {
		return "", fmt.Errorf("committing in worktree %s: %w", w.s.Key, err)
	}
	if tree == strings.TrimSpace(string(before)) {
		return "", fmt.Errorf("committing in worktree %s: %w", w.s.Key, workspace.ErrEmpty)
	}
	date := fmt.Sprintf("@%d +0000", c.When.Unix())
	out, err := w.run(ctx, call{
		gitDir: w.r.mirror, args: []string{"commit-tree", "-p", w.s.Parent, "-F", "-", tree}, stdin: []byte(message(c)),
		env: []string{
			"GIT_AUTHOR_NAME=" + c.Name, "GIT_AUTHOR_EMAIL=" + c.Email, "GIT_AUTHOR_DATE=" + date,
			"GIT_COMMITTER_NAME=" + c.Name, "GIT_COMMITTER_EMAIL=" + c.Email, "GIT_COMMITTER_DATE=" + date,
		},
	})
	if err != nil {
		return "", fmt.Errorf("committing in worktree %s: %w", w.s.Key, err)
	}
	sha := strings.TrimSpace(string(out))
	if _, err := w.run(ctx, call{gitDir: w.r.mirror, args: []string{"update-ref", keepRef(sha), sha}}); err != nil {
		return "", fmt.Errorf("keeping commit %s: %w", sha, err)
	}
	return sha, nil
}

// message ends with one newline, after the trailer when there is one. A
// trailer joins a last paragraph that consists of trailers only.
func message(c workspace.Commit) string {
	text := strings.TrimRight(strings.ReplaceAll(c.Message, "\r\n", "\n"), " \t\n")
	if !c.SignOff {
		return text + "\n"
	}
	line := fmt.Sprintf("Signed-off-by: %s <%s>", c.Name, c.Email)
	paragraphs := strings.Split(text, "\n\n")
	last := strings.Split(paragraphs[len(paragraphs)-1], "\n")
	trailers := len(paragraphs) > 1
	for _, l := range last {
		if l == line {
			return text + "\n"
		}
		key, _, ok := strings.Cut(l, ": ")
		trailers = trailers && ok && key != "" && !strings.ContainsAny(key, " \t")
	}
	if trailers {
		return text + "\n" + line + "\n"
	}
	return text + "\n\n" + line + "\n"
}

// Push implements workspace.Workspace.
func (w *worktree) Push(ctx context.Context, p workspace.Push) error {
	if !fullSHA.MatchString(p.SHA) || (p.Expect != "" && !fullSHA.MatchString(p.Expect)) {
		return fmt.Errorf("pushing %q to %s: want full SHAs", p.SHA, p.Ref)
	}
	if !strings.HasPrefix(p.Ref, "refs/heads/") || !validRef(p.Ref) {
		return fmt.Errorf("pushing %s to %q: want a full ref below refs/heads/", p.SHA, p.Ref)
	}
	w.p.o.Log.InfoContext(ctx, "pushing", "url", w.r.url, "ref", p.Ref, "sha", p.SHA)
	_, err := w.p.contact(ctx, w.r, pushDeadline, call{gitDir: w.r.mirror, args: []string{
		"push", "--porcelain", "--no-verify", "--no-signed", "--force-with-lease=" + p.Ref + ":" + p.Expect, w.r.url, p.SHA + ":" + p.Ref,
	}})
	if err == nil {
		return nil
	}
	var f *failure
	if errors.As(err, &f) && conflicts(f.output) && !errors.Is(err, workspace.ErrDenied) {
		return fmt.Errorf("pushing to %s: it is not what was expected: %w: %w", p.Ref, workspace.ErrConflict, err)
	}
	return fmt.Errorf("pushing to %s: %w", p.Ref, err)
}

// conflicts reads the report of `push --porcelain`: "!\tfrom:to\treason".
func conflicts(report []byte) bool {
	for line := range strings.Lines(string(report)) {
		if !strings.HasPrefix(line, "!\t") {
			continue
		}
		for _, why := range []string{"(stale info)", "(non-fast-forward)", "(fetch first)", "(already exists)",
			"(cannot lock ref", "reference already exists", "(incorrect old value provided)", "(failed to update ref)", "(failed to lock)"} {
			if strings.Contains(line, why) {
				return true
			}
		}
	}
	return false
}
