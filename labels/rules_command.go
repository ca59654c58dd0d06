package labels

import (
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/pipelinebot/pipelinebot/internal/forge"
)

func commandRules() []Rule {
	return []Rule{
		{
			Name: "command", When: "a new comment has a /pipeline line", Then: "do it if the actor may",
			match: func(_ Machine, in Input) bool {
				if in.Event.Kind != forge.Commented || in.Event.Comment == nil {
					return false
				}
				_, ok := ParseCommand(in.Event.Comment.Body)
				return ok
			},
			decide: func(m Machine, in Input) Decision {
				c, _ := ParseCommand(in.Event.Comment.Body)
				if do := doer(c.Verb); do != nil {
					return do(m, in, c)
				}
				return refuse("there is no command %q; the commands are %s", "/pipeline "+c.Verb, help())
			},
		},
		{
			Name: "answer", When: "a person comments while the run, or a child of it, waits for an answer, or the run is about to", Then: "hand the answer to the run, at once or later",
			match: func(_ Machine, in Input) bool {
				return in.Event.Kind == forge.Commented && in.Event.Comment != nil && asksOrMay(in)
			},
			decide: func(m Machine, in Input) Decision {
				return answer(m, in, "answered", map[string]any{"by": in.Actor.Login, "comment": in.Event.Comment.ID})
			},
		},
		{
			Name: "edited", When: "the issue's text is edited while the run, or a child of it, waits for an answer, or the run is about to", Then: "let the run read it anew, at once or later",
			match: func(_ Machine, in Input) bool { return in.Event.Kind == forge.IssueEdited && asksOrMay(in) },
			decide: func(m Machine, in Input) Decision {
				d := answer(m, in, "completed the issue's text", map[string]any{"by": in.Actor.Login, "comment": 0})
				if d.Action == Deliver && !in.Changed {
					return ignore("the run has read this text already")
				}
				return d
			},
		},
	}
}

// asksOrMay reports that an answer is awaited, or will be soon.
func asksOrMay(in Input) bool {
	return awaits(in, "answer") || in.Asks != "" || (open(in) && in.Run.Phase == Triage && in.Run.Status != "waiting")
}

// answer hands over what a person did about a question.
func answer(m Machine, in Input, did string, data map[string]any) Decision {
	if !awaits(in, "answer") && in.Asks == "" {
		return Decision{Action: Later, Why: "triage may be about to ask"}
	}
	if !mayAnswer(m, in) {
		return ignore("only the issue's author or somebody with the %s permission can answer", m.Policy.Answer)
	}
	who := "somebody who may"
	if in.Actor.Login != "" {
		who = "@" + in.Actor.Login
	}
	d := Decision{Action: Deliver, Deliver: "answer", Why: who + " " + did, Data: data}
	if !awaits(in, "answer") {
		d.Run = in.Asks
	}
	return d
}

func mayAnswer(m Machine, in Input) bool {
	author := in.Actor.ID != 0 && in.Actor.ID == in.Issue.Author.ID
	// Who edited a text is not told by the API. The forge lets the author do
	// so, and whoever may write.
	nobody := in.Event.Kind == forge.IssueEdited && in.Actor.ID == 0 && in.Actor.Login == "" && m.Policy.Answer <= forge.Write
	return author || nobody || may(in, m.Policy.Answer)
}

func approval(m Machine, in Input, c Command) Decision {
	if in.Approval != nil {
		return answerApproval(in, c)
	}
	return approve(m, in, c)
}

func resume(m Machine, in Input, _ Command) Decision {
	if !may(in, m.Policy.Lift) {
		return lacks(in, "resume the work", m.Policy.Lift)
	}
	if !halted(in) && !in.Stopped {
		return refuse("there is nothing to resume: no stop is in force and no run is halted")
	}
	return Decision{Action: LiftIssue, Why: "@" + in.Actor.Login + " resumed the work"}
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

// maxNote is the most characters of what a person wants to be different.
const maxNote = 2000

// revise hands over what a person wants to be different about the plan. The
// event says no, so that a flow that knows nothing of revisions ends.
func revise(m Machine, in Input, c Command) Decision {
	note := c.Note()
	switch {
	case !may(in, m.Policy.Approve):
		return lacks(in, "have a plan revised", m.Policy.Approve)
	case !shown(m, in) || in.Run.Phase != Plan:
		return refuse("no plan is waiting that could be revised")
	case note == "":
		return refuse("say what should be different: `/pipeline revise TEXT`")
	case utf8.RuneCountInString(note) > maxNote:
		return refuse("that is longer than %d characters: say it in fewer, or edit the issue's text", maxNote)
	}
	return Decision{
		Action: Deliver, Deliver: "approval", Why: "@" + in.Actor.Login + " wants the plan to be revised",
		Data: map[string]any{"by": in.Actor.Login, "via": ViaRevise, "hash": strconv.FormatInt(in.Event.Comment.ID, 10), "outcome": "denied"},
	}
}

// ViaRevise is how the event of a revision says that it is one; its hash is the
// id of the comment that says what should be different.
const ViaRevise = "revise"

// retry starts the phase again that came to nothing, as its label would.
func retry(m Machine, in Input, _ Command) Decision {
	var p Phase
	switch {
	case in.Run != nil:
		p = in.Run.Phase
	case in.Last != nil:
		p = in.Last.Phase
	default:
		return refuse("nothing was started on this issue yet: add the label of a phase")
	}
	switch need := m.Policy.Start[p]; {
	case !may(in, need):
		return lacks(in, "start the "+string(p)+" phase", need)
	case in.Issue.Pull, !in.Issue.Open:
		return refuse("the issue is closed, or a pull request: there is nothing to retry")
	case in.Issue.Locked:
		return refuse("the issue is locked")
	case in.Stopped:
		return refuse("a stop is in force: `/pipeline resume` lifts it")
	case in.Run != nil && in.Run.Status == "ending":
		return Decision{Action: Later, Why: "the " + string(p) + " phase is just ending"}
	case open(in):
		return refuse("the %s phase is at work: there is nothing to retry", p)
	}
	if in.Run == nil {
		if t := After(p, in.Last.Result); t.Next != "" || t.Completes() {
			return refuse("the last phase, %s, came to its end (%s): there is nothing to retry", p, in.Last.Result)
		}
	}
	for _, other := range m.Names.present(in.Issue.Labels) {
		if other != p {
			return refuse("the issue has the label %s: remove it first, or add it anew to start there", m.Names.For(other))
		}
	}
	d := Decision{Action: Start, Phase: p, Why: "@" + in.Actor.Login + " asked for another try of the " + string(p) + " phase"}
	if halted(in) {
		d.Action = Resume
	}
	if !m.Names.Holds(in.Issue.Labels, p) {
		d.Deltas = append(d.Deltas, Delta{Add: true, Label: m.Names.For(p), Reason: d.Why})
	}
	for _, l := range []string{m.Names.NeedsHuman, m.Names.Declined} {
		if Has(in.Issue.Labels, l) {
			d.Deltas = append(d.Deltas, Delta{Label: l, Reason: d.Why})
		}
	}
	return d
}

// Skipped is the result of a phase that a person left out.
const Skipped = "skipped"

// skip ends a phase that may be left out. The plan and the change itself may
// not: without them there is nothing to review.
func skip(m Machine, in Input, _ Command) Decision {
	if in.Run == nil {
		return refuse("no phase is at work that could be skipped")
	}
	need := m.Policy.Start[in.Run.Phase]
	switch in.Run.Phase {
	case Triage:
		need = max(need, m.Policy.Start[Plan])
	case Review:
	default:
		return refuse("the %s phase cannot be skipped; only triage and the review can", in.Run.Phase)
	}
	switch {
	case !may(in, need):
		return lacks(in, "skip the "+string(in.Run.Phase)+" phase", need)
	case in.Stopped:
		return refuse("a stop is in force: `/pipeline resume` lifts it")
	case in.Run.Status == "ending":
		return refuse("the %s phase is over already", in.Run.Phase)
	}
	return Decision{
		Action: Cancel, Phase: in.Run.Phase, Why: "@" + in.Actor.Login + " skipped the " + string(in.Run.Phase) + " phase",
		Data: map[string]any{"result": Skipped, "code": Skipped},
	}
}

func status(_ Machine, in Input, _ Command) Decision {
	if !may(in, forge.Read) {
		return ignore("@%s cannot read the repository", in.Actor.Login)
	}
	return Decision{Action: Status, Why: "@" + in.Actor.Login + " asked where the issue stands"}
}

func helpOut(m Machine, in Input, _ Command) Decision {
	if !may(in, forge.Read) {
		return ignore("@%s cannot read the repository", in.Actor.Login)
	}
	var b strings.Builder
	b.WriteString("A comment with one of these lines tells the pipeline what to do:\n\n")
	for _, v := range verbs() {
		b.WriteString("- " + v.usage() + ": " + v.does + "\n")
	}
	b.WriteString("\nA command counts when it is written, not when it is edited in. Adding the label `" + m.Names.Triage + "` begins.\n")
	return Decision{Action: Help, Why: "@" + in.Actor.Login + " asked for the commands", Text: b.String()}
}
