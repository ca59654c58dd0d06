package labels

import "github.com/pipelinebot/pipelinebot/internal/forge"

// Rules is the table, in order.
func Rules() []Rule {
	rules := append(operatorRules(), newsRule(), noteRule(), selfRule(), botRule())
	rules = append(rules, issueRules()...)
	rules = append(rules, stopRules()...)
	rules = append(rules, commandRules()...)
	rules = append(rules, phaseRules()...)
	return append(rules, openedRule())
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

// newsRule comes before those about actors: whoever brought it about, a run
// that waits to look again may look now.
func newsRule() Rule {
	return Rule{
		Name: "news", When: "a pull request was closed, merged, reviewed or got commits, or its checks changed", Then: "let the run that waits to look at it again look at once; checks at most twice a minute",
		match: func(_ Machine, in Input) bool { return IsNews(in.Event.Kind) },
		decide: func(_ Machine, in Input) Decision {
			if len(in.Looks) == 0 {
				return ignore("no run waits to look at it again")
			}
			return Decision{Action: Wake, Runs: in.Looks, Why: "there is news of the pull request"}
		},
	}
}

// IsNews reports that an event of this kind concerns pull requests and commits.
func IsNews(k forge.EventKind) bool {
	switch k {
	case forge.PullClosed, forge.Reviewed, forge.ChecksChanged, forge.Pushed:
		return true
	default:
		return false
	}
}

// noteRule is for events that change nothing here by design.
func noteRule() Rule {
	return Rule{
		Name: "noted", When: "a comment was edited, an issue reopened, or a label, a repository, an installation or a member changed", Then: "ignore: a command counts when it is written, work begins with a label, and permissions are asked anew each time",
		match:  func(_ Machine, in Input) bool { return IsNoted(in.Event.Kind) },
		decide: func(_ Machine, in Input) Decision { return ignore("%s", noted(in.Event.Kind)) },
	}
}

// IsNoted reports that nothing follows from events of this kind, whatever else
// is known.
func IsNoted(k forge.EventKind) bool { return noted(k) != "" }

func noted(k forge.EventKind) string {
	switch k {
	case forge.CommentEdited:
		return "what is edited into a comment is no command and no answer"
	case forge.IssueReopened:
		return "work on a reopened issue begins with a label"
	case forge.LabelChanged:
		return "the labels of the repository are looked at by `pipelinebot labels plan`"
	case forge.RepoChanged, forge.InstallationChanged:
		return "which repositories are served is found out by itself"
	case forge.MemberChanged:
		return "permissions are asked anew each time"
	default:
		return ""
	}
}

// openedRule is the look at issues of people who may not start triage.
func openedRule() Rule {
	return Rule{
		Name: "opened", When: "an issue is opened by somebody who may not start triage", Then: "look at it without changing anything, if the configuration says so",
		match: func(_ Machine, in Input) bool { return in.Event.Kind == forge.IssueOpened },
		decide: func(m Machine, in Input) Decision {
			switch {
			case !m.Policy.Outsiders:
				return ignore("issues of outsiders are not looked at")
			case in.Issue.Pull, !in.Issue.Open, in.Issue.Locked, in.Actor.ID == 0, in.Actor.ID != in.Issue.Author.ID:
				return ignore("there is nothing to look at")
			case may(in, m.Policy.Start[Triage]):
				return ignore("@%s may start triage", in.Actor.Login)
			case in.Run != nil, in.Last != nil, len(m.Names.present(in.Issue.Labels)) > 0:
				return ignore("the pipeline has the issue already")
			case in.Stopped:
				return ignore("a stop is in force")
			}
			return Decision{Action: Look, Phase: Triage, Why: "@" + in.Actor.Login + " opened the issue"}
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
