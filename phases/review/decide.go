package review

import (
	"context"
	"fmt"

	"github.com/pipelinebot/pipelinebot/flows"
	"github.com/pipelinebot/pipelinebot/phases/blob"
	"github.com/pipelinebot/pipelinebot/phases/gates"
	"github.com/pipelinebot/pipelinebot/phases/issue"
	"github.com/pipelinebot/pipelinebot/phases/markdown"
)

// The verdicts.
const (
	approve = "approve"
	changes = "changes"
	human   = "human"
)

// basis is everything that a verdict is made of.
type basis struct {
	judged           []Finding
	last             []Finding // the round before's; nil in the first round
	answered         bool      // the judge's list exists
	round, maxRounds int
	green            bool
	tests            string // the evidence's verdict in words
	ci, ciNote       string
}

// ruling is a verdict with the findings that it stands on.
type ruling struct {
	verdict string
	why     string
	// raised are this round's findings; dropped came too late for the
	// ratchet.
	raised, dropped []Finding
}

// rule is pure. It approves only when the judge answered, nothing serious was
// found, the tests are green at this commit and CI did not fail.
//
// The ratchet: from the second round on only findings at least as severe as
// the mildest serious one of the last round are raised, so that reviews end.
// Should that drop a serious finding, a person decides: neither another round
// nor an approval would be right.
func rule(b basis) ruling {
	r := ruling{raised: b.judged}
	if floor := least(blocking(b.last)); b.round > 1 && floor > 0 {
		r.raised = nil
		for _, f := range b.judged {
			if f.Severity.rank() >= floor {
				r.raised = append(r.raised, f)
			} else {
				r.dropped = append(r.dropped, f)
			}
		}
	}
	serious := blocking(r.raised)
	end := func(verdict, format string, args ...any) ruling {
		r.verdict, r.why = verdict, fmt.Sprintf(format, args...)
		return r
	}
	request := func(format string, args ...any) ruling {
		if b.round >= b.maxRounds {
			return end(human, "After %s of review there is still this: %s", markdown.Count(b.round, "round"), fmt.Sprintf(format, args...))
		}
		return end(changes, format, args...)
	}
	switch {
	case !b.answered:
		return end(human, "The reviewers' findings could not be read, and that is not an approval.")
	case !b.green:
		r.raised = append(r.raised, Finding{Severity: Blocker, Text: "The tests do not pass at this commit: " + b.tests})
		return request("the tests do not pass at this commit (%s).", b.tests)
	case b.ci == "failure":
		r.raised = append(r.raised, Finding{Severity: Blocker, Text: "CI " + b.ciNote})
		return request("CI %s.", b.ciNote)
	case b.ci == "timeout":
		return end(human, "CI did not end in time (%s).", b.ciNote)
	case b.ci != "success" && b.ci != "none":
		return end(human, "The state of CI is not known.")
	case len(serious) > 0:
		return request("%s.", counted(len(serious), "serious finding"))
	case len(blocking(r.dropped)) > 0:
		return end(human, "%s came up that the rounds before did not raise.", counted(len(blocking(r.dropped)), "serious finding"))
	}
	return end(approve, "Nothing serious was found, and the tests pass at this commit.")
}

// decide applies rule, after it made sure that the pull request is still what
// was reviewed. It reads pr, head_sha, judged_ref, last_ref, green, ci,
// ci_note and evidence_ref; it writes findings_ref (Findings, for the next
// round), verdict and why.
func (p phase) decide() flows.Action {
	return flows.Action{
		Name: "review.decide", Version: "1", ReadOnly: true,
		Reads:  []string{"pr", "head_sha", "judged_ref", "last_ref", "green", "ci", "ci_note", "evidence_ref"},
		Writes: []string{"findings_ref", "verdict", "why", "result"},
		Run: issue.Guard(func(ctx context.Context, c flows.Call) (flows.Result, error) {
			ref, err := issue.Ref(c)
			if err != nil {
				return flows.Result{}, err
			}
			_, end, stop, err := p.standing(ctx, ref.Repo, c.In.Int("pr"), c.In.Str("head_sha"))
			if err != nil || stop {
				return end, err
			}
			judged, err := loadFindings(ctx, c, "judged_ref")
			if err != nil {
				return flows.Result{}, err
			}
			last, err := loadFindings(ctx, c, "last_ref")
			if err != nil {
				return flows.Result{}, err
			}
			ev, err := blob.GetJSON[gates.Evidence](ctx, c.Artifacts, "test evidence", c.In.Artifact("evidence_ref"))
			if err != nil {
				return flows.Result{}, err
			}
			r := rule(basis{
				judged: judged.Findings, last: last.Findings, answered: blob.Set(c.In.Artifact("judged_ref")),
				round: c.Run.Round, maxRounds: p.MaxRounds, green: c.In.Bool("green"), tests: ev.Reason,
				ci: c.In.Str("ci"), ciNote: c.In.Str("ci_note"),
			})
			out := Findings{Summary: judged.Summary, Findings: r.raised}
			if out.Findings == nil {
				out.Findings = []Finding{}
			}
			a, err := blob.PutJSON(ctx, c.Artifacts, "findings", out)
			if err != nil {
				return flows.Result{}, err
			}
			return flows.Result{
				Delta: flows.Delta{"findings_ref": a, "verdict": r.verdict, "why": bounded(r.why, 990)},
				Note:  r.verdict + ": " + r.why,
			}, nil
		}),
	}
}

// conclude turns the verdict into the phase's result. It reads verdict and
// why.
func (p phase) conclude() flows.Action {
	return flows.Action{
		Name: "review.conclude", Version: "1", ReadOnly: true,
		Reads: []string{"verdict", "why"}, Writes: []string{"result"}, Sets: []string{"approved", "changes_requested"},
		Run: func(_ context.Context, c flows.Call) (flows.Result, error) {
			why := c.In.Str("why")
			switch c.In.Str("verdict") {
			case approve:
				return flows.Result{Delta: flows.Delta{"result": "approved"}, Note: why}, nil
			case changes:
				return flows.Result{Delta: flows.Delta{"result": "changes_requested"}, Note: why}, nil
			case human:
				return issue.End(issue.NeedsHuman, "review-unsettled", "%s", why), nil
			}
			return flows.Result{}, fmt.Errorf("concluding the review: there is no verdict")
		},
	}
}

func counted(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

func bounded(s string, limit int) string {
	r := []rune(s)
	return string(r[:min(len(r), limit)])
}
