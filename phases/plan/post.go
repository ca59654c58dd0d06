package plan

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/pipelinebot/pipelinebot/flows"
	"github.com/pipelinebot/pipelinebot/internal/forge"
	"github.com/pipelinebot/pipelinebot/labels"
	"github.com/pipelinebot/pipelinebot/phases/issue"
	"github.com/pipelinebot/pipelinebot/phases/markdown"
	"github.com/pipelinebot/pipelinebot/phases/plandoc"
	"github.com/pipelinebot/pipelinebot/phases/tree"
)

// post writes the plan as a comment bound to plan, issue text and commit. It
// reads plan_ref, plan_hash, text_hash, base_sha and default_branch; it writes
// plan_comment (its id) and comment_hash, by which an edit is noticed.
func (p phase) post() flows.Action {
	return flows.Action{
		Name: "plan.post", Version: "1", Effects: true,
		Reads:  []string{"plan_ref", "plan_hash", "text_hash", "base_sha", "default_branch"},
		Writes: []string{"plan_comment", "comment_hash", "result"},
		Run: issue.Guard(func(ctx context.Context, c flows.Call) (flows.Result, error) {
			d, err := plandoc.Load(ctx, c)
			if err != nil {
				return flows.Result{}, err
			}
			hash, text, base := c.In.Str("plan_hash"), c.In.Str("text_hash"), c.In.Str("base_sha")
			marker := issue.Marker("plan", "run", c.Run.ID, "plan", hash, "text", text, "base", base)
			posted, err := issue.Say(ctx, c, p.voice(), p.Scrub, "plan", marker,
				comment(d, hash, base, c.In.Str("default_branch"), p.Labels))
			if err != nil {
				return flows.Result{}, fmt.Errorf("posting the plan: %w", err)
			}
			return flows.Result{
				Delta: flows.Delta{"plan_comment": posted.ID, "comment_hash": posted.Hash},
				Note:  "posted plan " + plandoc.Short(hash),
			}, nil
		}),
	}
}

// comment is the plan as people see it.
func comment(d plandoc.Document, hash, base, branch string, l labels.Names) string {
	var b strings.Builder
	fmt.Fprintf(&b, "### Plan %s\n\n%s\n", markdown.Code(plandoc.Short(hash)), d.Markdown())
	fmt.Fprintf(&b, "---\nPlanned at %s of %s.\n\n", markdown.Code(tree.Short(base)), markdown.Code(branch))
	fmt.Fprintf(&b, "To approve it, comment `/pipeline approve %s` or add the label %s. "+
		"To have it changed, comment `/pipeline revise` and say what should be different; "+
		"to turn it down, comment `/pipeline reject`. "+
		"The approval is for this text only: it lapses when the issue or this comment is edited.\n",
		plandoc.Short(hash), markdown.Code(l.Approved))
	return b.String()
}

// auto decides whether the auto label skips the approval: it must have been
// set by a person who may approve, and the risk must not be high. It reads
// risk; it writes auto, approved_by and approved_via.
func (p phase) auto() flows.Action {
	return flows.Action{
		Name: "plan.auto", Version: "1", ReadOnly: true,
		Reads: []string{"risk"}, Writes: []string{"auto", "approved_by", "approved_via", "result"},
		Run: issue.Guard(func(ctx context.Context, c flows.Call) (flows.Result, error) {
			ref, err := issue.Ref(c)
			if err != nil {
				return flows.Result{}, err
			}
			i, end, stop, err := issue.Read(ctx, p.Reader, ref)
			if err != nil || stop {
				return end, err
			}
			no := func(why string) (flows.Result, error) {
				return flows.Result{Delta: flows.Delta{"auto": false}, Note: "a person must approve: " + why}, nil
			}
			if !labels.Has(i.Labels, p.Labels.Auto) {
				return no("the issue has no label " + p.Labels.Auto)
			}
			if c.In.Str("risk") == "high" {
				return no("the risk is high, whatever " + p.Labels.Auto + " says")
			}
			by, ok, err := p.setBy(ctx, ref, p.Labels.Auto)
			if err != nil {
				return flows.Result{}, err
			}
			if !ok || by.Bot {
				return no("it is not known which person set " + p.Labels.Auto)
			}
			perm, err := p.Reader.Permission(ctx, ref.Repo, by.Login)
			if err != nil {
				return flows.Result{}, fmt.Errorf("asking what %s may do: %w", by.Login, err)
			}
			if perm < p.AutoMin {
				return no(fmt.Sprintf("%s, who set %s, has permission %s and needs %s", by.Login, p.Labels.Auto, perm, p.AutoMin))
			}
			return flows.Result{
				Delta: flows.Delta{"auto": true, "approved_by": bounded(by.Login, 100), "approved_via": "auto"},
				Note:  by.Login + " set " + p.Labels.Auto,
			}, nil
		}),
	}
}

// setBy is who set the label that is on the issue now.
func (p phase) setBy(ctx context.Context, ref forge.Ref, label string) (by forge.Actor, ok bool, err error) {
	events, err := p.Repos.Events(ctx, ref)
	if err != nil {
		return by, false, fmt.Errorf("reading who labelled %s: %w", ref, err)
	}
	for _, e := range events {
		if !labels.Same(e.Label, label) {
			continue
		}
		switch e.Kind {
		case string(forge.Labeled):
			by, ok = e.Actor, true
		case string(forge.Unlabeled):
			by, ok = forge.Actor{}, false
		}
	}
	return by, ok, nil
}

// markWaiting shows on the issue that a person is awaited: it adds the
// awaiting label before it removes the plan label, so that there is always
// one. It clears what an earlier approval left in the state.
func (p phase) markWaiting() flows.Action {
	return flows.Action{
		Name: "plan.mark_waiting", Version: "1", Effects: true,
		Reads:  []string{"plan_hash"},
		Writes: []string{"approved_by", "approved_hash", "approved_via", "approval", "lapse", "result"},
		Run: issue.Guard(func(ctx context.Context, c flows.Call) (flows.Result, error) {
			if err := issue.SetLabel(ctx, c, p.voice(), p.Labels.AwaitingApproval, true); err != nil {
				return flows.Result{}, fmt.Errorf("showing that approval is awaited: %w", err)
			}
			if err := issue.SetLabel(ctx, c, p.voice(), p.Labels.Plan, false); err != nil {
				return flows.Result{}, fmt.Errorf("showing that approval is awaited: %w", err)
			}
			return flows.Result{
				Delta: flows.Delta{"approved_by": "", "approved_hash": "", "approved_via": "", "approval": "none", "lapse": ""},
				Note:  "waiting for the approval of plan " + plandoc.Short(c.In.Str("plan_hash")),
			}, nil
		}),
	}
}

// noteLapse tells on the issue why an approval does not count. It reads
// approval and lapse.
func (p phase) noteLapse() flows.Action {
	return flows.Action{
		Name: "plan.note_lapse", Version: "1", Effects: true,
		Reads: []string{"approval", "lapse"}, Writes: []string{"result"},
		Run: issue.Guard(func(ctx context.Context, c flows.Call) (flows.Result, error) {
			text := "That approval does not count: " + markdown.Inline(c.In.Str("lapse"), 500) + "\n\n"
			if c.In.Str("approval") == "changed" {
				text += "The issue is read and planned again; the new plan needs its own approval.\n"
			} else {
				text += "The plan as it stands still waits for an approval.\n"
			}
			marker := issue.Marker("lapse", "run", c.Run.ID, "visit", strconv.Itoa(c.Visit))
			if _, err := issue.Say(ctx, c, p.voice(), p.Scrub, "lapse", marker, text); err != nil {
				return flows.Result{}, fmt.Errorf("telling that the approval lapsed: %w", err)
			}
			return flows.Result{Note: "the approval lapsed: " + c.In.Str("lapse")}, nil
		}),
	}
}

func bounded(s string, limit int) string {
	r := []rune(s)
	return string(r[:min(len(r), limit)])
}
