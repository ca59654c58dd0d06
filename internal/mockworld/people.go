package mockworld

import "fmt"

// do runs fn on a repository as an account, under the lock, and wakes those
// that wait. The account is added as a User when it is missing.
func (w *World) do(what, repo, actor string, fn func(r *repository, by *account) error) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return errClosed
	}
	r, err := w.repo(repo)
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	if actor == "" {
		return fmt.Errorf("%s in %s: who does it is missing", what, repo)
	}
	defer w.touch()
	if err := fn(r, w.account(actor, User)); err != nil {
		return fmt.Errorf("%s in %s as %s: %w", what, repo, actor, err)
	}
	return nil
}

func (w *World) doIssue(what, repo, actor string, n int, min Role, fn func(i *issue, by *account) error) error {
	return w.do(fmt.Sprintf("%s #%d", what, n), repo, actor, func(r *repository, by *account) error {
		i := r.issues[n]
		if i == nil || i.gone || i.movedTo != nil {
			return fmt.Errorf("no issue or pull request %d", n)
		}
		if own := i.author == by && (min == RoleTriage); !w.atLeast(r, by, min) && !own {
			return fmt.Errorf("role %s needed", min)
		}
		return fn(i, by)
	})
}

// AddIssue opens an issue and returns its number.
func (w *World) AddIssue(s IssueSpec) (int, error) {
	n := 0
	err := w.do("opening an issue", s.Repo, s.Author, func(r *repository, by *account) error {
		body := &s.Body
		if s.NoBody {
			body = nil
		}
		i, err := w.openIssue(r, by, s.Title, body, s.Labels)
		if err == nil {
			n = i.number
		}
		return err
	})
	return n, err
}

// OpenPull opens a pull request and returns its number.
func (w *World) OpenPull(s PullSpec) (int, error) {
	n := 0
	err := w.do("opening a pull request", s.Repo, s.Author, func(r *repository, by *account) error {
		i, err := w.openPull(r, by, s)
		if err == nil {
			n = i.number
		}
		return err
	})
	return n, err
}

// Label adds a label to an issue or pull request, making it in the repository
// if need be.
func (w *World) Label(repo string, n int, actor, name string) error {
	return w.doIssue("labelling", repo, actor, n, RoleTriage, func(i *issue, by *account) error {
		return w.addLabels(i, by, []string{name})
	})
}

// Unlabel removes a label from an issue or pull request.
func (w *World) Unlabel(repo string, n int, actor, name string) error {
	return w.doIssue("unlabelling", repo, actor, n, RoleTriage, func(i *issue, by *account) error {
		return w.removeLabel(i, by, name)
	})
}

// Comment comments on an issue or pull request and returns the comment's id.
func (w *World) Comment(repo string, n int, actor, body string) (int64, error) {
	var id int64
	err := w.doIssue("commenting on", repo, actor, n, NoRole, func(i *issue, by *account) error {
		c, err := w.addComment(i, by, body)
		if err == nil {
			id = c.id
		}
		return err
	})
	return id, err
}

// EditComment changes the body of a comment.
func (w *World) EditComment(repo string, id int64, actor, body string) error {
	return w.do("editing a comment", repo, actor, func(r *repository, by *account) error {
		c := r.comments[id]
		if c == nil {
			return fmt.Errorf("no comment %d", id)
		}
		return w.editComment(c, by, body)
	})
}

// DeleteComment deletes a comment.
func (w *World) DeleteComment(repo string, id int64, actor string) error {
	return w.do("deleting a comment", repo, actor, func(r *repository, by *account) error {
		c := r.comments[id]
		if c == nil {
			return fmt.Errorf("no comment %d", id)
		}
		w.deleteComment(c, by)
		return nil
	})
}

// EditIssue changes title or body of an issue or pull request.
func (w *World) EditIssue(repo string, n int, actor string, e IssueEdit) error {
	return w.doIssue("editing", repo, actor, n, RoleTriage, func(i *issue, by *account) error {
		return w.editIssue(i, by, e.Title, e.Body)
	})
}

// CloseIssue closes an issue or pull request; reason is completed,
// not_planned or duplicate, completed when empty.
func (w *World) CloseIssue(repo string, n int, actor, reason string) error {
	return w.doIssue("closing", repo, actor, n, RoleTriage, func(i *issue, by *account) error {
		return w.setOpen(i, by, false, reason, "")
	})
}

// ReopenIssue opens a closed issue or pull request again.
func (w *World) ReopenIssue(repo string, n int, actor string) error {
	return w.doIssue("reopening", repo, actor, n, RoleTriage, func(i *issue, by *account) error {
		return w.setOpen(i, by, true, "", "")
	})
}

// LockIssue locks the conversation.
func (w *World) LockIssue(repo string, n int, actor, reason string) error {
	return w.doIssue("locking", repo, actor, n, RoleWrite, func(i *issue, by *account) error {
		w.setLocked(i, by, true, reason)
		return nil
	})
}

// UnlockIssue unlocks the conversation.
func (w *World) UnlockIssue(repo string, n int, actor string) error {
	return w.doIssue("unlocking", repo, actor, n, RoleWrite, func(i *issue, by *account) error {
		w.setLocked(i, by, false, "")
		return nil
	})
}

// ConvertToDiscussion turns an issue into a discussion: it is left closed and
// locked, with the event converted_to_discussion.
func (w *World) ConvertToDiscussion(repo string, n int, actor string) error {
	return w.doIssue("converting", repo, actor, n, RoleWrite, func(i *issue, by *account) error {
		w.convert(i, by)
		return nil
	})
}

// DeleteIssue deletes an issue; it answers 410 from then on.
func (w *World) DeleteIssue(repo string, n int, actor string) error {
	return w.doIssue("deleting", repo, actor, n, RoleAdmin, func(i *issue, by *account) error {
		i.gone = true
		w.emitIssue(i, "deleted", by, nil)
		return nil
	})
}

// TransferIssue moves an issue to another repository and returns its number
// there; the old address redirects.
func (w *World) TransferIssue(repo string, n int, actor, to string) (int, error) {
	moved := 0
	err := w.doIssue("transferring", repo, actor, n, RoleWrite, func(i *issue, by *account) error {
		target, err := w.repo(to)
		if err != nil {
			return err
		}
		moved = w.transfer(i, by, target).number
		return nil
	})
	return moved, err
}

// MergePull merges a pull request by method merge (when empty) or squash and
// returns the merge commit.
func (w *World) MergePull(repo string, n int, actor, method string) (string, error) {
	sha := ""
	err := w.doIssue("merging", repo, actor, n, RoleWrite, func(i *issue, by *account) error {
		var err error
		sha, err = w.mergePull(i, by, method, "", "", "")
		return err
	})
	return sha, err
}

// SubmitReview reviews a pull request and returns the review's id. The rules
// are those of the API: comments sit on lines of the diff, and an author may
// only comment.
func (w *World) SubmitReview(repo string, n int, s ReviewSpec) (int64, error) {
	var id int64
	err := w.doIssue("reviewing", repo, s.Actor, n, NoRole, func(i *issue, by *account) error {
		comments := make([]draftComment, len(s.Comments))
		for k, c := range s.Comments {
			comments[k] = draftComment{Path: c.Path, Line: c.Line, Body: c.Body}
		}
		rv, err := w.addReview(i, by, "", s.Event, s.Body, comments)
		if err == nil {
			id = rv.id
		}
		return err
	})
	return id, err
}

// PushCommit commits to a branch, making it if need be, and returns the SHA.
// Pull requests, push webhooks and closing keywords follow.
func (w *World) PushCommit(repo string, c CommitSpec) (string, error) {
	sha := ""
	actor := c.Actor
	if actor == "" {
		w.mu.Lock()
		if r := w.repos[key(repo)]; r != nil {
			actor = r.owner.login
		}
		w.mu.Unlock()
	}
	err := w.do("pushing", repo, actor, func(r *repository, by *account) error {
		var err error
		if sha, err = w.commit(r, c); err != nil {
			return err
		}
		return w.reconcile(r, by)
	})
	return sha, err
}

// DeleteBranch deletes a branch; open pull requests from it are closed.
func (w *World) DeleteBranch(repo, actor, branch string) error {
	return w.do("deleting branch "+branch, repo, actor, func(r *repository, by *account) error {
		if r.refs["refs/heads/"+branch] == "" {
			return fmt.Errorf("no branch %q", branch)
		}
		if err := r.git.updateRef(w.ctx, "refs/heads/"+branch, ""); err != nil {
			return err
		}
		return w.reconcile(r, by)
	})
}

// DeleteRepoLabel deletes a label from the repository and so from all its
// issues.
func (w *World) DeleteRepoLabel(repo, actor, name string) error {
	return w.do("deleting label "+name, repo, actor, func(r *repository, by *account) error {
		return w.deleteLabel(r, by, name)
	})
}

// RenameLabel renames a label of the repository and so of all its issues.
func (w *World) RenameLabel(repo, actor, old, name string) error {
	return w.do("renaming label "+old, repo, actor, func(r *repository, by *account) error {
		l := r.label(old)
		if l == nil {
			return fmt.Errorf("no label %q", old)
		}
		return w.editLabel(r, by, l, &name, nil, nil)
	})
}

// SetCheckRun reports a check run and returns its id.
func (w *World) SetCheckRun(repo string, s CheckSpec) (int64, error) {
	var id int64
	err := w.do("setting check "+s.Name, repo, "github-actions[bot]", func(r *repository, _ *account) error {
		c, err := w.setCheck(r, s)
		if err == nil {
			id = c.id
		}
		return err
	})
	return id, err
}

// SetStatus reports a commit status.
func (w *World) SetStatus(repo string, s StatusSpec) error {
	if s.Actor == "" {
		s.Actor = "ci-bot"
	}
	return w.do("setting status "+s.Context, repo, s.Actor, func(r *repository, by *account) error {
		_, err := w.setStatus(r, by, s)
		return err
	})
}

// RenameRepo gives a repository another name; the old one redirects.
func (w *World) RenameRepo(repo, actor, name string) error {
	return w.do("renaming", repo, actor, func(r *repository, by *account) error {
		full := r.owner.login + "/" + name
		if w.repos[key(full)] != nil {
			return fmt.Errorf("%s exists", full)
		}
		was := r.name
		w.move(r, r.owner, name)
		w.emit(r, "repository", "renamed", by, obj{"changes": obj{"repository": obj{"name": obj{"from": was}}}})
		return nil
	})
}

// ArchiveRepo makes a repository read-only.
func (w *World) ArchiveRepo(repo, actor string) error {
	return w.do("archiving", repo, actor, func(r *repository, by *account) error {
		r.archived = true
		w.emit(r, "repository", "archived", by, nil)
		return nil
	})
}
