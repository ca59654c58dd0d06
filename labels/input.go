package labels

import (
	"slices"
	"strings"

	"github.com/pipelinebot/pipelinebot/internal/forge"
)

// Input is all that a decision depends on.
type Input struct {
	Event forge.Event
	// Issue is the issue as it is now, not as the event saw it.
	Issue forge.Issue
	Actor Actor
	// Run is the issue's open run, nil when there is none.
	Run *Run
	// Approval is the run of the issue, or of one of its children, that waits
	// at an approval node; nil when none does.
	Approval *Approval
	// Asks is the child of the issue's runs that waits for an answer longest,
	// "" when none does.
	Asks string
	// Last is the issue's newest run that is over, nil when there is none; it
	// is known for commands and for opened issues.
	Last *Last
	// Looks are the runs that wait to look again at what the event is about.
	Looks []string
	// Changed says that the issue's text is not the one that the run which
	// waits for an answer has read.
	Changed bool
	// Stopped says that a stop is latched for the issue or its repository.
	Stopped bool
}

// Actor is who caused the event, and what they may do.
type Actor struct {
	forge.Actor
	Permission forge.Permission
	// Self is the bot itself. Listed is a bot that the configuration allows.
	Self, Listed bool
	// Operator is a person at the command line of the bot's own machine.
	Operator bool
}

// Run is what a decision needs to know of the open run.
type Run struct {
	ID    string
	Phase Phase
	// Status is the store's word: ready, running, waiting, halted, ending.
	Status string
	// Awaits is the kind of event that a waiting run waits for.
	Awaits string
}

// Last is what a decision needs to know of a run that is over.
type Last struct {
	Phase  Phase
	Result string
}

// Approval is a run that waits at an approval node of its flow.
type Approval struct {
	// Run is its id, Flow its flow.
	Run, Flow string
	// Approvers are who may answer, as the node says: "role:write", "user:ada".
	Approvers []string
}

// May reports that an actor is among the approvers; an operator always is.
func (a Approval) May(who Actor) bool {
	if who.Operator {
		return true
	}
	return slices.ContainsFunc(a.Approvers, func(approver string) bool {
		if login, ok := strings.CutPrefix(approver, "user:"); ok {
			return who.Login != "" && Same(login, who.Login)
		}
		role, ok := strings.CutPrefix(approver, "role:")
		least, err := forge.ParsePermission(role)
		return ok && err == nil && least >= forge.Triage && who.Permission >= least
	})
}

// Policy is who may do what.
type Policy struct {
	// Start is the least permission that may start each phase.
	Start map[Phase]forge.Permission
	// Approve, Stop and Lift are the least permissions to approve a plan, to
	// stop work and to lift a stop or resume.
	Approve, Stop, Lift forge.Permission
	// Answer is the least permission to answer a question, beside the
	// issue's author.
	Answer forge.Permission
	// Outsiders lets new issues of people who may not start triage be looked
	// at, without a change to them.
	Outsiders bool
}

// DefaultPolicy asks for triage rights to triage and to stop, and for write
// rights to everything that spends more or changes code.
func DefaultPolicy() Policy {
	return Policy{
		Start: map[Phase]forge.Permission{
			Triage: forge.Triage, Plan: forge.Write, Implement: forge.Write, Review: forge.Write,
		},
		Approve: forge.Write, Stop: forge.Triage, Lift: forge.Write, Answer: forge.Triage,
	}
}

// Action is what is to be done.
type Action string

// The actions.
const (
	// Ignore does nothing.
	Ignore Action = "ignore"
	// Refuse does nothing and tells the actor why.
	Refuse Action = "refuse"
	// Start starts a run of Decision.Phase.
	Start Action = "start"
	// Resume wakes the halted run.
	Resume Action = "resume"
	// Replace cancels the halted run and then starts Decision.Phase.
	Replace Action = "replace"
	// Cancel ends the open run with its work saved.
	Cancel Action = "cancel"
	// StopIssue and StopRepo latch a stop.
	StopIssue Action = "stop"
	StopRepo  Action = "stop-all"
	// LiftIssue and LiftRepo remove a latch; runs whose phase label is still
	// there go on.
	LiftIssue Action = "lift"
	LiftRepo  Action = "lift-all"
	// Deliver hands Decision.Deliver to the waiting run.
	Deliver Action = "deliver"
	// Later leaves the event pending: the run is about to end.
	Later Action = "later"
	// Wake lets the runs Decision.Runs look again.
	Wake Action = "wake"
	// Status and Help answer the actor: where the issue stands, and
	// Decision.Text.
	Status Action = "status"
	Help   Action = "help"
	// Look starts a run of Decision.Phase that changes nothing.
	Look Action = "look"
)

// Decision is what an event means.
type Decision struct {
	Action Action
	Phase  Phase
	// Deliver is the kind of event handed to the run, Data its flat content.
	// Run is which run gets it, "" for the issue's open one.
	Deliver string
	Run     string
	Data    map[string]any
	// Runs are the runs that Wake wakes.
	Runs []string
	// Deltas are label changes to make besides.
	Deltas []Delta
	// Rule names the row of the table that decided.
	Rule string
	// Why is the explanation for people.
	Why string
	// Tell asks for a comment that says Why.
	Tell bool
	// Text is the Markdown that Help answers.
	Text string
}
