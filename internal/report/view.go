package report

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/pipelinebot/pipelinebot/checkpoints"
	"github.com/pipelinebot/pipelinebot/flows"
	"github.com/pipelinebot/pipelinebot/internal/forge"
	"github.com/pipelinebot/pipelinebot/internal/handoff"
	"github.com/pipelinebot/pipelinebot/labels"
	"github.com/pipelinebot/pipelinebot/phases/status"
)

// maxRuns is the most runs of a pipeline that the comment is made of.
const maxRuns = 1000

// view gathers the runs of the pipeline, oldest first.
func (r *Reporter) view(ctx context.Context, ref forge.Ref, run checkpoints.Run, s State, at placed) (status.View, error) {
	runs, err := r.store.List(ctx, checkpoints.Filter{Lineage: run.Lineage, Limit: maxRuns})
	if err != nil {
		return status.View{}, err
	}
	slices.Reverse(runs)
	children := childrenOf(run, runs)
	runs = slices.DeleteFunc(runs, func(one checkpoints.Run) bool { return one.Parent != "" })
	v := status.View{
		Ref: ref, Phase: run.Phase, State: string(stateOf(run, s)), Result: run.Result, Code: run.Code, Reason: run.Reason,
		Labels: r.names, RunID: run.ID,
	}
	if s == Waiting && run.Wait != nil {
		v.State, v.WaitsFor, v.Until, v.Reason = status.StateOf(run), run.Wait.Event, run.Wait.Until, run.Wait.Why
	}
	if s != Ended {
		v.Result = ""
		children.tell(&v)
	}
	if err := r.facts(ctx, &v, run, at); err != nil {
		return v, err
	}
	if handoff.IsLook(run) {
		if err := r.looked(&v, run); err != nil {
			return v, err
		}
	}
	for _, one := range runs {
		if one.ID == run.ID {
			one.Result, one.Code = v.Result, v.Code
			one.Wait = run.Wait
		}
		history, err := r.store.History(ctx, one.ID)
		if err != nil {
			return status.View{}, err
		}
		state := status.StateOf(one)
		if one.ID == run.ID {
			state = v.State
		}
		view := status.RunView{
			Phase: one.Phase, Round: one.Round, State: state, Result: one.Result, Code: one.Code,
			Nodes: status.NodesOf(history), Cost: one.Spent,
		}
		for _, n := range history {
			view.Took += n.Took
		}
		if outcome, show := unfinished(v); show && one.ID == run.ID && one.Next != "" {
			view.Nodes = append(view.Nodes, status.NodeView{Node: one.Next, Outcome: outcome})
		}
		v.Runs = append(v.Runs, view)
		v.Cost = v.Cost.Add(one.Spent)
	}
	v.Cost = v.Cost.Add(children.uncounted)
	return v, nil
}

// unfinished is what the comment says of the node that a run stands at: it is
// at work ("") until the run ends without completing it. A flow that came to
// its own end has no such node.
func unfinished(v status.View) (outcome string, show bool) {
	switch {
	case v.State != status.Ended:
		return "", true
	case v.Result == "error":
		return "failed", true
	case v.Result == "cancelled", v.Result == "closed":
		return "stopped", true
	}
	return "", false
}

// stateOf is the view's state: what the caller says, since the store may be a
// step behind.
func stateOf(run checkpoints.Run, s State) checkpoints.Status {
	switch s {
	case Ended:
		return checkpoints.Status(status.Ended)
	case Halted:
		return checkpoints.Halted
	case Waiting:
		return checkpoints.Waiting
	case Working:
		return checkpoints.Running
	}
	return run.Status
}

// facts reads what the flow's state says: the plan's hash and the pull request.
// A user's flow may use these keys for something else, which then is no fact.
func (r *Reporter) facts(ctx context.Context, v *status.View, run checkpoints.Run, at placed) error {
	state, err := flows.DecodeState(run.State)
	if err != nil {
		return fmt.Errorf("run %s: %w", run.ID, err)
	}
	v.PlanHash = state.Str("plan_hash")
	saved, err := r.store.Effect(ctx, savedKey(run.ID))
	if err == nil {
		err = json.Unmarshal(saved, &v.Saved)
	}
	if err != nil && !errors.Is(err, checkpoints.ErrNotFound) {
		return fmt.Errorf("reading where the work of run %s is saved: %w", run.ID, err)
	}
	if strings.Contains(v.Reason, v.Saved) {
		v.Saved = "" // the reason names the branch already
	}
	if page, _, ok := strings.Cut(at.URL, "#"); ok && state.Int("plan_comment") > 0 {
		v.Links = append(v.Links, status.Link{Title: "Plan", URL: page + "#issuecomment-" + strconv.Itoa(state.Int("plan_comment"))})
	}
	number := state.Int("pr")
	if number <= 0 {
		return nil
	}
	pull, err := r.forge.Pull(ctx, forge.Ref{Repo: v.Ref.Repo, Number: number})
	switch {
	case forge.IsKind(err, forge.KindNotFound):
		return nil // a link to nothing helps nobody
	case err != nil:
		return fmt.Errorf("reading pull request #%d: %w", number, err)
	}
	v.Links = append(v.Links, status.Link{Title: "Pull request #" + strconv.Itoa(number), URL: pull.HTMLURL})
	if run.Phase == string(labels.Review) {
		v.Links = append(v.Links, status.Link{Title: "Checks", URL: pull.HTMLURL + "/checks"})
	}
	return nil
}

// looked says of a look at an outsider's issue what it is and what to do.
func (r *Reporter) looked(v *status.View, run checkpoints.Run) error {
	state, err := flows.DecodeState(run.State)
	if err != nil {
		return fmt.Errorf("run %s: %w", run.ID, err)
	}
	var missing []string
	if raw := state.Raw("missing"); len(raw) > 0 && json.Unmarshal(raw, &missing) == nil && len(missing) > 0 {
		v.Reason = "What is missing: " + strings.Join(missing, " ")
	}
	v.Phase = "first look"
	v.Next = "Nothing was started. A maintainer starts the work by adding the label " + r.names.Triage + "."
	return nil
}
