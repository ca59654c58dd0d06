package gh

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/google/go-github/v66/github"

	"github.com/pipelinebot/pipelinebot/internal/forge"
)

// OwnChecks is the beginning of the names of the bot's own check runs.
const OwnChecks = "pipelinebot/"

// Checks implements forge.Reviews. A check run counts as the bot's own when
// its App is the bot's, or its name begins with OwnChecks.
func (c *Client) Checks(ctx context.Context, r forge.Repo, sha string) ([]forge.Check, error) {
	runs, err := c.checkRuns(ctx, r, sha, "")
	if err != nil {
		return nil, err
	}
	out := []forge.Check{}
	for _, run := range runs {
		out = append(out, forge.Check{
			Name: run.GetName(), Done: run.GetStatus() == "completed", Conclusion: run.GetConclusion(),
			Own: c.own(run.GetName(), run.GetApp().GetID()),
		})
	}
	statuses, err := listAll[github.RepoStatus](ctx, c, request{
		op: fmt.Sprintf("reading the statuses of %s in %s", sha, r), path: repoPath(r, "commits", sha, "status") + "?per_page=100", repo: r,
	}, inField("statuses"))
	if err != nil {
		return nil, err
	}
	for _, s := range statuses {
		out = append(out, statusCheck(&s, c.own(s.GetContext(), 0)))
	}
	return out, nil
}

func statusCheck(s *github.RepoStatus, own bool) forge.Check {
	check := forge.Check{Name: s.GetContext(), Done: true, Own: own}
	switch s.GetState() {
	case "success":
		check.Conclusion = "success"
	case "pending":
		check.Done = false
	default: // failure, error and whatever comes
		check.Conclusion = "failure"
	}
	return check
}

func (c *Client) own(name string, app int64) bool {
	a, ok := c.auth.(*appAuth)
	return name == "pipelinebot" || strings.HasPrefix(name, OwnChecks) || ok && app == a.app.ID
}

func (c *Client) checkRuns(ctx context.Context, r forge.Repo, sha, name string) ([]github.CheckRun, error) {
	q := url.Values{"filter": {"latest"}, "per_page": {"100"}}
	if name != "" {
		q.Set("check_name", name)
	}
	return listAll[github.CheckRun](ctx, c, request{
		op: fmt.Sprintf("reading the check runs of %s in %s", sha, r), path: repoPath(r, "commits", sha, "check-runs") + "?" + q.Encode(), repo: r,
	}, inField("check_runs"))
}

// CheckRun is the bot's own verdict on a commit.
type CheckRun struct {
	// Name begins with OwnChecks, e.g. "pipelinebot/review".
	Name string
	SHA  string
	// Conclusion is GitHub's word (success, failure, neutral, action_required
	// …); "" while in progress.
	Conclusion string
	// Title is one line, Summary Markdown of at most 65,535 characters.
	Title, Summary string
	// DetailsURL may be "".
	DetailsURL string
}

type checkBody struct {
	Name       string       `json:"name"`
	HeadSHA    string       `json:"head_sha,omitempty"`
	Status     string       `json:"status"`
	Conclusion string       `json:"conclusion,omitempty"`
	DetailsURL string       `json:"details_url,omitempty"`
	Output     *checkOutput `json:"output,omitempty"`
}

type checkOutput struct {
	Title   string `json:"title"`
	Summary string `json:"summary"`
}

// PutCheck creates or updates the bot's check run of that name at that
// commit. Only Apps may write check runs: with a token it is KindDenied, at
// once and without asking, which the caller should tolerate.
func (c *Client) PutCheck(ctx context.Context, r forge.Repo, n CheckRun) error {
	op := fmt.Sprintf("writing check run %s at %s in %s", n.Name, n.SHA, r)
	a, ok := c.auth.(*appAuth)
	if !ok {
		return &forge.Error{Kind: forge.KindDenied, Op: op, Needs: "checks=write", Err: errors.New("only a GitHub App may write check runs; a token is configured")}
	}
	if !strings.HasPrefix(n.Name, OwnChecks) || n.SHA == "" {
		return &forge.Error{Kind: forge.KindInvalid, Op: op, Err: fmt.Errorf("want a commit and a name that begins with %s", OwnChecks)}
	}
	body := checkBody{Name: n.Name, HeadSHA: n.SHA, Status: "in_progress", Conclusion: n.Conclusion, DetailsURL: n.DetailsURL}
	if n.Conclusion != "" {
		body.Status = "completed"
	}
	if n.Title != "" {
		body.Output = &checkOutput{n.Title, n.Summary}
	}
	runs, err := c.checkRuns(ctx, r, n.SHA, n.Name)
	if err != nil {
		return err
	}
	for _, run := range runs {
		if run.GetName() == n.Name && run.GetApp().GetID() == a.app.ID {
			body.HeadSHA = ""
			return c.exchange(ctx, request{op: op, method: http.MethodPatch, repo: r, body: body, safe: true,
				path: repoPath(r, "check-runs", strconv.FormatInt(run.GetID(), 10))}, nil)
		}
	}
	return c.exchange(ctx, request{op: op, method: http.MethodPost, repo: r, body: body, path: repoPath(r, "check-runs")}, nil)
}
