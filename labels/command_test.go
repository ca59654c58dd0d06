package labels_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pipelinebot/pipelinebot/internal/forge"
	"github.com/pipelinebot/pipelinebot/labels"
)

func as(p forge.Permission) func(*labels.Input) {
	return func(in *labels.Input) { in.Actor = person(p) }
}

func last(p labels.Phase, result string) func(*labels.Input) {
	return func(in *labels.Input) { in.Last = &labels.Last{Phase: p, Result: result} }
}

func stopped(in *labels.Input) { in.Stopped = true }

func all(changes ...func(*labels.Input)) func(*labels.Input) {
	return func(in *labels.Input) {
		for _, c := range changes {
			c(in)
		}
	}
}

func TestCommands(t *testing.T) {
	t.Parallel()
	n := labels.Default()
	on := func(ls ...string) func(*labels.Input) { return func(in *labels.Input) { in.Issue.Labels = ls } }
	waits := run(labels.Plan, "waiting", "approval")
	tests := []struct {
		name, comment string
		given         func(*labels.Input)
		action        labels.Action
		phase         labels.Phase
		deltas        []labels.Delta
		data          map[string]any
		tell          bool
	}{
		{
			name: "revise", comment: "/pipeline revise Use the cache.\n\nAnd say so in the README.", given: waits, action: labels.Deliver,
			data: map[string]any{"by": "ada", "via": "revise", "hash": "77", "outcome": "denied"},
		},
		{name: "revise without words", comment: "/pipeline revise", given: waits, action: labels.Refuse, tell: true},
		{name: "revise in too many words", comment: "/pipeline revise " + strings.Repeat("x", 2001), given: waits, action: labels.Refuse, tell: true},
		{name: "revise before the plan is shown", comment: "/pipeline revise x", given: all(run(labels.Plan, "running", ""), on(n.Plan)), action: labels.Refuse, tell: true},
		{name: "revise of nothing", comment: "/pipeline revise x", given: as(forge.Write), action: labels.Refuse, tell: true},
		{name: "revise while another flow waits", comment: "/pipeline revise x", given: run(labels.Implement, "waiting", "approval"), action: labels.Refuse, tell: true},
		{name: "revise by triage role", comment: "/pipeline revise x", given: all(waits, as(forge.Triage)), action: labels.Refuse, tell: true},

		{
			name: "retry what came to nothing", comment: "/pipeline retry", given: all(last(labels.Implement, "no_progress"), on(n.NeedsHuman, "bug")),
			action: labels.Start, phase: labels.Implement, deltas: []labels.Delta{{Add: true, Label: n.Implement}, {Label: n.NeedsHuman}},
		},
		{
			name: "retry what was halted", comment: "/pipeline retry", given: all(run(labels.Plan, "halted", ""), on(n.Plan)),
			action: labels.Resume, phase: labels.Plan,
		},
		{
			name: "retry what was cancelled", comment: "/pipeline retry", given: all(last(labels.Triage, "cancelled"), on(), as(forge.Triage)),
			action: labels.Start, phase: labels.Triage, deltas: []labels.Delta{{Add: true, Label: n.Triage}},
		},
		{name: "retry at work", comment: "/pipeline retry", given: run(labels.Plan, "running", ""), action: labels.Refuse, tell: true},
		{name: "retry at the end of a phase", comment: "/pipeline retry", given: run(labels.Plan, "ending", ""), action: labels.Later},
		{name: "retry of what went well", comment: "/pipeline retry", given: last(labels.Review, "approved"), action: labels.Refuse, tell: true},
		{name: "retry of nothing", comment: "/pipeline retry", given: as(forge.Admin), action: labels.Refuse, tell: true},
		{name: "retry under a stop", comment: "/pipeline retry", given: all(run(labels.Plan, "halted", ""), stopped), action: labels.Refuse, tell: true},
		{name: "retry by triage role", comment: "/pipeline retry", given: all(last(labels.Implement, "error"), as(forge.Triage)), action: labels.Refuse, tell: true},
		{name: "retry under another phase's label", comment: "/pipeline retry", given: all(last(labels.Implement, "error"), on(n.Triage)), action: labels.Refuse, tell: true},
		{
			name: "retry on a closed issue", comment: "/pipeline retry", given: all(last(labels.Plan, "closed"), func(in *labels.Input) { in.Issue.Open = false }),
			action: labels.Refuse, tell: true,
		},

		{
			name: "skip triage", comment: "/pipeline skip", given: run(labels.Triage, "waiting", "answer"), action: labels.Cancel, phase: labels.Triage,
			data: map[string]any{"result": "skipped", "code": "skipped"},
		},
		{
			name: "skip the review", comment: "/pipeline skip", given: run(labels.Review, "running", ""), action: labels.Cancel, phase: labels.Review,
			data: map[string]any{"result": "skipped", "code": "skipped"},
		},
		{name: "skip the plan", comment: "/pipeline skip", given: waits, action: labels.Refuse, tell: true},
		{name: "skip the change", comment: "/pipeline skip", given: run(labels.Implement, "running", ""), action: labels.Refuse, tell: true},
		{name: "skip nothing", comment: "/pipeline skip", given: as(forge.Admin), action: labels.Refuse, tell: true},
		{name: "skip triage by triage role", comment: "/pipeline skip", given: all(run(labels.Triage, "waiting", "answer"), as(forge.Triage)), action: labels.Refuse, tell: true},
		{name: "skip under a stop", comment: "/pipeline skip", given: all(run(labels.Review, "halted", ""), stopped), action: labels.Refuse, tell: true},
		{name: "skip what is over", comment: "/pipeline skip", given: run(labels.Review, "ending", ""), action: labels.Refuse, tell: true},

		{name: "status by a reader", comment: "/pipeline status", given: as(forge.Read), action: labels.Status},
		{name: "status by a stranger", comment: "/pipeline status", given: as(forge.None), action: labels.Ignore},
		{name: "help by a reader", comment: "/pipeline help", given: as(forge.Read), action: labels.Help},
		{name: "help by a stranger", comment: "/pipeline help", given: as(forge.None), action: labels.Ignore},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			d := machine().Decide(with(said(tt.comment), tt.given))
			for i := range d.Deltas {
				d.Deltas[i].Reason = ""
			}
			got := labels.Decision{Action: d.Action, Phase: d.Phase, Deltas: d.Deltas, Data: d.Data, Tell: d.Tell}
			if diff := cmp.Diff(labels.Decision{Action: tt.action, Phase: tt.phase, Deltas: tt.deltas, Data: tt.data, Tell: tt.tell}, got); diff != "" {
				t.Errorf("decision (-want +got):\n%s", diff)
			}
			if d.Why == "" || d.Rule != "command" {
				t.Errorf("rule %q, why %q", d.Rule, d.Why)
			}
		})
	}
	help := machine().Decide(with(said("/pipeline help"), as(forge.Read))).Text
	for _, v := range labels.Verbs() {
		if !strings.Contains(help, "`/pipeline "+v.Verb) {
			t.Errorf("the help does not name %s:\n%s", v.Verb, help)
		}
	}
}

// What happens on the forge without a command: an edit answers a question,
// news wakes what waits for it, and the rest is ignored for a reason.
func TestEvents(t *testing.T) {
	t.Parallel()
	asks := run(labels.Triage, "waiting", "answer")
	changed := func(in *labels.Input) { in.Changed = true }
	author := func(in *labels.Input) { in.Actor = labels.Actor{Actor: in.Issue.Author} }
	nobody := func(in *labels.Input) { in.Actor = labels.Actor{} }
	bot := func(in *labels.Input) {
		in.Actor = labels.Actor{Actor: forge.Actor{ID: 8, Login: "x[bot]", Bot: true}, Permission: forge.Write}
	}
	strict := labels.DefaultPolicy()
	strict.Answer = forge.Admin
	open := labels.DefaultPolicy()
	open.Outsiders = true
	tests := []struct {
		name   string
		kind   forge.EventKind
		policy labels.Policy
		given  func(*labels.Input)
		rule   string
		action labels.Action
	}{
		{name: "the author completes the text", kind: forge.IssueEdited, given: all(asks, changed, author), rule: "edited", action: labels.Deliver},
		{name: "a maintainer completes it", kind: forge.IssueEdited, given: all(asks, changed), rule: "edited", action: labels.Deliver},
		{name: "a reader's edit", kind: forge.IssueEdited, given: all(asks, changed, as(forge.Read)), rule: "edited", action: labels.Ignore},
		{name: "a bot's edit", kind: forge.IssueEdited, given: all(asks, changed, bot), rule: "bot", action: labels.Ignore},
		{name: "somebody's edit that a poll saw", kind: forge.IssueEdited, given: all(asks, changed, nobody), rule: "edited", action: labels.Deliver},
		{name: "where more than writing is needed", kind: forge.IssueEdited, policy: strict, given: all(asks, changed, nobody), rule: "edited", action: labels.Ignore},
		{name: "an edit that was read", kind: forge.IssueEdited, given: all(asks, author), rule: "edited", action: labels.Ignore},
		{name: "an edit before the question", kind: forge.IssueEdited, given: all(run(labels.Triage, "running", ""), changed, author), rule: "edited", action: labels.Later},
		{name: "an edit for a child", kind: forge.IssueEdited, given: all(changed, author, func(in *labels.Input) { in.Asks = "c" }), rule: "edited", action: labels.Deliver},
		{name: "an edit while a plan waits", kind: forge.IssueEdited, given: all(run(labels.Plan, "waiting", "approval"), changed, author), rule: "none", action: labels.Ignore},

		{name: "merged, and nothing waits", kind: forge.PullClosed, given: nobody, rule: "news", action: labels.Ignore},
		{name: "merged", kind: forge.PullClosed, given: func(in *labels.Input) { in.Looks = []string{"r"} }, rule: "news", action: labels.Wake},
		{name: "a bot's checks", kind: forge.ChecksChanged, given: all(bot, func(in *labels.Input) { in.Looks = []string{"r"} }), rule: "news", action: labels.Wake},
		{name: "a comment is edited", kind: forge.CommentEdited, given: asks, rule: "noted", action: labels.Ignore},
		{name: "reopened", kind: forge.IssueReopened, given: author, rule: "noted", action: labels.Ignore},
		{name: "a member left", kind: forge.MemberChanged, given: author, rule: "noted", action: labels.Ignore},

		{name: "opened by an outsider, off", kind: forge.IssueOpened, given: author, rule: "opened", action: labels.Ignore},
		{name: "opened by an outsider", kind: forge.IssueOpened, policy: open, given: author, rule: "opened", action: labels.Look},
		{name: "opened by a bot", kind: forge.IssueOpened, policy: open, given: bot, rule: "bot", action: labels.Ignore},
		{
			name: "opened by who may start", kind: forge.IssueOpened, policy: open,
			given: func(in *labels.Input) {
				in.Actor = person(forge.Triage)
				in.Issue.Author = in.Actor.Actor
			}, rule: "opened", action: labels.Ignore,
		},
		{name: "opened, and labelled since", kind: forge.IssueOpened, policy: open, given: all(author, func(in *labels.Input) { in.Issue.Labels = []string{labels.Default().Triage} }), rule: "opened", action: labels.Ignore},
		{name: "opened under a stop", kind: forge.IssueOpened, policy: open, given: all(author, stopped), rule: "opened", action: labels.Ignore},
		{name: "opened, and looked at before", kind: forge.IssueOpened, policy: open, given: all(author, last(labels.Triage, "accepted")), rule: "opened", action: labels.Ignore},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			in := labelled("x")
			in.Event = forge.Event{Kind: tt.kind}
			m := machine()
			if tt.policy.Start != nil {
				m.Policy = tt.policy
			}
			d := m.Decide(with(in, tt.given))
			if d.Rule != tt.rule || d.Action != tt.action || d.Why == "" {
				t.Errorf("decision = %+v", d)
			}
			if d.Action == labels.Deliver && (d.Deliver != "answer" || d.Data["by"] == nil) {
				t.Errorf("delivers %q: %v", d.Deliver, d.Data)
			}
		})
	}
}
