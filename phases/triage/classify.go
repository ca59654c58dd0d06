package triage

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/pipelinebot/pipelinebot/flows"
	"github.com/pipelinebot/pipelinebot/phases/actuators"
	"github.com/pipelinebot/pipelinebot/phases/blob"
	"github.com/pipelinebot/pipelinebot/phases/issue"
)

// Verdict is the model's form. Fixed rules (decide) turn it into a route.
type Verdict struct {
	Kind          string   `json:"kind" enum:"bug,feature,docs,question,other" jsonschema:"what the issue is"`
	Size          string   `json:"size" enum:"s,m,l,xl" jsonschema:"how large the change is"`
	Clarity       int      `json:"clarity" jsonschema:"0 (can't be told what is wanted) to 3 (a developer could start at once)"`
	Missing       []string `json:"missing" jsonschema:"questions to the reporter, at most five"`
	Risk          string   `json:"risk" enum:"low,medium,high" jsonschema:"what can go wrong"`
	DuplicateOf   int      `json:"duplicate_of" jsonschema:"number of the issue that this one repeats, or 0"`
	AlreadyFixed  bool     `json:"already_fixed" jsonschema:"a maintainer says that it is fixed"`
	DeclineReason string   `json:"decline_reason" jsonschema:"why the repository should not do this at all, or empty"`
	Summary       string   `json:"summary" jsonschema:"what is to be done, in one or two sentences"`
}

// Check implements the rules that a schema can't say: a verdict that is not
// whole is no verdict.
func (v Verdict) Check() error {
	var problems []string
	if !slices.Contains([]string{"bug", "feature", "docs", "question", "other"}, v.Kind) {
		problems = append(problems, fmt.Sprintf("kind is %q, want bug, feature, docs, question or other", v.Kind))
	}
	if !slices.Contains([]string{"s", "m", "l", "xl"}, v.Size) {
		problems = append(problems, fmt.Sprintf("size is %q, want s, m, l or xl", v.Size))
	}
	if !slices.Contains([]string{"low", "medium", "high"}, v.Risk) {
		problems = append(problems, fmt.Sprintf("risk is %q, want low, medium or high", v.Risk))
	}
	if v.Clarity < 0 || v.Clarity > 3 {
		problems = append(problems, fmt.Sprintf("clarity is %d, want 0 to 3", v.Clarity))
	}
	if v.DuplicateOf < 0 {
		problems = append(problems, "duplicate_of is negative")
	}
	if strings.TrimSpace(v.Summary) == "" {
		problems = append(problems, "summary is empty")
	}
	if len(problems) > 0 {
		return errors.New(strings.Join(problems, "; "))
	}
	return nil
}

// classify asks the model. It reads issue_ref and writes verdict_ref (a
// Verdict), kind, size and risk. An answer that can't be read ends the flow
// for a person: no verdict is never "ready".
func (p phase) classify() flows.Action {
	return flows.Action{
		Name: "triage.classify", Version: "1", ReadOnly: true, Spends: true,
		Reads: []string{"issue_ref"}, Writes: []string{"verdict_ref", "kind", "size", "risk", "result"},
		Run: issue.Guard(func(ctx context.Context, c flows.Call) (flows.Result, error) {
			s, err := issue.Load(ctx, c)
			if err != nil {
				return flows.Result{}, err
			}
			v, err := actuators.Ask[Verdict](ctx, c, p.Models, classifyRequest(s))
			if r, ended := issue.NoVerdict(err, actuators.Code(err)); ended {
				return r, nil
			}
			if err != nil {
				return flows.Result{}, fmt.Errorf("classifying %s: %w", s.Ref, err)
			}
			a, err := blob.PutJSON(ctx, c.Artifacts, "verdict", v)
			if err != nil {
				return flows.Result{}, err
			}
			return flows.Result{
				Delta: flows.Delta{"verdict_ref": a, "kind": v.Kind, "size": v.Size, "risk": v.Risk},
				Note:  fmt.Sprintf("%s, size %s, clarity %d of 3, risk %s", v.Kind, v.Size, v.Clarity, v.Risk),
			}, nil
		}),
	}
}

// classifyRequest is the prompt; all that comes from the issue is data.
func classifyRequest(s issue.Snapshot) actuators.Prompt {
	return actuators.Prompt{
		ID: "triage/classify@1", System: classifyPrompt,
		Sections: []actuators.Section{{Title: "The issue", Text: s.Text(), Untrusted: true}},
	}
}
