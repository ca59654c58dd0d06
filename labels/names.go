// Package labels is the label state machine: what the labels on an issue, an
// event, its actor and the run's status together mean, decided purely and
// explained in words.
//
// It must not know GitHub's wire, stores or flows, and imports only
// internal/forge.
package labels

import "strings"

// Names are the labels in use; every one can be renamed in the configuration.
type Names struct {
	Triage           string
	Plan             string
	AwaitingApproval string
	Approved         string
	Implement        string
	Review           string
	Done             string
	NeedsHuman       string
	Declined         string
	// Stop halts one issue, StopAll a repository, Auto skips the human
	// approval of the plan.
	Stop    string
	StopAll string
	Auto    string
}

// Default are the names without configuration.
func Default() Names {
	return Names{
		Triage: "pipeline:triage", Plan: "pipeline:plan",
		AwaitingApproval: "pipeline:awaiting-approval", Approved: "pipeline:approved",
		Implement: "pipeline:implement", Review: "pipeline:review",
		Done: "pipeline:done", NeedsHuman: "pipeline:needs-human",
		Declined: "pipeline:declined",
		Stop:     "pipeline:stop", StopAll: "pipeline:stop-all", Auto: "pipeline:auto",
	}
}

// Same compares label names as GitHub does, without regard to case.
func Same(a, b string) bool { return strings.EqualFold(a, b) }

// Has reports that list holds name.
func Has(list []string, name string) bool {
	for _, l := range list {
		if Same(l, name) {
			return true
		}
	}
	return false
}
