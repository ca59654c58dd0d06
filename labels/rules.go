package labels

import (
	"strings"

	"github.com/pipelinebot/pipelinebot/internal/forge"
)

// Rules is the table, in order.
func Rules() []Rule {
	rules := append(operatorRules(), selfRule(), botRule())
	rules = append(rules, issueRules()...)
	rules = append(rules, stopRules()...)
	rules = append(rules, commandRules()...)
	return append(rules, phaseRules()...)
}

// operatorRules come first: an operator who acts with the bot's own account is
// still an operator.
func operatorRules() []Rule {
	kind := func(k forge.EventKind) func(Machine, Input) bool {
		return func(_ Machine, in Input) bool { return in.Event.Kind == k && in.Actor.Operator }
	}
	return []Rule{
		{
			Name: "operator-cancel", When: "an operator runs `runs cancel`", Then: "cancel the open run, work saved",
			match: kind(forge.ManualCancel),
			decide: func(_ Machine, in Input) Decision {
				if in.Run == nil {
					return ignore("the run is over already")
				}
				if in.Run.Status == "ending" {
					return ignore("the run is about to end")
				}
				return Decision{Action: Cancel, Why: "an operator cancelled the run", Data: map[string]any{"result": "cancelled"}}
			},
		},
		{
			Name: "operator-resume", When: "an operator runs `runs resume`", Then: "lift the issue's stop and wake the halted run",
			match: kind(forge.ManualResume),
			decide: func(_ Machine, in Input) Decision {
				if !halted(in) && !in.Stopped {
					return ignore("there is nothing to resume")
				}
				return Decision{Action: LiftIssue, Why: "an operator resumed the work"}
			},
		},
	}
}

func selfRule() Rule {
	return Rule{
		Name: "self", When: "the bot caused the event", Then: "ignore",
		match:  func(_ Machine, in Input) bool { return in.Actor.Self && !in.Actor.Operator },
		decide: func(Machine, Input) Decision { return ignore("this is the bot's own doing") },
	}
}

func botRule() Rule {
	return Rule{
		Name: "bot", When: "another bot labels or comments and is not listed", Then: "ignore; put back a stop label it removed",
		match: func(_ Machine, in Input) bool {
			return in.Actor.Bot && !in.Actor.Listed && !isIssueFate(in.Event.Kind)
		},
		decide: func(m Machine, in Input) Decision {
			// No comment: two bots that answer each other never end.
			d := ignore("@%s is a bot that the configuration does not list", in.Actor.Login)
			d.Deltas = putBack(m, in)
			return d
		},
	}
}

func isIssueFate(k forge.EventKind) bool {
	return k == forge.IssueClosed || k == forge.IssueGone || k == forge.IssueLocked
}

func issueRules() []Rule {
	fate := func(name string, k forge.EventKind, holds func(Input) bool, what, result string) Rule {
		return Rule{
			Name: name, When: "the issue was " + what + " while a run is open", Then: "cancel, work saved",
			match: func(_ Machine, in Input) bool { return in.Event.Kind == k && in.Run != nil && holds(in) },
			decide: func(Machine, Input) Decision {
				return Decision{Action: Cancel, Why: "the issue was " + what, Data: map[string]any{"result": result}}
			},
		}
	}
	return []Rule{
		fate("gone", forge.IssueGone, func(Input) bool { return true }, "moved, deleted or converted", "cancelled"),
		fate("closed", forge.IssueClosed, func(in Input) bool { return !in.Issue.Open }, "closed", "closed"),
		fate("locked", forge.IssueLocked, func(in Input) bool { return in.Issue.Locked }, "locked", "cancelled"),
	}
}

func stopRules() []Rule {
	label := func(k forge.EventKind, pick func(Names) string) func(Machine, Input) bool {
		return func(m Machine, in Input) bool { return in.Event.Kind == k && Same(in.Event.Label, pick(m.Names)) }
	}
	one := func(n Names) string { return n.Stop }
	all := func(n Names) string { return n.StopAll }
	return []Rule{
		{
			Name: "stop", When: "the stop label is added", Then: "halt the issue's work if the actor may stop",
			match: label(forge.Labeled, one), decide: func(m Machine, in Input) Decision { return stop(m, in, StopIssue) },
		},
		{
			Name: "stop-all", When: "the stop-all label is added to any issue", Then: "halt the repository if the actor may stop",
			match: label(forge.Labeled, all), decide: func(m Machine, in Input) Decision { return stop(m, in, StopRepo) },
		},
		{
			Name: "lift", When: "the stop label is removed", Then: "lift the stop if the actor may, else put the label back",
			match: label(forge.Unlabeled, one), decide: func(m Machine, in Input) Decision { return lift(m, in, LiftIssue) },
		},
		{
			Name: "lift-all", When: "the stop-all label is removed", Then: "lift the repository's stop if the actor may, else put the label back",
			match: label(forge.Unlabeled, all), decide: func(m Machine, in Input) Decision { return lift(m, in, LiftRepo) },
		},
	}
}

func stop(m Machine, in Input, a Action) Decision {
	if !may(in, m.Policy.Stop) {
		return lacks(in, "stop the pipeline", m.Policy.Stop)
	}
	return Decision{Action: a, Why: "@" + in.Actor.Login + " stopped the work"}
}

func lift(m Machine, in Input, a Action) Decision {
	if !may(in, m.Policy.Lift) {
		d := lacks(in, "lift a stop", m.Policy.Lift)
		d.Deltas = putBack(m, in)
		return d
	}
	return Decision{Action: a, Why: "@" + in.Actor.Login + " lifted the stop"}
}

// putBack restores a stop label that somebody removed without the right to:
// the latch still holds, and the label must not say otherwise.
func putBack(m Machine, in Input) []Delta {
	if in.Event.Kind != forge.Unlabeled || !in.Stopped {
		return nil
	}
	for _, l := range []string{m.Names.Stop, m.Names.StopAll} {
		if Same(in.Event.Label, l) && !Has(in.Issue.Labels, l) {
			return []Delta{{Add: true, Label: l, Reason: "the stop still holds"}}
		}
	}
	return nil
}

func commandRules() []Rule {
	return []Rule{
		{
			Name: "command", When: "a comment has a /pipeline line", Then: "do it if the actor may",
			match: func(_ Machine, in Input) bool {
				if in.Event.Kind != forge.Commented || in.Event.Comment == nil {
					return false
				}
				_, ok := ParseCommand(in.Event.Comment.Body)
				return ok
			},
			decide: func(m Machine, in Input) Decision {
				c, _ := ParseCommand(in.Event.Comment.Body)
				return command(m, in, c)
			},
		},
		{
			Name: "answer", When: "a person comments while the run, or a child of it, waits for an answer, or the run is about to", Then: "hand the answer to the run, at once or later",
			match: func(_ Machine, in Input) bool {
				return in.Event.Kind == forge.Commented && in.Event.Comment != nil &&
					(awaits(in, "answer") || in.Asks != "" || (open(in) && in.Run.Phase == Triage && in.Run.Status != "waiting"))
			},
			decide: func(m Machine, in Input) Decision {
				if !awaits(in, "answer") && in.Asks == "" {
					return Decision{Action: Later, Why: "triage may be about to ask"}
				}
				author := in.Actor.ID != 0 && in.Actor.ID == in.Issue.Author.ID
				if !author && !may(in, m.Policy.Answer) {
					return ignore("only the issue's author or somebody with the %s permission can answer", m.Policy.Answer)
				}
				d := Decision{
					Action: Deliver, Deliver: "answer", Why: "@" + in.Actor.Login + " answered",
					Data: map[string]any{"by": in.Actor.Login, "comment": in.Event.Comment.ID},
				}
				if !awaits(in, "answer") {
					d.Run = in.Asks
				}
				return d
			},
		},
	}
}

func command(m Machine, in Input, c Command) Decision {
	switch c.Verb {
	case "approve", "reject", "deny":
		if in.Approval != nil {
			return answerApproval(in, c)
		}
		return approve(m, in, c)
	case "stop":
		return stop(m, in, StopIssue)
	case "resume":
		if !may(in, m.Policy.Lift) {
			return lacks(in, "resume the work", m.Policy.Lift)
		}
		if !halted(in) && !in.Stopped {
			return refuse("there is nothing to resume: no stop is in force and no run is halted")
		}
		return Decision{Action: LiftIssue, Why: "@" + in.Actor.Login + " resumed the work"}
	}
	return refuse("there is no command %q; the commands are %s", "/pipeline "+c.Verb, help())
}

// answerApproval hands a yes or no to a run that waits at an approval node.
// The node says who may give it.
func answerApproval(in Input, c Command) Decision {
	a := *in.Approval
	if !a.May(in.Actor) {
		return refuse("@%s may not %s this: the flow %s asks for one of %s, and they have the %s permission",
			in.Actor.Login, c.Verb, a.Flow, strings.Join(a.Approvers, ", "), in.Actor.Permission)
	}
	d := Decision{
		Action: Deliver, Deliver: "approval", Run: a.Run, Why: "@" + in.Actor.Login + " approved the " + a.Flow + " flow to go on",
		Data: map[string]any{"by": in.Actor.Login, "role": in.Actor.Permission.String(), "via": "comment", "outcome": "ok"},
	}
	if c.Verb != "approve" {
		d.Data["outcome"] = "denied"
		d.Why = "@" + in.Actor.Login + " turned down what the " + a.Flow + " flow asked for"
	}
	if c.Arg != "" {
		d.Data["note"] = c.Arg
	}
	return d
}

func approve(m Machine, in Input, c Command) Decision {
	if !may(in, m.Policy.Approve) {
		return lacks(in, c.Verb+" a plan", m.Policy.Approve)
	}
	if !planning(in) {
		return refuse("no plan is waiting for approval")
	}
	data := map[string]any{"by": in.Actor.Login, "via": "comment", "hash": strings.ToLower(c.Arg)}
	if c.Verb != "approve" {
		data["outcome"] = "denied"
		return Decision{Action: Deliver, Deliver: "approval", Data: data, Why: "@" + in.Actor.Login + " rejected the plan"}
	}
	if c.Arg == "" {
		return refuse("say which plan: `/pipeline approve HASH`, with the hash that the plan shows")
	}
	return Decision{Action: Deliver, Deliver: "approval", Data: data, Why: "@" + in.Actor.Login + " approved the plan"}
}
