package labels

// Delta is one label change: only add-one and remove-one exist, so that a
// person's labels are never overwritten.
type Delta struct {
	Add    bool   `json:"add"`
	Label  string `json:"label"`
	Reason string `json:"reason"`
}

// Transition is what a phase's result does.
type Transition struct {
	Phase  Phase
	Result string
	// Next is the phase that starts, "" when the pipeline ends here.
	Next Phase
	// To picks the label that the issue gets; nil for none.
	To func(Names) string
	// Why is for people.
	Why string
}

// Transitions is the table of phase endings. A result that is not listed goes
// to a person.
func Transitions() []Transition {
	done := func(n Names) string { return n.Done }
	human := func(n Names) string { return n.NeedsHuman }
	declined := func(n Names) string { return n.Declined }
	phase := func(p Phase) func(Names) string { return func(n Names) string { return n.For(p) } }
	return []Transition{
		{Triage, "accepted", Plan, phase(Plan), "the issue is clear enough to plan"},
		{Triage, "needs_info", "", human, "the question was not answered"},
		{Triage, "declined", "", declined, "the issue is not work for the pipeline"},
		{Triage, "duplicate", "", declined, "other work covers the issue"},
		{Triage, "split", "", human, "the issue is too big for one change"},
		{Triage, Skipped, Plan, phase(Plan), "a person wants the issue planned as it is"},
		{Plan, "approved", Implement, phase(Implement), "the plan was approved"},
		{Plan, "rejected", "", human, "the plan was rejected"},
		{Plan, "expired", "", human, "nobody approved the plan in time"},
		{Implement, "pr_opened", Review, phase(Review), "the change is up as a pull request"},
		{Implement, "merged", "", done, "the pull request was merged meanwhile"},
		{Review, "approved", "", done, "the review found nothing that must change"},
		{Review, "changes_requested", Implement, phase(Implement), "the review asks for changes"},
		{Review, "merged", "", done, "the pull request was merged meanwhile"},
		{Review, Skipped, "", human, "a person ended the review; the pull request is theirs"},
		{"", "closed", "", nil, "the issue was closed"},
		{"", "cancelled", "", nil, "the work was cancelled"},
	}
}

// After returns the transition of a phase's result; an unlisted result goes to
// a person.
func After(p Phase, result string) Transition {
	for _, t := range Transitions() {
		if t.Result == result && (t.Phase == p || t.Phase == "") {
			t.Phase = p
			return t
		}
	}
	return Transition{
		Phase: p, Result: result, To: func(n Names) string { return n.NeedsHuman },
		Why: "a person has to look at it",
	}
}

// Completes reports that the pipeline ends here with its work done.
func (t Transition) Completes() bool {
	const done = "done"
	return t.To != nil && t.To(Names{Done: done}) == done
}

// Deltas are the label changes that bring an issue from the labels it has to
// the end of t: the new label first, so that the issue is never without one,
// then every label of the pipeline's progress that no longer holds. A change
// that is not needed is left out.
func (t Transition) Deltas(n Names, onIssue []string) []Delta {
	to := ""
	if t.To != nil {
		to = t.To(n)
	}
	var ds []Delta
	if to != "" && !Has(onIssue, to) {
		ds = append(ds, Delta{Add: true, Label: to, Reason: t.Why})
	}
	for _, l := range []string{
		n.Triage, n.Plan, n.AwaitingApproval, n.Approved, n.Implement,
		n.Review, n.Done, n.NeedsHuman, n.Declined,
	} {
		if !Same(l, to) && Has(onIssue, l) {
			ds = append(ds, Delta{Label: l, Reason: t.Why})
		}
	}
	return ds
}
