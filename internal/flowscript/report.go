package flowscript

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/pipelinebot/pipelinebot/checkpoints"
)

// Report is what came of a rehearsal.
type Report struct {
	Flow string `json:"flow"`
	Key  string `json:"key"`
	// Node is the parent's node that started a child run.
	Node   string `json:"node,omitempty"`
	Status string `json:"status"`
	// Result is the flow's, "error" or "cancelled"; Code and Reason say why.
	Result string `json:"result"`
	Code   string `json:"code,omitempty"`
	Reason string `json:"reason,omitempty"`
	// Path are the completed nodes in order, with the guards that were looked
	// at. A fanout's branches come before it.
	Path []Visit `json:"path"`
	// State is the final state.
	State json.RawMessage   `json:"state"`
	Spent checkpoints.Usage `json:"spent"`
	// Took is time by the rehearsal's clock.
	Took     time.Duration `json:"took_ns"`
	Children []Report      `json:"children,omitempty"`
	// Unmet says what differs from what the script expects.
	Unmet []string `json:"unmet,omitempty"`
}

// Visit is a completed node, or a finished branch of a fanout.
type Visit struct {
	Node    string `json:"node"`
	Kind    string `json:"kind"`
	Branch  bool   `json:"branch,omitempty"`
	Visit   int    `json:"visit"`
	Attempt int    `json:"attempt"`
	Outcome string `json:"outcome"`
	Next    string `json:"next,omitempty"`
	Note    string `json:"note,omitempty"`
	// Asked is what people were asked, of an approval.
	Asked string `json:"asked,omitempty"`
	// Delta is what it changed.
	Delta  json.RawMessage     `json:"delta,omitempty"`
	Guards []checkpoints.Guard `json:"guards,omitempty"`
}

// OK reports that everything expected came true.
func (r Report) OK() bool { return len(r.Unmet) == 0 }

func (p *player) report(ctx context.Context, id string) (Report, error) {
	run, err := p.store.Get(ctx, id)
	if err != nil {
		return Report{}, fmt.Errorf("reading run %s: %w", id, err)
	}
	r := Report{
		Flow: run.Flow, Key: run.Key, Node: run.ParentNode, Status: string(run.Status), Result: run.Result, Code: run.Code, Reason: run.Reason,
		State: run.State, Spent: run.Spent, Took: run.Updated.Sub(run.Created), Path: []Visit{},
	}
	history, err := p.store.History(ctx, id)
	if err != nil {
		return r, fmt.Errorf("reading the history of run %s: %w", id, err)
	}
	branches, err := p.store.Branches(ctx, id)
	if err != nil {
		return r, fmt.Errorf("reading the branches of run %s: %w", id, err)
	}
	for _, rec := range history {
		for _, b := range inOrder(branches, p.parts[id], rec) {
			r.Path = append(r.Path, Visit{
				Node: b.Branch, Kind: "step", Branch: true, Visit: b.Visit, Attempt: b.Attempt, Outcome: b.Outcome, Note: b.Note, Delta: b.Delta,
			})
		}
		r.Path = append(r.Path, Visit{
			Node: rec.Node, Kind: rec.Kind, Visit: rec.Visit, Attempt: rec.Attempt, Outcome: rec.Outcome, Next: rec.Next,
			Note: rec.Note, Delta: rec.Delta, Guards: rec.Guards, Asked: p.asked[asking{id, rec.Node, rec.Visit}],
		})
	}
	children, err := p.store.List(ctx, checkpoints.Filter{Parent: id, Limit: maxTurns})
	if err != nil {
		return r, fmt.Errorf("reading the children of run %s: %w", id, err)
	}
	slices.Reverse(children)
	for _, c := range children {
		child, err := p.report(ctx, c.ID)
		if err != nil {
			return r, err
		}
		r.Children = append(r.Children, child)
	}
	return r, nil
}

// inOrder are the branches of a fanout's visit in the order of the file, since
// the order in which they finish means nothing.
func inOrder(all []checkpoints.BranchRecord, p *part, rec checkpoints.NodeRecord) []checkpoints.BranchRecord {
	n, ok := p.flow.Node(rec.Node)
	if !ok {
		return nil
	}
	var mine []checkpoints.BranchRecord
	for _, id := range n.Branches {
		for _, b := range all {
			if b.Fanout == rec.Node && b.Visit == rec.Visit && b.Branch == id {
				mine = append(mine, b)
			}
		}
	}
	return mine
}

// Nodes is the path as ids, without branches.
func (r Report) Nodes() []string {
	var ids []string
	for _, v := range r.Path {
		if !v.Branch {
			ids = append(ids, v.Node)
		}
	}
	return ids
}

// compare fills Unmet.
func (r *Report) compare(e *Expect) {
	if e == nil {
		return
	}
	miss := func(format string, args ...any) { r.Unmet = append(r.Unmet, fmt.Sprintf(format, args...)) }
	if e.Result != "" && e.Result != r.Result {
		miss("result: want %s, got %s", e.Result, r.Result)
	}
	if e.Code != "" && e.Code != r.Code {
		miss("code: want %s, got %q", e.Code, r.Code)
	}
	if got := r.Nodes(); e.Path != nil && !slices.Equal(e.Path, got) {
		miss("path: want %s\n      got  %s", strings.Join(e.Path, " "), strings.Join(got, " "))
	}
	state := map[string]json.RawMessage{}
	if err := json.Unmarshal(r.State, &state); err != nil {
		miss("state: %v", err)
	}
	for _, key := range slices.Sorted(maps.Keys(e.State)) {
		want, err := json.Marshal(e.State[key])
		if got := compact(state[key]); err != nil || string(want) != got {
			miss("state.%s: want %s, got %s", key, want, got)
		}
	}
}

func compact(raw json.RawMessage) string {
	if raw == nil {
		return "nothing"
	}
	var b bytes.Buffer
	if json.Compact(&b, raw) != nil {
		return string(raw)
	}
	return b.String()
}
