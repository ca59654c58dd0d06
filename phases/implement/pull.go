package implement

import (
	"context"
	"fmt"
	"strings"

	"github.com/pipelinebot/pipelinebot/flows"
	"github.com/pipelinebot/pipelinebot/internal/forge"
	"github.com/pipelinebot/pipelinebot/phases/blob"
	"github.com/pipelinebot/pipelinebot/phases/delivery"
	"github.com/pipelinebot/pipelinebot/phases/gates"
	"github.com/pipelinebot/pipelinebot/phases/issue"
	"github.com/pipelinebot/pipelinebot/phases/markdown"
	"github.com/pipelinebot/pipelinebot/phases/plandoc"
	"github.com/pipelinebot/pipelinebot/phases/tree"
)

// openPull opens the branch's pull request, once; an open one is adopted. It
// reads branch, default_branch, issue_ref, plan_ref, plan_hash, baseline_ref,
// evidence_ref, problems_ref and diff_ref; it writes pr and the result.
func (p phase) openPull() flows.Action {
	return flows.Action{
		Name: "implement.open_pr", Version: "1", Effects: true,
		Reads: []string{"branch", "default_branch", "issue_ref", "plan_ref", "plan_hash", "baseline_ref",
			"evidence_ref", "problems_ref", "diff_ref"},
		Writes: []string{"pr", "result"}, Sets: []string{"pr_opened"},
		Run: issue.Guard(func(ctx context.Context, c flows.Call) (flows.Result, error) {
			ref, err := issue.Ref(c)
			if err != nil {
				return flows.Result{}, err
			}
			branch := c.In.Str("branch")
			title, body, err := p.pullText(ctx, c)
			if err != nil {
				return flows.Result{}, err
			}
			number, err := delivery.OpenPull(ctx, c, p.Pulls, ref.Repo, forge.NewPull{
				Title: title, Body: body, Head: branch, Base: c.In.Str("default_branch"),
			})
			if err != nil {
				return flows.Result{}, err
			}
			return flows.Result{
				Delta: flows.Delta{"pr": number, "result": "pr_opened"},
				Note:  fmt.Sprintf("pull request #%d", number),
			}, nil
		}),
	}
}

// pullText is title and body. Only "Fixes #N" of this issue links anything.
func (p phase) pullText(ctx context.Context, c flows.Call) (title, body string, err error) {
	s, err := issue.Load(ctx, c)
	if err != nil {
		return "", "", err
	}
	d, err := plandoc.Load(ctx, c)
	if err != nil {
		return "", "", err
	}
	before, err := evidence(ctx, c, "baseline_ref")
	if err != nil {
		return "", "", err
	}
	after, err := evidence(ctx, c, "evidence_ref")
	if err != nil {
		return "", "", err
	}
	found, err := blob.GetJSON[[]gates.Finding](ctx, c.Artifacts, "problems", c.In.Artifact("problems_ref"))
	if err != nil {
		return "", "", err
	}
	sum, err := blob.GetJSON[tree.Summary](ctx, c.Artifacts, "summary of the changes", c.In.Artifact("diff_ref"))
	if err != nil {
		return "", "", err
	}
	title = s.Title
	if title == "" {
		title = d.Summary
	}
	marker := issue.Marker("pull", "issue", fmt.Sprint(c.Run.Issue), "run", c.Run.ID)
	text := pullBody(c.Run.Issue, d, c.In.Str("plan_hash"), before, after, found, sum)
	return p.Scrub.Scrub(markdown.Inline(title, 200)), issue.Body(p.Scrub, marker, text), nil
}

// pullBody is pure; it is golden-tested.
func pullBody(number int, d plandoc.Document, hash string, before, after gates.Evidence, found []gates.Finding, sum tree.Summary) string {
	var b strings.Builder
	added, deleted := sum.Lines()
	fmt.Fprintf(&b, "Fixes #%d\n\n", number)
	b.WriteString(markdown.Details("Plan "+plandoc.Short(hash), d.Markdown()))
	b.WriteString("\n" + delivery.TestTable(before, after))
	fmt.Fprintf(&b, "\n%s changed, %s added, %d removed.\n", markdown.Count(len(sum.Files), "file"), markdown.Count(added, "line"), deleted)
	b.WriteString(delivery.Remarks(found))
	return b.String()
}
