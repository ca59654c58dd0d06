package mockworld

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
)

func reviewerRoutes() []*route {
	const asked = repoPath + "/pulls/{number}/requested_reviewers"
	const lines, one = repoPath + "/pulls/{number}/comments", repoPath + "/pulls/comments/{id}"
	const perm = "pull_requests"
	return []*route{
		{method: "GET", pattern: asked, perm: perm, handle: requestedReviewers},
		{method: "POST", pattern: asked, perm: perm, role: RoleTriage, body: []string{"reviewers", "team_reviewers"}, handle: requestReviewers},
		{method: "DELETE", pattern: asked, perm: perm, role: RoleTriage, body: []string{"reviewers", "team_reviewers"}, handle: unrequestReviewers},
		{method: "POST", pattern: lines, perm: perm, handle: createLineComment,
			body: []string{"body", "commit_id", "path", "line", "side", "start_line", "start_side", "position", "in_reply_to", "subject_type"}},
		{method: "POST", pattern: lines + "/{id}/replies", perm: perm, body: []string{"body"}, handle: replyToLine},
		{method: "GET", pattern: one, perm: perm, handle: getLineComment},
		{method: "PATCH", pattern: one, perm: perm, body: []string{"body"}, handle: patchLineComment},
		{method: "DELETE", pattern: one, perm: perm, handle: deleteLineComment},
	}
}

func (w *World) usersJSON(list []*account) []any {
	out := []any{}
	for _, a := range list {
		if u := w.userJSON(a); u != nil {
			out = append(out, u)
		}
	}
	return out
}

func requestedReviewers(w *World, c *call) (*reply, error) {
	i, err := w.pullOf(c)
	if err != nil {
		return nil, err
	}
	return ok(obj{"users": w.usersJSON(i.pull.requested), "teams": []any{}})
}

// reviewers reads whom a route names.
func (w *World) reviewers(c *call) (*issue, []*account, error) {
	i, err := w.pullOf(c)
	if err != nil {
		return nil, nil, err
	}
	var in struct {
		Reviewers []string `json:"reviewers"`
		Teams     []string `json:"team_reviewers"`
	}
	if err := c.decode(&in); err != nil {
		return nil, nil, err
	}
	if len(in.Teams) > 0 {
		return nil, nil, w.violation(c, "teams are not known")
	}
	var list []*account
	for _, name := range in.Reviewers {
		a := w.accounts[key(name)]
		if a == nil || !w.atLeast(c.repo, a, RoleRead) {
			return nil, nil, refuse(http.StatusUnprocessableEntity, "Reviews may only be requested from collaborators. One or more of the users or teams you specified is not a collaborator of the %s repository.", c.repo.full())
		}
		list = append(list, a)
	}
	return i, list, nil
}

func requestReviewers(w *World, c *call) (*reply, error) {
	i, list, err := w.reviewers(c)
	if err != nil {
		return nil, err
	}
	if slices.Contains(list, i.author) {
		return nil, refuse(http.StatusUnprocessableEntity, "Review cannot be requested from pull request author.")
	}
	for _, a := range list {
		if slices.Contains(i.pull.requested, a) {
			continue
		}
		i.pull.requested = append(i.pull.requested, a)
		w.addEvent(i, "review_requested", c.by).reviewer = a
		w.bump(i)
		w.emitIssue(i, "review_requested", c.by, obj{"requested_reviewer": w.userJSON(a)})
	}
	return created(w.pullJSON(i, nil, false))
}

func unrequestReviewers(w *World, c *call) (*reply, error) {
	i, list, err := w.reviewers(c)
	if err != nil {
		return nil, err
	}
	for _, a := range list {
		k := slices.Index(i.pull.requested, a)
		if k < 0 {
			continue
		}
		i.pull.requested = slices.Delete(slices.Clone(i.pull.requested), k, k+1)
		w.addEvent(i, "review_request_removed", c.by).reviewer = a
		w.bump(i)
		w.emitIssue(i, "review_request_removed", c.by, obj{"requested_reviewer": w.userJSON(a)})
	}
	return ok(w.pullJSON(i, nil, false))
}

// createLineComment makes a review of one comment, as GitHub does.
func createLineComment(w *World, c *call) (*reply, error) {
	i, err := w.pullOf(c)
	if err != nil {
		return nil, err
	}
	var in struct {
		draftComment
		SHA     string `json:"commit_id"`
		ReplyTo int64  `json:"in_reply_to"`
		Subject string `json:"subject_type"`
	}
	if err := c.decode(&in); err != nil {
		return nil, err
	}
	if in.ReplyTo != 0 {
		return w.reply(c, i, in.ReplyTo, in.Body)
	}
	switch {
	case in.Subject == "file":
		return nil, w.violation(c, "comments on whole files are not known")
	case in.SHA == "":
		return nil, invalid("PullRequestReviewComment", "commit_id", "missing_field")
	case in.Path == "":
		return nil, invalid("PullRequestReviewComment", "path", "missing_field")
	}
	rv, err := w.addReview(i, c.by, in.SHA, "COMMENT", "", []draftComment{in.draftComment})
	if err != nil {
		return nil, aboutThread(err)
	}
	return w.madeLine(c, i, rv)
}

// aboutThread words a refusal of a review as that of its one comment.
func aboutThread(err error) error {
	var e *apiErr
	if !errors.As(err, &e) || len(e.errors) != 1 {
		return err
	}
	switch e.errors[0] {
	case "Line could not be resolved":
		return invalidWhy("PullRequestReviewComment", "pull_request_review_thread.line", "pull_request_review_thread.line must be part of the diff")
	case "Path could not be resolved":
		return invalidWhy("PullRequestReviewComment", "pull_request_review_thread.path", "pull_request_review_thread.path is not part of the pull request")
	case "commit_id is not part of the pull request":
		return invalidWhy("PullRequestReviewComment", "commit_id", "commit_id is not part of the pull request")
	}
	if why, plain := e.errors[0].(string); plain {
		return invalidWhy("PullRequestReviewComment", "body", why)
	}
	return err
}

// madeLine is the answer that shows the comment of a review of one.
func (w *World) madeLine(c *call, i *issue, rv *review) (*reply, error) {
	for _, lc := range i.pull.lineComments {
		if lc.review == rv {
			out := jsonReply(http.StatusCreated, w.lineCommentJSON(i, lc))
			out.set("Location", w.apiURL(c.repo, fmt.Sprintf("/pulls/comments/%d", lc.id)))
			return out, nil
		}
	}
	return nil, notFound()
}

func replyToLine(w *World, c *call) (*reply, error) {
	i, err := w.pullOf(c)
	if err != nil {
		return nil, err
	}
	id, err := c.number("id")
	if err != nil {
		return nil, err
	}
	body, err := c.bodyText("PullRequestReviewComment")
	if err != nil {
		return nil, err
	}
	return w.reply(c, i, id, body)
}

func (w *World) reply(c *call, i *issue, to int64, body string) (*reply, error) {
	if strings.TrimSpace(body) == "" {
		return nil, invalid("PullRequestReviewComment", "body", "missing_field")
	}
	if err := checkBody("PullRequestReviewComment", body); err != nil {
		return nil, err
	}
	if i.locked && !w.atLeast(i.repo, c.by, RoleWrite) {
		return nil, refuse(http.StatusForbidden, "Unable to create comment because conversation is locked.")
	}
	for _, lc := range i.pull.lineComments {
		if lc.id != to || lc.review.state == "PENDING" {
			continue
		}
		rv := &review{id: next(&w.ids.other), author: c.by, state: "COMMENTED", sha: lc.sha, at: w.now()}
		answer := *lc
		answer.id, answer.review, answer.author, answer.body = next(&w.ids.comment), rv, c.by, body
		answer.at, answer.edited, answer.replyTo = w.now(), w.now(), to
		if lc.replyTo != 0 {
			answer.replyTo = lc.replyTo
		}
		i.pull.reviews = append(i.pull.reviews, rv)
		i.pull.lineComments = append(i.pull.lineComments, &answer)
		w.submitted(i, rv, c.by)
		return w.madeLine(c, i, rv)
	}
	return nil, notFound()
}

// lineOf finds the review comment of a route.
func (w *World) lineOf(c *call) (*issue, *lineComment, error) {
	id, err := c.number("id")
	if err != nil {
		return nil, nil, err
	}
	for _, n := range issueNumbers(c.repo) {
		i := c.repo.issues[n]
		if i.pull == nil || i.gone {
			continue
		}
		for _, lc := range i.pull.lineComments {
			if lc.id == id && (lc.review.state != "PENDING" || lc.author == c.by) {
				return i, lc, nil
			}
		}
	}
	return nil, nil, notFound()
}

func getLineComment(w *World, c *call) (*reply, error) {
	i, lc, err := w.lineOf(c)
	if err != nil {
		return nil, err
	}
	return ok(w.lineCommentJSON(i, lc))
}

func (w *World) mayEditLine(c *call, lc *lineComment) error {
	if lc.author != c.by && !w.atLeast(c.repo, c.by, RoleWrite) {
		return refuse(http.StatusForbidden, "Must have admin rights to Repository.")
	}
	return nil
}

func patchLineComment(w *World, c *call) (*reply, error) {
	i, lc, err := w.lineOf(c)
	if err != nil {
		return nil, err
	}
	body, err := c.bodyText("PullRequestReviewComment")
	if err != nil {
		return nil, err
	}
	if err := w.mayEditLine(c, lc); err != nil {
		return nil, err
	}
	if strings.TrimSpace(body) == "" {
		return nil, invalid("PullRequestReviewComment", "body", "missing_field")
	}
	if err := checkBody("PullRequestReviewComment", body); err != nil {
		return nil, err
	}
	was := lc.body
	lc.body, lc.edited = body, w.now()
	if lc.review.state != "PENDING" {
		w.emit(c.repo, "pull_request_review_comment", "edited", c.by, obj{"changes": obj{"body": obj{"from": was}},
			"comment": w.lineCommentJSON(i, lc), "pull_request": w.pullJSON(i, nil, false)})
	}
	return ok(w.lineCommentJSON(i, lc))
}

func deleteLineComment(w *World, c *call) (*reply, error) {
	i, lc, err := w.lineOf(c)
	if err != nil {
		return nil, err
	}
	if err := w.mayEditLine(c, lc); err != nil {
		return nil, err
	}
	k := slices.Index(i.pull.lineComments, lc)
	i.pull.lineComments = slices.Delete(slices.Clone(i.pull.lineComments), k, k+1)
	if lc.review.state != "PENDING" {
		w.emit(c.repo, "pull_request_review_comment", "deleted", c.by, obj{"comment": w.lineCommentJSON(i, lc), "pull_request": w.pullJSON(i, nil, false)})
	}
	return noContent()
}
