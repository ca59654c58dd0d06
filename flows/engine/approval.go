package engine

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/pipelinebot/pipelinebot/flows"
)

// approval waits until one of its approvers has said yes or no. Whatever else
// is delivered is consumed and waited over: silence, strangers and words that
// are neither yes nor no approve nothing.
func (w *walk) approval(ctx context.Context, node *planned, en entry) result {
	message, err := flows.ExpandMessage(node.Message, w.state.view(), w.about, maxAsked)
	if err != nil {
		return result{outcome: flows.Failed, code: "template", err: fmt.Errorf("the message of node %s: %w", node.ID, err)}
	}
	a, res, over := w.await(ctx, node, en, flows.ApprovalEvent, message)
	if over {
		return res
	}
	data, err := flows.DecodeState(a.event.Data)
	if err != nil {
		return a.passOver(fmt.Sprintf("event %s can't be read: %v", a.event.Key, err))
	}
	by, role, said := data.Str("by"), data.Str("role"), flows.Outcome(data.Str("outcome"))
	switch {
	case by == "" && role != operator:
		return a.passOver(fmt.Sprintf("event %s does not say by whom it is", a.event.Key))
	case !mayApprove(node.Approvers, by, role):
		return a.passOver(fmt.Sprintf("%s (%s) is not among the approvers: %s", by, orNone(role), strings.Join(node.Approvers, ", ")))
	case said != flows.OK && said != flows.Denied:
		return a.passOver(fmt.Sprintf("%s said %q, which is neither ok nor denied", orNone(by), said))
	}
	res = result{outcome: said, eventKey: a.event.Key, note: "approved"}
	if said == flows.Denied {
		res.note = "denied"
	}
	if by == "" {
		by = "the " + operator
	}
	res.note += " by " + by
	if note := data.Str("note"); note != "" {
		res.note += ": " + note
	}
	var missing string
	if res.delta, missing = taken(node, data); missing != "" && said == flows.OK {
		return a.passOver(fmt.Sprintf("event %s has no %s", a.event.Key, missing))
	}
	return res
}

// operator is the role of whoever runs the program; he always may.
const operator = "operator"

// roles in the order of their rights.
func roles() []string { return []string{"triage", "write", "maintain", "admin"} }

// mayApprove reports that somebody is among the approvers.
func mayApprove(approvers []string, by, role string) bool {
	if role == operator {
		return true
	}
	has := slices.Index(roles(), role)
	return slices.ContainsFunc(approvers, func(a string) bool {
		if login, ok := strings.CutPrefix(a, "user:"); ok {
			return by != "" && strings.EqualFold(login, by)
		}
		if least, ok := strings.CutPrefix(a, "role:"); ok {
			needs := slices.Index(roles(), least)
			return needs >= 0 && has >= needs
		}
		return false
	})
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}
