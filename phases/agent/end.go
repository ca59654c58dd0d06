package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/pipelinebot/pipelinebot/flows"
	"github.com/pipelinebot/pipelinebot/phases/issue"
	"github.com/pipelinebot/pipelinebot/phases/markdown"
)

type endWith struct {
	// Result is one of the flow's results; Code a stable word; Reason is for
	// people and may have templates.
	Result string `json:"result"`
	Code   string `json:"code"`
	Reason string `json:"reason"`
	// List is a state key with a list of texts that end the reason; the node's
	// `in` must have it.
	List string `json:"list"`
}

// maxListed is how many texts of a list are said.
const maxListed = 10

func checkEnd(raw json.RawMessage) error {
	w, err := flows.With[endWith](raw)
	switch {
	case err != nil:
		return err
	case w.Result == "" || w.Result == "none":
		return errors.New("result: say with which result the flow ends")
	case w.Code == "" || strings.TrimSpace(w.Reason) == "":
		return errors.New("code and reason: an early end says why")
	}
	return nil
}

// endsWith is the result that a node of flow.end names.
func endsWith(raw json.RawMessage) []string {
	w, err := flows.With[endWith](raw)
	if err != nil || w.Result == "" {
		return nil
	}
	return []string{w.Result}
}

// listed wants the key that list names in the node's `in`, and a list there.
func listed(n flows.NodeFacts) []flows.NodeProblem {
	w, err := flows.With[endWith](n.With)
	if err != nil || w.List == "" {
		return nil
	}
	if p, bad := unseen(n, w.List, "list"); bad {
		return []flows.NodeProblem{p}
	}
	if f, _ := n.Field(w.List); f.Type != flows.ListField {
		return []flows.NodeProblem{{
			Code: "type-mismatch", Path: []string{"with", "list"}, Hint: "name a list of texts",
			Msg: fmt.Sprintf("list names %s, which is of type %s", w.List, f.Type),
		}}
	}
	return nil
}

// end ends the flow early, in the author's words. It reads the key that list
// names and writes result.
func (k kit) end() flows.Action {
	return flows.Action{
		Name: "flow.end", Version: "1", ReadOnly: true, CheckWith: checkEnd, Writes: []string{"result"},
		CheckNode: listed, Ends: endsWith,
		Run: func(_ context.Context, c flows.Call) (flows.Result, error) {
			with, err := flows.With[endWith](c.With)
			if err != nil {
				return flows.Result{}, err
			}
			reason := with.Reason
			if list := c.In.Strings(with.List); len(list) > 0 {
				reason += " " + strings.Join(list[:min(len(list), maxListed)], ", ")
				if more := len(list) - maxListed; more > 0 {
					reason += fmt.Sprintf(" and %d more", more)
				}
			}
			return issue.End(with.Result, with.Code, "%s", reason), nil
		},
	}
}

type noteWith struct {
	// Text is the comment, Markdown of the author's; what templates put into
	// it is data.
	Text string `json:"text"`
}

func checkNote(raw json.RawMessage) error {
	w, err := flows.With[noteWith](raw)
	if err == nil && strings.TrimSpace(w.Text) == "" {
		err = errors.New("text is empty")
	}
	return err
}

// note writes one comment on the issue, once a visit.
func (k kit) note() flows.Action {
	return flows.Action{
		Name: "report.note", Version: "1", Effects: true, CheckWith: checkNote, Reads: []string{}, Writes: []string{"result"},
		Run: issue.Guard(func(ctx context.Context, c flows.Call) (flows.Result, error) {
			with, err := flows.With[noteWith](c.With)
			if err != nil {
				return flows.Result{}, err
			}
			marker := issue.Marker("note", "run", c.Run.ID, "node", c.Node, "visit", fmt.Sprint(c.Visit))
			if _, err := issue.Say(ctx, c, k.Forge, k.Scrub, "note", marker, markdown.Prose(with.Text)); err != nil {
				return flows.Result{}, err
			}
			return flows.Result{Note: "said so on the issue"}, nil
		}),
	}
}
