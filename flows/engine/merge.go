package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/pipelinebot/pipelinebot/checkpoints"
	"github.com/pipelinebot/pipelinebot/flows"
)

// ErrJoin means that a merge was reached without all that it joins.
var ErrJoin = errors.New("join unsatisfied")

// merge puts what the branches of a fanout have changed into the state, in
// its own order, runs its action over that, if it has one, and reports a line
// a branch. A merge that fails changes nothing.
func (w *walk) merge(ctx context.Context, node *planned, en entry) result {
	rows, err := w.joined(node)
	if errors.Is(err, ErrJoin) {
		return result{outcome: flows.Failed, code: "join-unsatisfied", err: err, dead: true}
	} else if err != nil {
		return result{fatal: err}
	}
	for _, id := range node.Of {
		if rows[id].Outcome != string(flows.OK) {
			continue
		}
		if err := w.mergeBranch(id, rows[id]); err != nil {
			return result{outcome: flows.Failed, code: "invalid-state", err: fmt.Errorf("node %s, branch %s: %w", node.ID, id, err)}
		}
	}
	res := result{outcome: flows.OK}
	if node.action != nil {
		res = w.act(ctx, node, en)
	}
	if node.Report != "" && res.outcome == flows.OK {
		res.report = report(node.Of, rows, w.flow.FieldRef(node.Report))
	}
	return res
}

// joined are the rows of all branches, those of required ones ok.
func (w *walk) joined(node *planned) (map[string]checkpoints.BranchRecord, error) {
	if node.fanout == nil {
		return nil, fmt.Errorf("%w: node %s joins no fanout", ErrJoin, node.ID)
	}
	rows, err := w.branchRows(node.fanout.ID, w.run.Visits[node.fanout.ID])
	if err != nil {
		return nil, err
	}
	var missing []string
	for _, id := range node.Of {
		row, there := rows[id]
		if !there || row.Outcome != string(flows.OK) && !w.plan.nodes[id].Optional {
			missing = append(missing, id)
		}
	}
	if len(missing) > 0 {
		return nil, fmt.Errorf("%w: node %s lacks %s of fanout %s", ErrJoin, node.ID, strings.Join(missing, ", "), node.fanout.ID)
	}
	return rows, nil
}

// mergeBranch applies what one branch has changed. It was checked when it was
// stored, and is again.
func (w *walk) mergeBranch(id string, row checkpoints.BranchRecord) error {
	if len(row.Delta) == 0 {
		return nil
	}
	var values map[string]json.RawMessage
	if err := json.Unmarshal(row.Delta, &values); err != nil {
		return fmt.Errorf("%w: what it changed can't be read: %w", flows.ErrCorrupt, err)
	}
	delta := make(map[string]any, len(values))
	for key, raw := range values {
		delta[key] = raw
	}
	return w.state.apply(w.plan.nodes[id].writes, delta, nil)
}

// report is a line a branch, as long as the field allows.
func report(of []string, rows map[string]checkpoints.BranchRecord, f *flows.Field) []string {
	lines := make([]string, 0, len(of))
	for _, id := range of {
		line := id + ": ok"
		if row := rows[id]; row.Outcome != string(flows.OK) {
			line = fmt.Sprintf("%s: unavailable (%s)", id, why(row))
		}
		if f != nil && f.MaxLen > 0 && len(line) > f.MaxLen {
			line = line[:f.MaxLen]
			for !utf8.ValidString(line) {
				line = line[:len(line)-1]
			}
		}
		lines = append(lines, line)
	}
	return lines
}

func why(row checkpoints.BranchRecord) string {
	if row.Note == "" {
		return row.Outcome
	}
	return row.Outcome + ": " + row.Note
}
