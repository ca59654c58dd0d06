package mockworld

import (
	"fmt"
	"strings"
)

const zeroSHA = "0000000000000000000000000000000000000000"

// commit writes a commit of a person into the bare repository; reconcile
// tells the world of it.
func (w *World) commit(r *repository, c CommitSpec) (string, error) {
	if c.Branch == "" {
		c.Branch = r.defaultBranch
	}
	ref := "refs/heads/" + c.Branch
	parent := r.refs[ref]
	if parent == "" || c.Force {
		from := c.From
		if from == "" {
			from = r.defaultBranch
		}
		parent = w.resolve(r, from)
		if parent == "" && c.From != "" {
			return "", fmt.Errorf("branch %s: no commit %q to start from", c.Branch, c.From)
		}
	}
	sha, err := r.git.commit(w.ctx, c, ref, parent)
	if err != nil {
		return "", fmt.Errorf("committing to %s: %w", c.Branch, err)
	}
	return sha, nil
}

// resolve is the commit that a branch, tag, reference or SHA means, or "".
// What the world knows of costs no process.
func (w *World) resolve(r *repository, rev string) string {
	for _, name := range []string{rev, "refs/heads/" + rev} {
		if sha := r.refs[name]; sha != "" {
			return sha
		}
	}
	if len(rev) == 40 {
		for _, sha := range r.refs {
			if sha == rev {
				return sha
			}
		}
	}
	if len(r.refs) == 0 {
		return "" // it is empty
	}
	return r.git.resolve(w.ctx, rev)
}

// reconcile compares the references with what the world knew, and does what
// GitHub does after a push: webhooks, new heads of pull requests, closing
// keywords of commits on the default branch. The lock is held.
func (w *World) reconcile(r *repository, by *account) error {
	now, err := r.git.refs(w.ctx)
	if err != nil {
		return err
	}
	old := r.refs
	r.refs = now
	for _, ref := range changedRefs(old, now) {
		if strings.HasPrefix(ref, "refs/pull/") {
			continue
		}
		if err := w.refChanged(r, by, ref, old[ref], now[ref]); err != nil {
			return err
		}
	}
	return nil
}

func changedRefs(old, now map[string]string) []string {
	all := map[string]bool{}
	for k, v := range now {
		if old[k] != v {
			all[k] = true
		}
	}
	for k := range old {
		if now[k] == "" {
			all[k] = true
		}
	}
	return sortedKeys(all)
}

func (w *World) refChanged(r *repository, by *account, ref, before, after string) error {
	r.pushed = w.now()
	branch, isBranch := strings.CutPrefix(ref, "refs/heads/")
	tag, isTag := strings.CutPrefix(ref, "refs/tags/")
	short, refType := branch, "branch"
	if isTag {
		short, refType = tag, "tag"
	}
	if isBranch || isTag {
		payload := obj{"ref": short, "ref_type": refType, "pusher_type": "user"}
		if before == "" {
			payload["master_branch"], payload["description"] = r.defaultBranch, nil
			w.emit(r, "create", "", by, payload)
		}
		commits, err := w.pushedCommits(r, before, after)
		if err != nil {
			return err
		}
		w.emitPush(r, by, ref, before, after, commits)
		if after == "" {
			w.emit(r, "delete", "", by, payload)
		}
		if isBranch && branch == r.defaultBranch {
			w.closeByCommits(r, by, commits)
		}
	}
	if isBranch {
		return w.headMoved(r, by, branch, before, after)
	}
	return nil
}

// headMoved brings the open pull requests of a branch up to date.
func (w *World) headMoved(r *repository, by *account, branch, before, after string) error {
	for _, n := range issueNumbers(r) {
		i := r.issues[n]
		p := i.pull
		if p == nil || !i.open {
			continue
		}
		if p.base == branch {
			if after == "" {
				if err := w.setOpen(i, by, false, "", ""); err != nil {
					return err
				}
				continue
			}
			// A push that contains the head counts as a merge.
			if n, err := r.git.count(w.ctx, after+".."+p.headSHA); err == nil && n == 0 {
				w.markMerged(i, by, after)
			}
			continue
		}
		if p.fork || p.head != branch {
			continue
		}
		if after == "" {
			if err := w.setOpen(i, by, false, "", ""); err != nil {
				return err
			}
			w.addEvent(i, "head_ref_deleted", by)
			continue
		}
		p.headSHA = after
		if err := w.keepPullRef(i); err != nil {
			return err
		}
		w.bump(i)
		if forced, err := w.forced(r, before, after); err == nil && forced {
			w.addEvent(i, "head_ref_force_pushed", by).commit = after
		}
		w.emitIssue(i, "synchronize", by, obj{"before": before, "after": after})
	}
	return nil
}

// forced says that a move was not a fast-forward.
func (w *World) forced(r *repository, before, after string) (bool, error) {
	if before == "" || after == "" {
		return false, nil
	}
	_, err := r.git.run(w.ctx, nil, "merge-base", "--is-ancestor", before, after)
	if exitCode(err) == 1 {
		return true, nil
	}
	return false, err
}

// pushedCommits are the commits of a move, oldest first, at most 20 as in a
// push payload.
func (w *World) pushedCommits(r *repository, before, after string) ([]*gitCommit, error) {
	if after == "" {
		return nil, nil
	}
	revs := []string{after, "--not"}
	if before != "" {
		revs = append(revs, before)
	} else {
		if r.refs["refs/heads/"+r.defaultBranch] == after {
			revs = []string{after}
		} else {
			revs = append(revs, "refs/heads/"+r.defaultBranch)
		}
	}
	list, err := r.git.log(w.ctx, 20, revs...)
	if err != nil {
		return nil, err
	}
	for a, b := 0, len(list)-1; a < b; a, b = a+1, b-1 {
		list[a], list[b] = list[b], list[a]
	}
	return list, nil
}

func (w *World) closeByCommits(r *repository, by *account, commits []*gitCommit) {
	for _, c := range commits {
		for _, i := range w.closing(r, c.message) {
			if i.open {
				// Closing an open issue cannot fail.
				_ = w.setOpen(i, by, false, "completed", c.sha)
			}
		}
	}
}
