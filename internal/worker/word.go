package worker

import (
	"context"
	"errors"
	"fmt"

	"github.com/pipelinebot/pipelinebot/checkpoints"
	"github.com/pipelinebot/pipelinebot/flows"
	"github.com/pipelinebot/pipelinebot/internal/forge"
	"github.com/pipelinebot/pipelinebot/internal/handoff"
	"github.com/pipelinebot/pipelinebot/labels"
)

// checkVoucher returns ErrHalted, in words, when the person on whose word the
// run works may not have such work done any more. Whose word it is may not be
// known, of runs that an earlier version began: those go on. An error is no
// permission, but one that may pass.
func (w *Worker) checkVoucher(ctx context.Context, run checkpoints.Run) error {
	if run.Mode == checkpoints.ModeShadow {
		return nil
	}
	root, _, err := w.root(ctx, run)
	if err != nil {
		return err
	}
	v, known, err := handoff.VoucherOf(ctx, w.Store, root)
	if err != nil || !known || v.Operator {
		return err
	}
	repo, err := forge.ParseRepo(root.Repo)
	if err != nil {
		return fmt.Errorf("run %s: %w", root.ID, err)
	}
	p := forge.None
	if v.ID != 0 {
		p, err = w.Forge.Permission(ctx, repo, v.Login)
		if err != nil && !forge.IsKind(err, forge.KindNotFound) {
			return fmt.Errorf("asking what @%s may do: %w", v.Login, err)
		}
	}
	// Whoever approved the plan or resumed the work was allowed to do that.
	need := min(w.Policy.Start[labels.Phase(root.Phase)], w.Policy.Approve, w.Policy.Lift)
	if p >= need {
		return nil
	}
	return fmt.Errorf("the work is on the word of @%s, who has the %s permission now and needs %s: somebody who may must add the label %s anew or comment `/pipeline retry`: %w",
		v.Login, p, need, w.Names.For(labels.Phase(root.Phase)), flows.ErrHalted)
}

// leadsNowhere ends a run whose next phase was started again and again and
// came to nothing: the issue is stopped, and a person is told.
func (w *Worker) leadsNowhere(ctx context.Context, run *checkpoints.Run, next labels.Phase) (bool, error) {
	if w.Breaker == nil {
		return false, nil
	}
	ref, err := forge.IssueRef(run.Repo, run.Issue)
	if err != nil {
		return false, err
	}
	why, err := w.Breaker.Check(ctx, ref, next)
	if err != nil || why == "" {
		return false, err
	}
	if err := w.Breaker.Trip(ctx, ref, "run/"+run.ID, why); err != nil {
		return false, err
	}
	run.Result, run.Code, run.Reason = "error", "breaker", why
	return true, nil
}

// endLook ends a look that would ask: its question is told and not asked.
func (w *Worker) endLook(ctx context.Context, run checkpoints.Run) error {
	err := w.Store.Cancel(ctx, run.ID, checkpoints.Ended{Result: "needs_info", Code: "look", Reason: "something is missing"})
	if err != nil && !errors.Is(err, checkpoints.ErrBusy) && !errors.Is(err, checkpoints.ErrConflict) {
		return fmt.Errorf("ending the look %s: %w", run.ID, err)
	}
	return nil
}
