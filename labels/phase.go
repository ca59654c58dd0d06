package labels

import "slices"

// Phase is one stage of the pipeline.
type Phase string

// The phases, in the order an issue walks them.
const (
	Triage    Phase = "triage"
	Plan      Phase = "plan"
	Implement Phase = "implement"
	Review    Phase = "review"
)

// Phases lists all phases in order.
func Phases() []Phase { return []Phase{Triage, Plan, Implement, Review} }

// Of returns the phase that a label stands for; ok is false for all other
// labels. Awaiting-approval is the parked half of the plan phase.
func (n Names) Of(label string) (p Phase, ok bool) {
	switch {
	case Same(label, n.Triage):
		return Triage, true
	case Same(label, n.Plan), Same(label, n.AwaitingApproval):
		return Plan, true
	case Same(label, n.Implement):
		return Implement, true
	case Same(label, n.Review):
		return Review, true
	}
	return "", false
}

// For is the label that starts a phase, "" for an unknown one.
func (n Names) For(p Phase) string {
	switch p {
	case Triage:
		return n.Triage
	case Plan:
		return n.Plan
	case Implement:
		return n.Implement
	case Review:
		return n.Review
	}
	return ""
}

// All lists every name, phases first.
func (n Names) All() []string {
	return []string{
		n.Triage, n.Plan, n.AwaitingApproval, n.Approved, n.Implement, n.Review,
		n.Done, n.NeedsHuman, n.Declined, n.Stop, n.StopAll, n.Auto,
	}
}

// Holds reports that the labels on an issue still say that it is in phase p.
func (n Names) Holds(onIssue []string, p Phase) bool {
	return slices.ContainsFunc(onIssue, func(l string) bool {
		q, ok := n.Of(l)
		return ok && q == p
	})
}

// present returns the phases that the labels on an issue name, in order.
func (n Names) present(onIssue []string) []Phase {
	var found []Phase
	for _, p := range Phases() {
		if n.Holds(onIssue, p) {
			found = append(found, p)
		}
	}
	return found
}
