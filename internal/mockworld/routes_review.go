package mockworld

import "net/http"

func reviewRoutes() []*route {
	const one = repoPath + "/pulls/{number}"
	return []*route{
		{method: "GET", pattern: one + "/reviews", list: true, perm: "pull_requests", handle: listReviews},
		{method: "POST", pattern: one + "/reviews", perm: "pull_requests", body: []string{"commit_id", "body", "event", "comments"}, handle: createReview},
		{method: "GET", pattern: one + "/reviews/{id}", perm: "pull_requests", handle: getReview},
		{method: "PUT", pattern: one + "/reviews/{id}", perm: "pull_requests", body: []string{"body"}, handle: editReview},
		{method: "DELETE", pattern: one + "/reviews/{id}", perm: "pull_requests", handle: deleteReview},
		{method: "POST", pattern: one + "/reviews/{id}/events", perm: "pull_requests", body: []string{"body", "event"}, handle: submitReview},
		{method: "PUT", pattern: one + "/reviews/{id}/dismissals", perm: "pull_requests", role: RoleWrite, body: []string{"message", "event"}, handle: dismissReview},
		{method: "GET", pattern: one + "/reviews/{id}/comments", list: true, perm: "pull_requests", handle: reviewComments},
		{method: "GET", pattern: one + "/comments", list: true, perm: "pull_requests", query: []string{"sort", "direction", "since"}, handle: lineComments},
	}
}

func listReviews(w *World, c *call) (*reply, error) {
	i, err := w.pullOf(c)
	if err != nil {
		return nil, err
	}
	var list []*review
	for _, rv := range i.pull.reviews {
		if rv.state != "PENDING" || rv.author == c.by {
			list = append(list, rv)
		}
	}
	return all(c, list, func(rv *review) obj { return w.reviewJSON(i, rv) })
}

func createReview(w *World, c *call) (*reply, error) {
	i, err := w.pullOf(c)
	if err != nil {
		return nil, err
	}
	var in struct {
		SHA      string         `json:"commit_id"`
		Body     string         `json:"body"`
		Event    string         `json:"event"`
		Comments []draftComment `json:"comments"`
	}
	if err := c.decode(&in); err != nil {
		return nil, err
	}
	for _, rv := range i.pull.reviews {
		if rv.state == "PENDING" && rv.author == c.by && in.Event == "" {
			return nil, unprocessable("User can only have one pending review per pull request")
		}
	}
	rv, err := w.addReview(i, c.by, in.SHA, in.Event, in.Body, in.Comments)
	if err != nil {
		return nil, err
	}
	return ok(w.reviewJSON(i, rv))
}

func (w *World) reviewOf(c *call) (*issue, *review, error) {
	i, err := w.pullOf(c)
	if err != nil {
		return nil, nil, err
	}
	id, err := c.number("id")
	if err != nil {
		return nil, nil, err
	}
	for _, rv := range i.pull.reviews {
		if rv.id == id && (rv.state != "PENDING" || rv.author == c.by) {
			return i, rv, nil
		}
	}
	return nil, nil, notFound()
}

func getReview(w *World, c *call) (*reply, error) {
	i, rv, err := w.reviewOf(c)
	if err != nil {
		return nil, err
	}
	return ok(w.reviewJSON(i, rv))
}

func editReview(w *World, c *call) (*reply, error) {
	i, rv, err := w.reviewOf(c)
	if err != nil {
		return nil, err
	}
	if c.body["body"] == nil {
		return nil, unprocessable("body can't be blank")
	}
	body, err := c.bodyText("PullRequestReview")
	if err != nil {
		return nil, err
	}
	if rv.author != c.by {
		return nil, refuse(http.StatusForbidden, "Must have admin rights to Repository.")
	}
	if err := checkReviewText(body); err != nil {
		return nil, err
	}
	rv.body = body
	return ok(w.reviewJSON(i, rv))
}

func deleteReview(w *World, c *call) (*reply, error) {
	i, rv, err := w.reviewOf(c)
	if err != nil {
		return nil, err
	}
	if rv.state != "PENDING" {
		return nil, unprocessable("Can not delete a non-pending pull request review")
	}
	for k, x := range i.pull.reviews {
		if x == rv {
			i.pull.reviews = append(i.pull.reviews[:k:k], i.pull.reviews[k+1:]...)
			break
		}
	}
	return ok(w.reviewJSON(i, rv))
}

func submitReview(w *World, c *call) (*reply, error) {
	i, rv, err := w.reviewOf(c)
	if err != nil {
		return nil, err
	}
	var in struct {
		Body  *string `json:"body"`
		Event string  `json:"event"`
	}
	if err := c.decode(&in); err != nil {
		return nil, err
	}
	state := map[string]string{"APPROVE": "APPROVED", "REQUEST_CHANGES": "CHANGES_REQUESTED", "COMMENT": "COMMENTED"}[in.Event]
	switch {
	case state == "":
		return nil, noSuchEvent()
	case rv.state != "PENDING":
		return nil, unprocessable("Can not submit a review that is not pending")
	case c.by == i.author && in.Event != "COMMENT":
		return nil, unprocessable("Can not approve or request changes on your own pull request")
	}
	if in.Body != nil {
		rv.body = *in.Body
	}
	rv.state, rv.at = state, w.now()
	w.submitted(i, rv, c.by)
	return ok(w.reviewJSON(i, rv))
}

func dismissReview(w *World, c *call) (*reply, error) {
	i, rv, err := w.reviewOf(c)
	if err != nil {
		return nil, err
	}
	if !oneOf(rv.state, "APPROVED", "CHANGES_REQUESTED") {
		return nil, unprocessable("Can not dismiss a commented pull request review")
	}
	rv.state = "DISMISSED"
	w.addEvent(i, "review_dismissed", c.by)
	w.emit(c.repo, "pull_request_review", "dismissed", c.by, obj{"review": w.hookedReview(i, rv), "pull_request": w.pullJSON(i, nil, false)})
	return ok(w.reviewJSON(i, rv))
}

func reviewComments(w *World, c *call) (*reply, error) {
	i, rv, err := w.reviewOf(c)
	if err != nil {
		return nil, err
	}
	var list []*lineComment
	for _, lc := range i.pull.lineComments {
		if lc.review == rv {
			list = append(list, lc)
		}
	}
	return all(c, list, func(lc *lineComment) obj { return w.lineCommentJSON(i, lc) })
}

func lineComments(w *World, c *call) (*reply, error) {
	i, err := w.pullOf(c)
	if err != nil {
		return nil, err
	}
	var list []*lineComment
	for _, lc := range i.pull.lineComments {
		if lc.review.state != "PENDING" {
			list = append(list, lc)
		}
	}
	return all(c, list, func(lc *lineComment) obj { return w.lineCommentJSON(i, lc) })
}
