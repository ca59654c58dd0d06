package mockworld

import (
	"fmt"
	"net/http"
	"strings"
)

func (w *World) openPullFor(r *repository, head, base string) *issue {
	for _, n := range issueNumbers(r) {
		i := r.issues[n]
		if i.pull != nil && i.open && !i.pull.fork && i.pull.head == head && i.pull.base == base {
			return i
		}
	}
	return nil
}

func (w *World) openPull(r *repository, by *account, s PullSpec) (*issue, error) {
	if !w.canSee(r, by) {
		return nil, notFound()
	}
	if r.archived {
		return nil, refuse(http.StatusForbidden, "Repository was archived so is read-only.")
	}
	if s.Base == "" {
		s.Base = r.defaultBranch
	}
	head := r.refs["refs/heads/"+s.Head]
	base := r.refs["refs/heads/"+s.Base]
	fork := s.ForkFiles != nil
	if fork && base != "" {
		var err error
		ref := fmt.Sprintf("refs/pull/%d/head", r.nextNumber)
		if head, err = r.git.commit(w.ctx, CommitSpec{Files: s.ForkFiles, Message: s.Title}, ref, base); err != nil {
			return nil, err
		}
	}
	switch {
	case base == "":
		return nil, invalid("PullRequest", "base", "invalid")
	case head == "":
		return nil, invalid("PullRequest", "head", "invalid")
	case !fork && w.openPullFor(r, s.Head, s.Base) != nil:
		return nil, invalidWhy("PullRequest", "", fmt.Sprintf("A pull request already exists for %s:%s.", r.owner.login, s.Head))
	}
	n, err := r.git.count(w.ctx, base+".."+head)
	if err != nil {
		return nil, err
	}
	if n == 0 {
		return nil, invalidWhy("PullRequest", "", fmt.Sprintf("No commits between %s and %s", s.Base, s.Head))
	}
	if _, err := r.git.run(w.ctx, nil, "merge-base", base, head); err != nil {
		return nil, invalidWhy("PullRequest", "", fmt.Sprintf("The %s branch has no history in common with %s", s.Head, s.Base))
	}
	body := &s.Body
	if s.Body == "" {
		body = nil
	}
	i, err := w.newIssue(r, by, s.Title, body)
	if err != nil {
		return nil, err
	}
	i.pull = &pull{id: next(&w.ids.issue), head: s.Head, base: s.Base, headSHA: head, baseSHA: base, draft: s.Draft, fork: fork}
	if err := w.keepPullRef(i); err != nil {
		return nil, err
	}
	w.emitIssue(i, "opened", by, nil)
	w.crossReference(i, s.Body, by)
	return i, nil
}

// keepPullRef makes refs/pull/N/head follow the head.
func (w *World) keepPullRef(i *issue) error {
	name := fmt.Sprintf("refs/pull/%d/head", i.number)
	if err := i.repo.git.updateRef(w.ctx, name, i.pull.headSHA); err != nil {
		return err
	}
	i.repo.refs[name] = i.pull.headSHA
	return nil
}

// mergeable is null the first time it is asked of a pair of commits, as
// GitHub works it out in the background.
func (w *World) mergeable(i *issue) (ok *bool, err error) {
	p := i.pull
	if p.merged || !i.open {
		return nil, nil
	}
	base := i.repo.refs["refs/heads/"+p.base]
	pair := base + ".." + p.headSHA
	if p.mergeChecked != pair {
		p.mergeChecked = pair
		return nil, nil
	}
	_, clean, err := i.repo.git.mergeTree(w.ctx, base, p.headSHA)
	if err != nil {
		return nil, err
	}
	return &clean, nil
}

// mergePull merges; sha, when given, must be the head.
func (w *World) mergePull(i *issue, by *account, method, sha, title, message string) (string, error) {
	p := i.pull
	if p == nil {
		return "", notFound()
	}
	if method == "" {
		method = "merge"
	}
	r := i.repo
	base := r.refs["refs/heads/"+p.base]
	switch {
	case r.archived:
		return "", refuse(http.StatusForbidden, "Repository was archived so is read-only.")
	case method == "rebase":
		return "", refuse(http.StatusMethodNotAllowed, "Rebase merges are not allowed on this repository.")
	case method != "merge" && method != "squash":
		return "", invalid("PullRequest", "merge_method", "invalid")
	case p.merged || !i.open || base == "":
		return "", refuse(http.StatusMethodNotAllowed, "Pull Request is not mergeable")
	case p.draft:
		return "", refuse(http.StatusMethodNotAllowed, "Pull Request is still a draft")
	case sha != "" && sha != p.headSHA:
		return "", refuse(http.StatusConflict, "Head branch was modified. Review and try the merge again.")
	}
	tree, clean, err := r.git.mergeTree(w.ctx, base, p.headSHA)
	if err != nil {
		return "", err
	}
	if !clean {
		return "", refuse(http.StatusMethodNotAllowed, "Pull Request is not mergeable")
	}
	if title == "" {
		title = fmt.Sprintf("Merge pull request #%d from %s/%s", i.number, r.owner.login, p.head)
		if method == "squash" {
			title = fmt.Sprintf("%s (#%d)", i.title, i.number)
		}
	}
	if message == "" && method == "merge" {
		message = i.title
	}
	parents := []string{base, p.headSHA}
	if method == "squash" {
		parents = parents[:1]
	}
	merged, err := r.git.commitTree(w.ctx, tree, strings.TrimSpace(title+"\n\n"+message), parents...)
	if err != nil {
		return "", err
	}
	if err := r.git.updateRef(w.ctx, "refs/heads/"+p.base, merged); err != nil {
		return "", err
	}
	p.baseSHA = base
	w.markMerged(i, by, merged)
	return merged, w.reconcile(r, by)
}

// markMerged ends a pull request and closes the issues that its body names,
// when it went into the default branch.
func (w *World) markMerged(i *issue, by *account, sha string) {
	p := i.pull
	p.merged, p.mergedAt, p.mergedBy, p.mergeSHA = true, w.now(), by, sha
	i.open, i.closedAt, i.closedBy = false, w.now(), by
	w.bump(i)
	w.addEvent(i, "merged", by).commit = sha
	w.addEvent(i, "closed", by)
	w.emitIssue(i, "closed", by, nil)
	if p.base != i.repo.defaultBranch {
		return
	}
	for _, target := range w.closing(i.repo, text(i.body)) {
		if target.open {
			// Closing an open issue cannot fail.
			_ = w.setOpen(target, by, false, "completed", sha)
		}
	}
}
