package mockworld

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// draftComment is a review comment as the API takes it: by line and side, or
// by position in the diff.
type draftComment struct {
	Path      string `json:"path"`
	Line      int    `json:"line"`
	Side      string `json:"side"`
	StartLine int    `json:"start_line"`
	StartSide string `json:"start_side"`
	Position  int    `json:"position"`
	Body      string `json:"body"`
}

// addReview submits a review; event "" leaves it pending. sha is the commit
// that it is about, the head when empty.
func (w *World) addReview(i *issue, by *account, sha, event, body string, comments []draftComment) (*review, error) {
	p := i.pull
	if p == nil || !w.canSee(i.repo, by) {
		return nil, notFound()
	}
	if sha == "" {
		sha = p.headSHA
	}
	state, ok := map[string]string{"": "PENDING", "APPROVE": "APPROVED", "REQUEST_CHANGES": "CHANGES_REQUESTED", "COMMENT": "COMMENTED"}[event]
	if !ok {
		return nil, noSuchEvent()
	}
	if by == i.author && event == "APPROVE" {
		return nil, unprocessable("Can not approve your own pull request")
	}
	if by == i.author && event == "REQUEST_CHANGES" {
		return nil, unprocessable("Can not request changes on your own pull request")
	}
	if err := checkReviewText(body); err != nil {
		return nil, err
	}
	if body == "" && (event == "REQUEST_CHANGES" || event == "COMMENT" && len(comments) == 0) {
		return nil, unprocessable("Body cannot be blank when submitting a review with event " + event)
	}
	if i.locked && !w.atLeast(i.repo, by, RoleWrite) {
		return nil, refuse(http.StatusForbidden, "Unable to create review because conversation is locked.")
	}
	if !w.inPull(i, sha) {
		return nil, unprocessable("commit_id is not part of the pull request")
	}
	d, err := w.diffOf(i.repo, w.baseOf(i), sha)
	if err != nil {
		return nil, err
	}
	rv := &review{id: next(&w.ids.other), author: by, state: state, body: body, sha: sha, at: w.now()}
	var placed []*lineComment
	for _, c := range comments {
		lc, err := w.placeComment(d, rv, c)
		if err != nil {
			return nil, err
		}
		placed = append(placed, lc)
	}
	for _, lc := range placed {
		lc.id = next(&w.ids.comment)
	}
	p.reviews = append(p.reviews, rv)
	p.lineComments = append(p.lineComments, placed...)
	if state == "PENDING" {
		return rv, nil
	}
	w.submitted(i, rv, by)
	return rv, nil
}

// submitted tells the world of a review that is no longer pending.
func (w *World) submitted(i *issue, rv *review, by *account) {
	if k := slices.Index(i.pull.requested, by); k >= 0 {
		i.pull.requested = slices.Delete(slices.Clone(i.pull.requested), k, k+1)
	}
	e := w.addEvent(i, "reviewed", by)
	e.review, e.timelineOnly = rv, true
	w.bump(i)
	w.emit(i.repo, "pull_request_review", "submitted", by, obj{
		"review": w.hookedReview(i, rv), "pull_request": w.pullJSON(i, nil, false)})
	for _, lc := range i.pull.lineComments {
		if lc.review == rv {
			w.emit(i.repo, "pull_request_review_comment", "created", by, obj{
				"comment": w.lineCommentJSON(i, lc), "pull_request": w.pullJSON(i, nil, false)})
		}
	}
}

// hookedReview is a review as webhooks tell it, where states are written
// small.
func (w *World) hookedReview(i *issue, rv *review) obj {
	o := w.reviewJSON(i, rv)
	o["state"] = strings.ToLower(rv.state)
	return o
}

func unprocessable(message string) *apiErr {
	return &apiErr{status: http.StatusUnprocessableEntity, message: "Unprocessable Entity", errors: []any{message}}
}

func noSuchEvent() *apiErr {
	return unprocessable("Variable $event of type PullRequestReviewEvent was provided invalid value")
}

// checkReviewText is checkBody where refusals are plain texts.
func checkReviewText(body string) error {
	if checkBody("", body) != nil {
		return unprocessable(fmt.Sprintf("body is too long (maximum is %d characters)", maxBody))
	}
	return nil
}

// baseOf is the commit that the pull request is compared with.
func (w *World) baseOf(i *issue) string {
	if b := i.repo.refs["refs/heads/"+i.pull.base]; b != "" && !i.pull.merged {
		return b
	}
	return i.pull.baseSHA
}

// inPull says whether a commit is one of the pull request's.
func (w *World) inPull(i *issue, sha string) bool {
	if len(sha) != 40 || !isHex(sha) {
		return false
	}
	if sha == i.pull.headSHA {
		return true
	}
	_, err := i.repo.git.run(w.ctx, nil, "merge-base", "--is-ancestor", sha, i.pull.headSHA)
	return err == nil
}

// placeComment finds the line in the diff, or refuses as GitHub does.
func (w *World) placeComment(d *diff, rv *review, c draftComment) (*lineComment, error) {
	if strings.TrimSpace(c.Body) == "" {
		return nil, unprocessable("Body can't be blank")
	}
	if err := checkReviewText(c.Body); err != nil {
		return nil, err
	}
	if c.Side == "" {
		c.Side = "RIGHT"
	}
	for _, f := range d.files {
		if f.path != c.Path {
			continue
		}
		lines := f.right
		if c.Side == "LEFT" {
			lines = f.left
		}
		pos, ok := lines[c.Line]
		if c.Line == 0 && c.Position > 0 {
			pos = c.Position
			for line, at := range f.right {
				if at == pos {
					c.Line, ok = line, true
				}
			}
		}
		if ok && c.StartLine > 0 {
			_, ok = lines[c.StartLine]
			ok = ok && c.StartLine < c.Line
		}
		if !ok {
			return nil, unprocessable("Line could not be resolved")
		}
		return &lineComment{review: rv, author: rv.author, path: c.Path, line: c.Line, side: c.Side, position: pos,
			hunk: f.hunks[c.Line], start: c.StartLine, body: c.Body, sha: rv.sha, at: rv.at, edited: rv.at}, nil
	}
	return nil, unprocessable("Path could not be resolved")
}
