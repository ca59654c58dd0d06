package report

import (
	"context"
	"fmt"

	"github.com/pipelinebot/pipelinebot/checkpoints"
	"github.com/pipelinebot/pipelinebot/internal/forge"
	"github.com/pipelinebot/pipelinebot/internal/handoff"
	"github.com/pipelinebot/pipelinebot/phases/markdown"
	"github.com/pipelinebot/pipelinebot/phases/status"
)

// lookedAt is how many runs, newest first, the issue's own is looked for in.
const lookedAt = 20

// Say brings the issue's status comment up to date, though it says the same
// already, and returns Markdown that says where it is and what it says; "" when
// nothing was started.
func (r *Reporter) Say(ctx context.Context, ref forge.Ref) (string, error) {
	defer r.issues.Take(ref.String())()
	runs, err := r.store.List(ctx, checkpoints.Filter{Repo: ref.Repo.String(), Issue: ref.Number, Roots: true, Limit: lookedAt})
	if err != nil {
		return "", fmt.Errorf("looking for the runs of %s: %w", ref, err)
	}
	for _, run := range runs {
		if run.Mode == checkpoints.ModeShadow && !handoff.IsLook(run) {
			continue
		}
		v, p, err := r.post(ctx, ref, run, sayable(run), true)
		if err != nil {
			return "", err
		}
		text := "**" + markdown.Inline(v.Phase, 60) + "**: " + status.Headline(v)
		if p.URL != "" {
			text += " The [status comment](" + p.URL + ") says more."
		}
		return text + "\n", nil
	}
	return "", nil
}

func sayable(run checkpoints.Run) State {
	switch {
	case run.Status == checkpoints.Halted:
		return Halted
	case run.Status == checkpoints.Waiting:
		return Waiting
	case run.Status.Final() || run.Status == checkpoints.Ending:
		return Ended
	}
	return Working
}
