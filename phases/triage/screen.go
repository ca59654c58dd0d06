package triage

import (
	"context"
	"fmt"
	"unicode/utf8"

	"github.com/pipelinebot/pipelinebot/flows"
	"github.com/pipelinebot/pipelinebot/phases/issue"
)

// The routes that screen and route write.
const (
	routePlan = "plan"
	routeAsk  = "ask"
)

// screen decides what needs no model. It reads issue_ref; it writes route and
// missing when there is too little text, and ends the flow (result) when a
// pull request is linked already.
func (p phase) screen() flows.Action {
	return flows.Action{
		Name: "triage.screen", Version: "1", ReadOnly: true,
		Reads: []string{"issue_ref"}, Writes: []string{"route", "missing", "result"},
		Run: issue.Guard(func(ctx context.Context, c flows.Call) (flows.Result, error) {
			s, err := issue.Load(ctx, c)
			if err != nil {
				return flows.Result{}, err
			}
			pulls, err := p.Linker.LinkedPulls(ctx, s.Ref)
			if err != nil {
				return flows.Result{}, fmt.Errorf("looking for linked pull requests: %w", err)
			}
			for _, pull := range pulls {
				switch {
				case pull.Merged:
					return issue.End("duplicate", "pull-merged", "Pull request #%d for this issue is merged already.", pull.Ref.Number), nil
				case pull.Open:
					return issue.End("duplicate", "pull-open", "Pull request #%d for this issue is open already.", pull.Ref.Number), nil
				}
			}
			if tooShort(s, p.MinText) {
				return flows.Result{
					Delta: flows.Delta{"route": routeAsk, "missing": []string{
						"What happens, and what should happen instead?",
						"How can it be reproduced, or how would you notice that it is done?",
					}},
					Note: "too little text to classify",
				}, nil
			}
			return flows.Result{Delta: flows.Delta{"route": "none", "missing": []string{}}, Note: "open, and no pull request linked"}, nil
		}),
	}
}

// tooShort counts the issue's text and what its people added since.
func tooShort(s issue.Snapshot, minimum int) bool {
	n := utf8.RuneCountInString(s.Title) + utf8.RuneCountInString(s.Body)
	for _, c := range s.Comments {
		if c.Tier != issue.Pipeline && c.Tier != issue.Stranger {
			n += utf8.RuneCountInString(c.Text)
		}
	}
	return n < minimum
}
