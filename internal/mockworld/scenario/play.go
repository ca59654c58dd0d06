package scenario

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/pipelinebot/pipelinebot/internal/mockworld"
)

// play runs the timeline; the first step that cannot be done ends it.
func (r *running) play(ctx context.Context) error {
	r.acted()
	for i, st := range r.s.Timeline {
		where := r.s.Place(fmt.Sprintf("timeline[%d]", i))
		if st.Repo == "" {
			st.Repo = r.s.World.Repos[0].Name
		}
		if st.Issue == 0 {
			st.Issue = 1
		}
		err := r.await(ctx, st)
		for err == nil && r.paused(ctx) { // people wait while a stop is in force, and look again
			err = r.await(ctx, st)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", where, err)
		}
		acts := setFields(st.Do)
		if len(acts) == 0 {
			continue
		}
		r.note("step", "%s", strings.TrimSpace(st.Who+" "+describe(st.Do, acts[0])))
		if err := r.act(ctx, st); err != nil {
			return fmt.Errorf("%s: %w", where, err)
		}
		r.acted()
	}
	return nil
}

func (r *running) acted() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stepped = time.Now()
}

func describe(a Act, name string) string {
	for _, v := range []string{a.Label, a.Unlabel, a.Comment, a.Close, a.StopBot, a.DeleteLabel, a.DeleteBranch, a.Release} {
		if v != "" {
			return name + " " + v
		}
	}
	return name
}

// act does one action.
func (r *running) act(ctx context.Context, st Step) error {
	w, d, n := r.world, st.Do, st.Issue
	if st.Pull {
		p, err := r.newestPull(st.Repo)
		if err != nil {
			return err
		}
		n = p.Number
	}
	var err error
	switch {
	case d.Label != "":
		return w.Label(st.Repo, n, st.Who, d.Label)
	case d.Unlabel != "":
		return w.Unlabel(st.Repo, n, st.Who, d.Unlabel)
	case d.Comment != "":
		_, err = w.Comment(st.Repo, n, st.Who, d.Comment)
		return err
	case d.Approve:
		return r.approve(ctx, st)
	case d.EditComment != nil, d.DeleteComment != "":
		return r.changeComment(st, n)
	case d.EditIssue != nil:
		return w.EditIssue(st.Repo, n, st.Who, mockworld.IssueEdit{Title: d.EditIssue.Title, Body: d.EditIssue.Body})
	case d.Close != "":
		return w.CloseIssue(st.Repo, n, st.Who, d.Close)
	case d.Reopen:
		return w.ReopenIssue(st.Repo, n, st.Who)
	case d.Lock:
		return w.LockIssue(st.Repo, n, st.Who, "resolved")
	case d.Convert:
		return w.ConvertToDiscussion(st.Repo, n, st.Who)
	case d.Open != nil:
		i := *d.Open
		if i.Repo == "" {
			i.Repo = st.Repo
		}
		return addIssue(w, i, maintainer(r.s.World, i))
	case d.DeleteUser != "":
		return w.DeleteUser(d.DeleteUser)
	case d.DeleteIssue:
		return w.DeleteIssue(st.Repo, n, st.Who)
	case d.Transfer != "":
		_, err = w.TransferIssue(st.Repo, n, st.Who, d.Transfer)
		return err
	case d.RenameRepo != "":
		return w.RenameRepo(st.Repo, st.Who, d.RenameRepo)
	case d.SetRole != nil:
		for login, role := range d.SetRole {
			err = errors.Join(err, w.SetRole(st.Repo, login, mockworld.Role(role)))
		}
		return err
	case d.SetPermissions != nil:
		return w.SetAppPermissions(BotLogin, d.SetPermissions)
	case d.DeleteLabel != "":
		return w.DeleteRepoLabel(st.Repo, st.Who, d.DeleteLabel)
	case d.RenameLabel != nil:
		return w.RenameLabel(st.Repo, st.Who, d.RenameLabel.From, d.RenameLabel.To)
	case d.Release != "":
		return w.Release(d.Release)
	case d.Advance > 0:
		r.clock.Advance(d.Advance)
		return nil
	case d.RevokeToken:
		return w.RevokeToken(botToken)
	case d.StopBot != "":
		return r.bots.stop(ctx, d.StopBot)
	case d.StartBot:
		return r.bots.start(ctx)
	case d.SecondBot != "":
		return r.bots.second(ctx, d.SecondBot)
	case d.Redeliver != nil:
		return r.redeliver(*d.Redeliver)
	case d.Forge != nil:
		return r.sendWebhook(ctx, *d.Forge)
	}
	return r.actOnCode(st)
}

// actOnCode does what concerns branches and pull requests.
func (r *running) actOnCode(st Step) error {
	w, d := r.world, st.Do
	switch {
	case d.Push != nil:
		_, err := w.PushCommit(st.Repo, mockworld.CommitSpec{
			Actor: st.Who, Branch: d.Push.Branch, From: d.Push.From, Force: d.Push.Force,
			Message: d.Push.Message, Files: d.Push.Files, Delete: d.Push.Delete,
		})
		return err
	case d.OpenPull != nil:
		_, err := w.OpenPull(mockworld.PullSpec{
			Repo: st.Repo, Author: st.Who, Title: d.OpenPull.Title, Body: d.OpenPull.Body, Head: d.OpenPull.Head,
			ForkFiles: d.OpenPull.ForkFiles,
		})
		return err
	case d.DeleteBranch != "":
		snap, err := w.Snapshot()
		if err != nil {
			return err
		}
		for name := range snap.Repos[st.Repo].Branches {
			if strings.Contains(name, d.DeleteBranch) {
				return w.DeleteBranch(st.Repo, st.Who, name)
			}
		}
		return fmt.Errorf("deleting a branch: none has %q in its name", d.DeleteBranch)
	}
	p, err := r.newestPull(st.Repo)
	if err != nil {
		return err
	}
	switch {
	case d.Merge:
		_, err = w.MergePull(st.Repo, p.Number, st.Who, "")
	case d.Review != nil:
		_, err = w.SubmitReview(st.Repo, p.Number, mockworld.ReviewSpec{Actor: st.Who, Event: d.Review.Event, Body: d.Review.Body})
	case d.Check != nil:
		_, err = w.SetCheckRun(st.Repo, mockworld.CheckSpec{SHA: p.HeadSHA, Name: d.Check.Name, Status: d.Check.Status, Conclusion: d.Check.Conclusion})
	}
	return err
}

func (r *running) newestPull(repo string) (mockworld.PullState, error) {
	snap, err := r.world.Snapshot()
	if err != nil {
		return mockworld.PullState{}, err
	}
	p, ok := newestPull(snap.Repos[repo])
	if !ok {
		return p, fmt.Errorf("%s has no pull request yet", repo)
	}
	return p, nil
}

// approve waits for the bot's plan comment and answers it.
func (r *running) approve(ctx context.Context, st Step) error {
	var hash string
	err := r.world.Wait(ctx, func(snap mockworld.Snapshot) bool {
		i, _ := Seen{World: snap}.issue(st.Repo, st.Issue)
		h, ok := planHash(r.bots.bot.Login, i)
		hash = h
		return ok
	})
	if err != nil {
		return fmt.Errorf("waiting for a comment that says /pipeline approve HASH: %w", err)
	}
	_, err = r.world.Comment(st.Repo, st.Issue, st.Who, "/pipeline approve "+hash)
	return err
}

// changeComment edits or deletes the first comment that contains a text.
func (r *running) changeComment(st Step, n int) error {
	d := st.Do
	find := d.DeleteComment
	if d.EditComment != nil {
		find = d.EditComment.Find
	}
	snap, err := r.world.Snapshot()
	if err != nil {
		return err
	}
	i, _ := Seen{World: snap}.issue(st.Repo, n)
	for _, c := range i.Comments {
		if !strings.Contains(c.Body, find) {
			continue
		}
		if d.EditComment == nil {
			return r.world.DeleteComment(st.Repo, c.ID, st.Who)
		}
		body := d.EditComment.Body
		if d.EditComment.Append != "" {
			body = c.Body + d.EditComment.Append
		}
		return r.world.EditComment(st.Repo, c.ID, st.Who, body)
	}
	return fmt.Errorf("no comment on #%d contains %q", n, find)
}
