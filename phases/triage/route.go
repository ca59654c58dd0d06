package triage

import (
	"context"
	"fmt"
	"strings"

	"github.com/pipelinebot/pipelinebot/flows"
	"github.com/pipelinebot/pipelinebot/internal/forge"
	"github.com/pipelinebot/pipelinebot/phases/blob"
	"github.com/pipelinebot/pipelinebot/phases/issue"
)

// decision is what the rules make of a verdict: a route, or an early end.
type decision struct {
	route        string
	missing      []string
	result, code string
	reason       string
}

// decide is pure: the same verdict gives the same decision. The order is that
// of certainty: what ends the matter comes before what needs more work.
func decide(v Verdict, minClarity int) decision {
	end := func(result, code, reason string) decision {
		return decision{route: "end", result: result, code: code, reason: reason}
	}
	switch {
	case v.DeclineReason != "":
		return end("declined", "declined", v.DeclineReason)
	case v.AlreadyFixed:
		return end("declined", "already-fixed", "A maintainer says that this is fixed already. "+v.Summary)
	case v.DuplicateOf != 0:
		return end("duplicate", "duplicate", fmt.Sprintf("This repeats #%d. %s", v.DuplicateOf, v.Summary))
	case v.Kind == "question":
		return end("declined", "question", "This is a question; there is nothing to change in the code. "+v.Summary)
	case v.Clarity < minClarity:
		missing := questions(v.Missing)
		if len(missing) == 0 {
			missing = []string{"What exactly should change, and how would you notice that it is done?"}
		}
		return decision{route: routeAsk, missing: missing}
	case v.Kind == "other":
		return end("needs_human", "unclear-kind", "This is neither a bug, a feature nor documentation. "+v.Summary)
	case v.Size == "xl":
		return end("split", "too-large", "This is several changes in one; split it into issues that can be done one by one. "+v.Summary)
	}
	return decision{route: routePlan}
}

// route applies decide. It reads verdict_ref; it writes route and missing, or
// ends the flow. A duplicate that the model names must exist, else a person
// looks.
func (p phase) route() flows.Action {
	return flows.Action{
		Name: "triage.route", Version: "1", ReadOnly: true,
		Reads: []string{"verdict_ref"}, Writes: []string{"route", "missing", "result"},
		Run: issue.Guard(func(ctx context.Context, c flows.Call) (flows.Result, error) {
			ref, err := issue.Ref(c)
			if err != nil {
				return flows.Result{}, err
			}
			v, err := blob.GetJSON[Verdict](ctx, c.Artifacts, "verdict", c.In.Artifact("verdict_ref"))
			if err != nil {
				return flows.Result{}, err
			}
			if err := v.Check(); err != nil {
				return flows.Result{}, fmt.Errorf("routing by the verdict: %w", err)
			}
			d := decide(v, p.MinClarity)
			if d.result == "duplicate" {
				_, err := p.Reader.Issue(ctx, forge.Ref{Repo: ref.Repo, Number: v.DuplicateOf})
				switch {
				case v.DuplicateOf == ref.Number, forge.IsKind(err, forge.KindNotFound):
					d.result, d.code = issue.NeedsHuman, "duplicate-unknown"
					d.reason = fmt.Sprintf("The classification calls this a repetition of #%d, which is no other issue of this repository.", v.DuplicateOf)
				case err != nil:
					return flows.Result{}, fmt.Errorf("looking up #%d: %w", v.DuplicateOf, err)
				}
			}
			if d.result != "" {
				return issue.End(d.result, d.code, "%s", strings.TrimSpace(d.reason)), nil
			}
			missing := d.missing
			if missing == nil {
				missing = []string{}
			}
			return flows.Result{Delta: flows.Delta{"route": d.route, "missing": missing}, Note: "route: " + d.route}, nil
		}),
	}
}

// questions are the model's questions, bounded: state stays small.
func questions(list []string) []string {
	var out []string
	for _, q := range list {
		q = strings.Join(strings.Fields(q), " ")
		if r := []rune(q); len(r) > 300 {
			q = string(r[:299]) + "…"
		}
		if q != "" && len(out) < 5 {
			out = append(out, q)
		}
	}
	return out
}

// accept sets the result of the good end.
func (p phase) accept() flows.Action {
	return flows.Action{
		Name: "triage.accept", Version: "1", ReadOnly: true,
		Reads: []string{}, Writes: []string{"result"}, Sets: []string{"accepted"},
		Run: func(context.Context, flows.Call) (flows.Result, error) {
			return flows.Result{Delta: flows.Delta{"result": "accepted"}, Note: "accepted for planning"}, nil
		},
	}
}
