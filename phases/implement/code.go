package implement

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/pipelinebot/pipelinebot/flows"
	"github.com/pipelinebot/pipelinebot/phases/actuators"
	"github.com/pipelinebot/pipelinebot/phases/blob"
	"github.com/pipelinebot/pipelinebot/phases/delivery"
	"github.com/pipelinebot/pipelinebot/phases/gates"
	"github.com/pipelinebot/pipelinebot/phases/issue"
	"github.com/pipelinebot/pipelinebot/phases/markdown"
	"github.com/pipelinebot/pipelinebot/phases/plandoc"
	"github.com/pipelinebot/pipelinebot/phases/tree"
)

// Report is the coder's form. Nothing is decided by it.
type Report struct {
	Summary    string `json:"summary" jsonschema:"what was changed, for the pull request"`
	Unfinished string `json:"unfinished" jsonschema:"what is not done and why, or empty"`
}

// Check implements the rules that a schema can't say.
func (r Report) Check() error {
	if strings.TrimSpace(r.Summary) == "" && strings.TrimSpace(r.Unfinished) == "" {
		return errors.New("summary is empty")
	}
	return nil
}

// code lets the model change the worktree. It reads issue_ref, plan_ref,
// findings_ref, work_base, work_ref, problems_ref, evidence_ref, attempt,
// blocked, test_argv and baseline_ref; it writes work_ref (the patch
// upon work_base), diff_ref (tree.Summary), report_ref (Report), attempt, and
// clears blocked and passed.
func (p phase) code() flows.Action {
	return flows.Action{
		Name: "implement.code", Version: "1",
		Reads: []string{"issue_ref", "plan_ref", "findings_ref", "work_base", "work_ref", "problems_ref",
			"evidence_ref", "attempt", "blocked", "test_argv", "baseline_ref"},
		Writes: []string{"work_ref", "diff_ref", "report_ref", "attempt", "blocked", "passed", "result"},
		Run: issue.Guard(func(ctx context.Context, c flows.Call) (flows.Result, error) {
			request, err := p.codeRequest(ctx, c)
			if err != nil {
				return flows.Result{}, err
			}
			w, err := p.Trees.Open(ctx, c, tree.At{Base: c.In.Str("work_base"), Patch: c.In.Artifact("work_ref")})
			if err != nil {
				return flows.Result{}, err
			}
			advice, err := actuators.Instructions(w.Dir())
			if err != nil {
				return flows.Result{}, err
			}
			request.Sections = append(request.Sections, advice...)
			allow := p.Allow
			if argv := c.In.Strings("test_argv"); len(argv) > 0 {
				allow = append(allow[:len(allow):len(allow)], argv)
			}
			report, log, err := actuators.Work[Report](ctx, c, p.Models, request, actuators.Toolbox{
				Dir: w.Dir(), Runner: p.Runner, Allow: allow, Limits: p.CommandLimits, MaxTurns: p.MaxTurns,
			})
			if r, ended := issue.NoVerdict(err, actuators.Code(err)); ended {
				return r, nil
			}
			if err != nil {
				return flows.Result{}, fmt.Errorf("carrying out the plan: %w", err)
			}
			saved, err := tree.Save(ctx, c.Artifacts, w)
			if err != nil {
				return flows.Result{}, err
			}
			a, err := blob.PutJSON(ctx, c.Artifacts, "report", report)
			if err != nil {
				return flows.Result{}, err
			}
			added, deleted := saved.Lines()
			n := c.In.Int("attempt") + 1
			return flows.Result{
				Delta: flows.Delta{
					"work_ref": saved.Patch, "diff_ref": saved.Diff, "report_ref": a,
					"attempt": n, "blocked": false, "passed": false,
				},
				Note: fmt.Sprintf("attempt %d: %s, +%d -%d lines, %s", n, markdown.Count(len(saved.Files), "file"), added, deleted, markdown.Count(log.Turns, "turn")),
			}, nil
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
