package plan

import (
	"context"
	"fmt"
	"strings"

	"github.com/pipelinebot/pipelinebot/flows"
	"github.com/pipelinebot/pipelinebot/internal/forge"
	"github.com/pipelinebot/pipelinebot/phases/issue"
	"github.com/pipelinebot/pipelinebot/phases/plandoc"
)

// The values of the state's approval.
const (
	valid   = "valid"
	lapsed  = "lapsed"  // the plan stands, the approval does not
	changed = "changed" // the issue's text is another: the plan is void
)

// bound is everything that an approval is bound to.
type bound struct {
	planHash, textHash, commentHash string
	comment                         int64
}

// judge is pure: does an approval (its hash as typed, and the way it came)
// count for what is there now?
func judge(b bound, approvedHash, via string, i forge.Issue, comments []forge.Comment, self forge.Actor) (approval, why string) {
	if issue.TextHash(i.Title, i.Body) != b.textHash {
		return changed, "the issue was edited after the plan was made."
	}
	var posted *forge.Comment
	for n := range comments {
		if comments[n].ID == b.comment && issue.SameActor(comments[n].Author, self) {
			posted = &comments[n]
		}
	}
	switch {
	case posted == nil:
		return lapsed, "the comment with the plan was deleted."
	case issue.BodyHash(posted.Body) != b.commentHash:
		return lapsed, "the comment with the plan was edited."
	}
	given := strings.ToLower(strings.TrimSpace(approvedHash))
	switch {
	case given == "" && via == "label":
		// A label says no hash; it can only mean the plan that is there.
		return valid, ""
	case given == "":
		return lapsed, fmt.Sprintf("it does not say which plan it is for; the plan is %s.", plandoc.Short(b.planHash))
	case len(given) < plandoc.HashDigits || !strings.HasPrefix(b.planHash, given):
		return lapsed, fmt.Sprintf("it is for plan %q, and the plan is %s.", bounded(given, 64), plandoc.Short(b.planHash))
	}
	return valid, ""
}

// checkApproval holds the approval against the issue and the comment as they
// are now. It reads plan_hash, text_hash, plan_comment, comment_hash,
// approved_hash and approved_via; it writes approval and lapse.
func (p phase) checkApproval() flows.Action {
	return flows.Action{
		Name: "plan.check_approval", Version: "1", ReadOnly: true,
		Reads:  []string{"plan_hash", "text_hash", "plan_comment", "comment_hash", "approved_hash", "approved_via"},
		Writes: []string{"approval", "lapse", "result"},
		Run: issue.Guard(func(ctx context.Context, c flows.Call) (flows.Result, error) {
			ref, err := issue.Ref(c)
			if err != nil {
				return flows.Result{}, err
			}
			i, end, stop, err := issue.Read(ctx, p.Reader, ref)
			if err != nil || stop {
				return end, err
			}
			comments, err := p.Reader.Comments(ctx, ref)
			if err != nil {
				return flows.Result{}, fmt.Errorf("reading the comments of %s: %w", ref, err)
			}
			self, err := p.Reader.Self(ctx)
			if err != nil {
				return flows.Result{}, fmt.Errorf("asking who the bot is: %w", err)
			}
			approval, why := judge(bound{
				planHash: c.In.Str("plan_hash"), textHash: c.In.Str("text_hash"),
				comment: int64(c.In.Int("plan_comment")), commentHash: c.In.Str("comment_hash"),
			}, c.In.Str("approved_hash"), c.In.Str("approved_via"), i, comments, self)
			note := "the approval counts"
			if approval != valid {
				note = "the approval does not count: " + why
			}
			return flows.Result{Delta: flows.Delta{"approval": approval, "lapse": why}, Note: note}, nil
		}),
	}
}

// approve sets the result of the good end. It reads approved_by and
// approved_via for the note.
func (p phase) approve() flows.Action {
	return flows.Action{
		Name: "plan.approve", Version: "1", ReadOnly: true,
		Reads: []string{"approved_by", "approved_via"}, Writes: []string{"result"}, Sets: []string{"approved"},
		Run: func(_ context.Context, c flows.Call) (flows.Result, error) {
			return flows.Result{
				Delta: flows.Delta{"result": "approved"},
				Note:  fmt.Sprintf("approved by %s (%s)", c.In.Str("approved_by"), c.In.Str("approved_via")),
			}, nil
		},
	}
}

// rejected ends the flow after a person's no. It reads approved_by.
func (p phase) rejected() flows.Action {
	return flows.Action{
		Name: "plan.rejected", Version: "1", ReadOnly: true,
		Reads: []string{"approved_by"}, Writes: []string{"result"},
		Run: func(_ context.Context, c flows.Call) (flows.Result, error) {
			by := c.In.Str("approved_by")
			if by == "" {
				by = "Somebody"
			}
			return issue.End("rejected", "plan-rejected", "%s turned the plan down.", by), nil
		},
	}
}

// expired ends the flow when nobody answered in time.
func (p phase) expired() flows.Action {
	return flows.Action{
		Name: "plan.expired", Version: "1", ReadOnly: true,
		Reads: []string{}, Writes: []string{"result"},
		Run: func(context.Context, flows.Call) (flows.Result, error) {
			return issue.End("expired", "approval-expired", "Nobody approved the plan in time."), nil
		},
	}
}

// unapprovable ends the flow when approvals lapsed again and again. It reads
// lapse.
func (p phase) unapprovable() flows.Action {
	return flows.Action{
		Name: "plan.unapprovable", Version: "1", ReadOnly: true,
		Reads: []string{"lapse"}, Writes: []string{"result"},
		Run: func(_ context.Context, c flows.Call) (flows.Result, error) {
			return issue.End(issue.NeedsHuman, "approval-lapsed", "Approvals lapsed too often; the last time: %s", c.In.Str("lapse")), nil
		},
	}
}
