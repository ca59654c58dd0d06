package implement

import (
	"context"
	"fmt"
	"strings"

	"github.com/pipelinebot/pipelinebot/flows"
	"github.com/pipelinebot/pipelinebot/phases/actuators"
	"github.com/pipelinebot/pipelinebot/phases/blob"
	"github.com/pipelinebot/pipelinebot/phases/delivery"
	"github.com/pipelinebot/pipelinebot/phases/gates"
	"github.com/pipelinebot/pipelinebot/phases/issue"
	"github.com/pipelinebot/pipelinebot/phases/plandoc"
	"github.com/pipelinebot/pipelinebot/phases/tree"
	"github.com/pipelinebot/pipelinebot/phases/writer"
)

// code lets the model change the worktree. It reads issue_ref, plan_ref,
// findings_ref, work_base, work_ref, problems_ref, evidence_ref, attempt,
// blocked, test_argv and baseline_ref; it writes work_ref (the patch
// upon work_base), diff_ref (tree.Summary), report_ref (writer.Report), attempt, and
// clears blocked and passed.
func (p phase) code() flows.Action {
	return flows.Action{
		Name: "implement.code", Version: "1", Spends: true,
		Reads: []string{"issue_ref", "plan_ref", "findings_ref", "work_base", "work_ref", "problems_ref",
			"evidence_ref", "attempt", "blocked", "test_argv", "baseline_ref"},
		Writes: []string{"work_ref", "diff_ref", "report_ref", "attempt", "blocked", "passed", "result"},
		Run: issue.Guard(func(ctx context.Context, c flows.Call) (flows.Result, error) {
			request, err := p.codeRequest(ctx, c)
			if err != nil {
				return flows.Result{}, err
			}
			w := writer.Writer{Trees: p.Trees, Models: p.Models, Runner: p.Runner, Allow: p.Allow, Limits: p.CommandLimits}
			res, err := w.Write(ctx, c, writer.Job{
				At:     tree.At{Base: c.In.Str("work_base"), Patch: c.In.Artifact("work_ref")},
				Prompt: request, Test: c.In.Strings("test_argv"), MaxTurns: p.MaxTurns,
			})
			if err != nil || res.Stop != nil {
				return res, err
			}
			n := c.In.Int("attempt") + 1
			res.Delta["attempt"], res.Delta["blocked"], res.Delta["passed"] = n, false, false
			res.Note = fmt.Sprintf("attempt %d: %s", n, res.Note)
			return res, nil
		}),
	}
}

// codeRequest is the attempt's prompt. What failed last is part of it, so that
// no attempt has the input of the one before.
func (p phase) codeRequest(ctx context.Context, c flows.Call) (actuators.Prompt, error) {
	s, err := issue.Load(ctx, c)
	if err != nil {
		return actuators.Prompt{}, err
	}
	d, err := plandoc.Load(ctx, c)
	if err != nil {
		return actuators.Prompt{}, err
	}
	in := codeInput{
		issue: s.Text(), plan: d.Text(), attempt: c.In.Int("attempt") + 1,
		test: strings.Join(c.In.Strings("test_argv"), " "),
	}
	findings, err := blob.Get(ctx, c.Artifacts, "review findings", c.In.Artifact("findings_ref"))
	if err != nil {
		return actuators.Prompt{}, err
	}
	in.findings = string(findings)
	switch {
	case in.attempt == 1:
		ev, err := evidence(ctx, c, "baseline_ref")
		if err != nil {
			return actuators.Prompt{}, err
		}
		if !ev.Passed && ev.Reason != "" {
			in.before = ev.Reason + "\n" + ev.Excerpt
		}
	case c.In.Bool("blocked"):
		problems, err := blob.GetJSON[[]gates.Finding](ctx, c.Artifacts, "problems", c.In.Artifact("problems_ref"))
		if err != nil {
			return actuators.Prompt{}, err
		}
		in.failed = "The changes were refused:\n" + delivery.Lines(problems)
	default:
		ev, err := evidence(ctx, c, "evidence_ref")
		if err != nil {
			return actuators.Prompt{}, err
		}
		in.failed = ev.Reason + "\nStill failing: " + strings.Join(ev.Failing, ", ") + "\n" + ev.Excerpt
	}
	return in.prompt(), nil
}

// codeInput is what the prompt is made of.
type codeInput struct {
	issue, plan, findings, before, failed, test string
	attempt                                     int
}

func (in codeInput) prompt() actuators.Prompt {
	sections := []actuators.Section{
		{Title: "The approved plan", Text: in.plan, Untrusted: true},
		{Title: "The issue", Text: in.issue, Untrusted: true},
	}
	if in.test != "" {
		sections = append(sections, actuators.Section{Title: "How the tests are run", Text: in.test, Untrusted: true})
	}
	if in.findings != "" {
		sections = append(sections, actuators.Section{Title: "Findings of the reviewers, to be settled", Text: in.findings, Untrusted: true})
	}
	if in.before != "" {
		sections = append(sections, actuators.Section{Title: "The tests before any change", Text: in.before, Untrusted: true})
	}
	if in.failed != "" {
		sections = append(sections,
			actuators.Section{Text: fmt.Sprintf("This is attempt %d. The changes of the last attempt are in the checkout.", in.attempt)},
			actuators.Section{Title: "What failed", Text: in.failed, Untrusted: true})
	}
	return actuators.Prompt{ID: "implement/code@1", System: codePrompt, Sections: sections}
}
