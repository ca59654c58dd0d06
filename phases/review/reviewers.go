package review

import (
	"context"
	"fmt"

	"github.com/pipelinebot/pipelinebot/flows"
	"github.com/pipelinebot/pipelinebot/phases/actuators"
	"github.com/pipelinebot/pipelinebot/phases/blob"
	"github.com/pipelinebot/pipelinebot/phases/issue"
	"github.com/pipelinebot/pipelinebot/phases/markdown"
	"github.com/pipelinebot/pipelinebot/phases/plandoc"
	"github.com/pipelinebot/pipelinebot/phases/tree"
)

// maxDiff is the most bytes of the diff that go into a prompt; reviewers have
// the files themselves at hand.
const maxDiff = 120_000

// reviewer is one reader of the change, with read-only tools. It reads
// issue_ref, plan_ref, base_sha, head_sha, full_ref and last_ref; it
// writes its own findings under key.
func (p phase) reviewer(name, prompt, system, key string) flows.Action {
	return flows.Action{
		Name: name, Version: "1", Spends: true,
		Reads:  []string{"issue_ref", "plan_ref", "base_sha", "head_sha", "full_ref", "last_ref"},
		Writes: []string{key, "result"},
		Run: issue.Guard(func(ctx context.Context, c flows.Call) (flows.Result, error) {
			request, err := reviewRequest(ctx, c, prompt, system)
			if err != nil {
				return flows.Result{}, err
			}
			w, err := p.Trees.Open(ctx, c, tree.At{Base: c.In.Str("base_sha"), Parent: c.In.Str("head_sha")})
			if err != nil {
				return flows.Result{}, err
			}
			f, log, err := actuators.Work[Findings](ctx, c, p.Models, request,
				actuators.Toolbox{Dir: w.Dir(), ReadOnly: true, MaxTurns: p.MaxTurns})
			if r, ended := issue.NoVerdict(err, actuators.Code(err)); ended {
				return r, nil
			}
			if err != nil {
				return flows.Result{}, fmt.Errorf("reviewing: %w", err)
			}
			a, err := blob.PutJSON(ctx, c.Artifacts, "findings", f)
			if err != nil {
				return flows.Result{}, err
			}
			return flows.Result{
				Delta: flows.Delta{key: a},
				Note:  fmt.Sprintf("%s, %d of them serious, %s", markdown.Count(len(f.Findings), "finding"), len(blocking(f.Findings)), markdown.Count(log.Turns, "turn")),
			}, nil
		}),
	}
}

func reviewRequest(ctx context.Context, c flows.Call, prompt, system string) (actuators.Prompt, error) {
	s, err := issue.Load(ctx, c)
	if err != nil {
		return actuators.Prompt{}, err
	}
	d, err := plandoc.Load(ctx, c)
	if err != nil {
		return actuators.Prompt{}, err
	}
	patch, err := blob.Get(ctx, c.Artifacts, "patch", c.In.Artifact("full_ref"))
	if err != nil {
		return actuators.Prompt{}, err
	}
	last, err := loadFindings(ctx, c, "last_ref")
	if err != nil {
		return actuators.Prompt{}, err
	}
	in := reviewInput{issue: s.Text(), plan: d.Text(), diff: clipped(patch)}
	if c.Run.Round > 1 && len(last.Findings) > 0 {
		in.last = last.Text()
	}
	return in.prompt(prompt, system), nil
}

// reviewInput is what a reviewer's prompt is made of.
type reviewInput struct{ issue, plan, diff, last string }

func (in reviewInput) prompt(id, system string) actuators.Prompt {
	sections := []actuators.Section{
		{Title: "The issue", Text: in.issue, Untrusted: true},
		{Title: "The approved plan", Text: in.plan, Untrusted: true},
		{Title: "The change", Text: in.diff, Untrusted: true, Exact: true},
	}
	if in.last != "" {
		sections = append(sections, actuators.Section{Title: "Findings of the earlier round", Text: in.last, Untrusted: true})
	}
	return actuators.Prompt{ID: id, System: system, Sections: sections}
}

func clipped(patch []byte) string {
	if len(patch) <= maxDiff {
		return string(patch)
	}
	return string(patch[:maxDiff]) + fmt.Sprintf("\n[… %d more bytes; read the files]", len(patch)-maxDiff)
}

// synthesis joins both lists. It reads plan_ref, full_ref, correctness_ref and
// safety_ref; it writes judged_ref (Findings). A reviewer's blocker can't be
// dropped here: joining may not turn a no into a yes.
func (p phase) synthesis() flows.Action {
	return flows.Action{
		Name: "review.synthesis", Version: "1", ReadOnly: true, Spends: true,
		Reads: []string{"plan_ref", "full_ref", "correctness_ref", "safety_ref"}, Writes: []string{"judged_ref", "result"},
		Run: issue.Guard(func(ctx context.Context, c flows.Call) (flows.Result, error) {
			d, err := plandoc.Load(ctx, c)
			if err != nil {
				return flows.Result{}, err
			}
			patch, err := blob.Get(ctx, c.Artifacts, "patch", c.In.Artifact("full_ref"))
			if err != nil {
				return flows.Result{}, err
			}
			first, err := loadFindings(ctx, c, "correctness_ref")
			if err != nil {
				return flows.Result{}, err
			}
			second, err := loadFindings(ctx, c, "safety_ref")
			if err != nil {
				return flows.Result{}, err
			}
			joined, err := actuators.Ask[Findings](ctx, c, p.Models, synthesisRequest(d, clipped(patch), first, second))
			if r, ended := issue.NoVerdict(err, actuators.Code(err)); ended {
				return r, nil
			}
			if err != nil {
				return flows.Result{}, fmt.Errorf("joining the findings: %w", err)
			}
			joined.Findings = joinedFindings(joined.Findings, first.Findings, second.Findings)
			a, err := blob.PutJSON(ctx, c.Artifacts, "findings", joined)
			if err != nil {
				return flows.Result{}, err
			}
			return flows.Result{
				Delta: flows.Delta{"judged_ref": a},
				Note:  fmt.Sprintf("%s, %d of them serious", markdown.Count(len(joined.Findings), "finding"), len(blocking(joined.Findings))),
			}, nil
		}),
	}
}

func synthesisRequest(d plandoc.Document, diff string, first, second Findings) actuators.Prompt {
	return actuators.Prompt{ID: "review/synthesis@1", System: synthesisPrompt, Sections: []actuators.Section{
		{Title: "The approved plan", Text: d.Text(), Untrusted: true},
		{Title: "The change", Text: diff, Untrusted: true, Exact: true},
		{Title: "Findings on correctness", Text: first.Text(), Untrusted: true},
		{Title: "Findings on tests and safety", Text: second.Text(), Untrusted: true},
	}}
}

// joinedFindings is the model's list, checked: every blocker of a reviewer
// must still have a serious finding in the same file, else it is put back.
func joinedFindings(joined []Finding, reviewers ...[]Finding) []Finding {
	serious := map[string]bool{}
	for _, f := range blocking(joined) {
		serious[f.Path] = true
	}
	for _, list := range reviewers {
		for _, f := range list {
			if f.Severity == Blocker && !serious[f.Path] {
				joined = append(joined, f)
				serious[f.Path] = true
			}
		}
	}
	return distinct(joined)
}
