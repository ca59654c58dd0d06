package status

import (
	"fmt"

	"github.com/pipelinebot/pipelinebot/labels"
	"github.com/pipelinebot/pipelinebot/phases/markdown"
)

// Headline says where the issue stands in one sentence.
func Headline(v View) string {
	switch v.State {
	case Ready:
		return "Waiting for a worker."
	case Running:
		return "Working."
	case Halted:
		if v.Code == "drift" {
			return "Halted: the program, or a part of it, is not of the version any more with which this began. The position is kept."
		}
		return "Stopped. Nothing is running, and the position is kept."
	case BackingOff:
		return "Waiting before another try" + until(v) + "."
	case Waiting:
		switch v.WaitsFor {
		case "approval":
			if v.PlanHash == "" {
				return "Waiting for a person's approval" + until(v) + "."
			}
			return "Waiting for a person to approve the plan" + until(v) + "."
		case "answer":
			return "Waiting for an answer" + until(v) + "."
		}
		return "Waiting" + until(v) + "."
	}
	if h, ok := endings(v.Phase, v.Result); ok {
		return h
	}
	return "Ended."
}

func until(v View) string {
	if v.Until.IsZero() {
		return ""
	}
	return " (until " + v.Until.UTC().Format("2006-01-02 15:04 MST") + ")"
}

// endings are the results in words.
func endings(phase, result string) (string, bool) {
	switch result {
	case "error":
		return "Something went wrong, and the work ended.", true
	case "cancelled":
		return "Cancelled.", true
	case "needs_human":
		return "A person must look at this.", true
	case "closed":
		return "Ended, since there is nothing open to work on.", true
	case "merged":
		return "Done: a pull request for this issue is merged.", true
	}
	words, ok := map[string]string{
		"triage/accepted":          "Accepted; planning comes next.",
		"triage/needs_info":        "Put aside: information is missing.",
		"triage/declined":          "Declined.",
		"triage/split":             "Too large for one change.",
		"triage/duplicate":         "There is other work on this already.",
		"triage/skipped":           "Triage was left out; planning comes next.",
		"review/skipped":           "A person ended the review; the pull request is theirs.",
		"plan/approved":            "The plan is approved; the implementation comes next.",
		"plan/rejected":            "The plan was turned down.",
		"plan/expired":             "Nobody approved the plan in time.",
		"implement/pr_opened":      "A pull request is open; its review comes next.",
		"implement/no_progress":    "Stopped, since further attempts would lead nowhere.",
		"implement/empty":          "Ended without any change.",
		"review/approved":          "Done: the pull request is reviewed and its tests pass.",
		"review/changes_requested": "The review asks for changes; they come next.",
	}[phase+"/"+result]
	return words, ok
}

// Advice says what to do next, for every state and result. Where the pipeline
// goes on by itself it says so.
func Advice(v View) string {
	l := v.Labels
	if l == (labels.Names{}) {
		l = labels.Default()
	}
	label := markdown.Code
	switch v.State {
	case Ready, Running:
		return fmt.Sprintf("Nothing. To stop it, add the label %s.", label(l.Stop))
	case BackingOff:
		return fmt.Sprintf("Nothing; it goes on by itself. To stop it, add the label %s.", label(l.Stop))
	case Halted:
		if v.Code == "drift" {
			return driftAdvice(v, label(phaseLabel(l, v.Phase)))
		}
		return fmt.Sprintf("To go on from the last checkpoint, remove %s (or %s) and add the label of the phase again: %s.",
			label(l.Stop), label(l.StopAll), label(phaseLabel(l, v.Phase)))
	case Waiting:
		switch v.WaitsFor {
		case "approval":
			if v.PlanHash == "" {
				return "Comment `/pipeline approve` to let it go on, or `/pipeline deny`."
			}
			return fmt.Sprintf("Read the plan above. Comment `/pipeline approve %s` or add the label %s to approve it, `/pipeline revise TEXT` to have it changed, or `/pipeline reject`.",
				v.PlanHash[:min(8, len(v.PlanHash))], label(l.Approved))
		case "answer":
			return "Answer the questions above in a comment, or complete the issue's text."
		}
		return "Nothing; it goes on when what it waits for happens."
	}
	if a := adviceByCode(v.Code, l); a != "" {
		return a
	}
	return adviceByResult(v, l)
}

// driftAdvice is the ways out for a run that another version of the program
// began: labels don't move it, only an operator does.
func driftAdvice(v View, again string) string {
	return fmt.Sprintf("An operator decides: `pipelinebot runs audit %[1]s` tells what changed, `pipelinebot runs resume %[1]s --accept-drift` goes on with this version of the program, "+
		"`pipelinebot runs cancel %[1]s` ends it, its work saved; then the label %[2]s starts the phase anew.", v.RunID, again)
}

// phaseLabel is the label that starts a phase.
func phaseLabel(l labels.Names, phase string) string {
	switch phase {
	case "plan":
		return l.Plan
	case "implement":
		return l.Implement
	case "review":
		return l.Review
	}
	return l.Triage
}

// adviceByCode knows the codes that say more than the result does.
func adviceByCode(code string, l labels.Names) string {
	label := markdown.Code
	replan := "Add the label " + label(l.Plan) + " to have it planned anew."
	switch code {
	case "permission-denied":
		return "Give the bot the permission named above, then add the label of the phase again."
	case "test-command-missing":
		return "Set the repository's test command in the configuration (`phases.implement.tests.command`), then add " + label(l.Implement) + " again."
	case "test-program-missing":
		return "Install the program where the bot runs tests, or set another test command (`phases.implement.tests.command`), then add " + label(l.Implement) + " again."
	case "budget":
		return "Raise the limit in the configuration or finish the work by hand, then add the label of the phase again."
	case "unknown-price":
		return "Give the model's price in the configuration, or allow a model without one."
	case "model-access":
		return "Check the model's API key in the configuration."
	case "breaker":
		return "Change what keeps it from getting on, then remove " + label(l.Stop) + " (or comment `/pipeline resume`) and add the label of the phase again."
	case "no-plan":
		return replan
	case "issue-changed":
		return replan
	case "workflow-file":
		return "A person must change workflow files; do that part by hand, or plan the issue without it."
	case "protected-path":
		return "The change touches a protected path. Make it by hand, or change `phases.implement.protected` in the configuration and " + label(l.Implement) + " it again."
	case "secret":
		return "Look at the finding: the change held what looks like a secret, and nothing was pushed. Then add " + label(l.Plan) + " to plan it anew."
	case "too-big":
		return "Split the issue, or raise the limits of a change in the configuration."
	case "branch-moved", "head-moved":
		return "Somebody else pushed to the branch; finish the pull request by hand."
	case "branch-gone":
		return replan
	case "plan-unsettled", "approval-lapsed":
		return "Make the issue's text more precise, then add " + label(l.Plan) + " again."
	case "review-unsettled":
		return "Read the review, then merge, change or close the pull request."
	case "no-pull":
		return "Add the label " + label(l.Implement) + " to have a pull request made."
	case "issue-locked":
		return "Unlock the issue and add the label of the phase again, if work should go on."
	case "pull-open":
		return "Review that pull request, or close it and add " + label(l.Triage) + " again."
	case "duplicate":
		return "Close this issue, or add " + label(l.Plan) + " if it is something else after all."
	}
	return ""
}

func adviceByResult(v View, l labels.Names) string {
	label := markdown.Code
	switch v.Result {
	case "skipped":
		if v.Phase == "review" {
			return "Read the pull request, then merge, change or close it."
		}
		return "Nothing; the next phase starts by itself."
	case "accepted", "approved", "pr_opened", "changes_requested":
		if v.Phase == "review" && v.Result == "approved" {
			return "Read the pull request and merge it."
		}
		return "Nothing; the next phase starts by itself."
	case "needs_info":
		return "Complete the issue, then add " + label(l.Triage) + " again."
	case "declined":
		return "Close the issue, or add " + label(l.Plan) + " if it should be done all the same."
	case "split":
		return "Split it into smaller issues, then add " + label(l.Triage) + " to each."
	case "duplicate":
		return "Close this issue, or add " + label(l.Plan) + " if it should be done all the same."
	case "rejected":
		return "Say in a comment what should be different, then add " + label(l.Plan) + " again."
	case "expired":
		return "Add " + label(l.Plan) + " again when somebody can read the plan."
	case "no_progress", "empty":
		return "Make the issue or the plan more precise and add " + label(l.Plan) + " again, or do it by hand."
	case "closed", "merged":
		return "Nothing. To work on it again, reopen it and add " + label(l.Triage) + "."
	case "cancelled":
		return "To start again, add the label of the phase: " + label(phaseLabel(l, v.Phase)) + "."
	case "error":
		return "Look at the reason and the bot's log, then add the label of the phase again: " + label(phaseLabel(l, v.Phase)) + "."
	case "needs_human":
		return "Look at the reason; to let the pipeline try again, add the label of the phase: " + label(phaseLabel(l, v.Phase)) + "."
	}
	if v.RunID == "" {
		return "Look at the run's history: `pipelinebot runs list` names it, `pipelinebot runs show RUN` prints it."
	}
	return fmt.Sprintf("Look at the run's history: `pipelinebot runs show %s`.", v.RunID)
}
