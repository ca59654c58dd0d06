package labels_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/pipelinebot/pipelinebot/internal/forge"
	"github.com/pipelinebot/pipelinebot/labels"
)

var update = flag.Bool("update", false, "rewrite docs/states.md")

func machine() labels.Machine {
	return labels.Machine{Names: labels.Default(), Policy: labels.DefaultPolicy()}
}

func person(p forge.Permission) labels.Actor {
	return labels.Actor{Actor: forge.Actor{ID: 5, Login: "ada"}, Permission: p}
}

func labelled(l string, on ...string) labels.Input {
	return labels.Input{
		Event: forge.Event{Kind: forge.Labeled, Label: l},
		Issue: forge.Issue{Open: true, Labels: append(on, l), Author: forge.Actor{ID: 9, Login: "rep"}},
		Actor: person(forge.Write),
	}
}

func unlabelled(l string, on ...string) labels.Input {
	in := labelled(l)
	in.Event.Kind = forge.Unlabeled
	in.Issue.Labels = on
	return in
}

func said(body string) labels.Input {
	in := labelled("x")
	in.Event = forge.Event{Kind: forge.Commented, Comment: &forge.Comment{ID: 77, Body: body}}
	return in
}

func with(in labels.Input, change func(*labels.Input)) labels.Input {
	change(&in)
	return in
}

func run(phase labels.Phase, status, awaits string) func(*labels.Input) {
	return func(in *labels.Input) {
		in.Run = &labels.Run{ID: "r", Phase: phase, Status: status, Awaits: awaits}
	}
}

// Covers: BL13, CN36.
func TestDecide(t *testing.T) {
	t.Parallel()
	n := labels.Default()
	actor := func(a labels.Actor) func(*labels.Input) { return func(in *labels.Input) { in.Actor = a } }
	bot := labels.Actor{Actor: forge.Actor{ID: 8, Login: "dep[bot]", Bot: true}, Permission: forge.Write}
	tests := []struct {
		name   string
		in     labels.Input
		rule   string
		action labels.Action
		phase  labels.Phase
		deltas []labels.Delta
		tell   bool
	}{
		{name: "phase label starts", in: labelled(n.Triage), rule: "phase", action: labels.Start, phase: labels.Triage},
		{name: "case does not matter", in: labelled("Pipeline:TRIAGE"), rule: "phase", action: labels.Start, phase: labels.Triage},
		{name: "prefix is not enough", in: labelled(n.Triage + "-x"), rule: "none", action: labels.Ignore},
		{name: "unrelated label", in: labelled("bug"), rule: "none", action: labels.Ignore},
		{name: "awaiting-approval starts nothing", in: labelled(n.AwaitingApproval), rule: "none", action: labels.Ignore},
		{
			name: "label gone meanwhile", in: with(labelled(n.Triage), func(in *labels.Input) { in.Issue.Labels = nil }),
			rule: "phase", action: labels.Ignore,
		},
		{
			name: "triage role may not implement", in: with(labelled(n.Implement), actor(person(forge.Triage))), rule: "phase",
			action: labels.Refuse, tell: true, deltas: []labels.Delta{{Label: n.Implement}},
		},
		{name: "unlisted bot", in: with(labelled(n.Triage), actor(bot)), rule: "bot", action: labels.Ignore},
		{
			name: "listed bot", in: with(labelled(n.Triage), actor(labels.Actor{Actor: bot.Actor, Listed: true, Permission: forge.Write})),
			rule: "phase", action: labels.Start, phase: labels.Triage,
		},
		{name: "own doing", in: with(labelled(n.Plan), actor(labels.Actor{Self: true})), rule: "self", action: labels.Ignore},
		{
			name: "two phase labels: the earliest wins", in: labelled(n.Implement, n.Triage), rule: "phase", action: labels.Start,
			phase: labels.Triage, tell: true, deltas: []labels.Delta{{Label: n.Implement}},
		},
		{name: "already running", in: with(labelled(n.Plan), run(labels.Plan, "running", "")), rule: "phase", action: labels.Ignore},
		{
			name: "another phase runs", in: with(labelled(n.Review), run(labels.Plan, "running", "")), rule: "phase",
			action: labels.Refuse, tell: true, deltas: []labels.Delta{{Label: n.Review}},
		},
		{name: "halted, same phase", in: with(labelled(n.Plan), run(labels.Plan, "halted", "")), rule: "phase", action: labels.Resume, phase: labels.Plan},
		{name: "halted, other phase", in: with(labelled(n.Triage), run(labels.Plan, "halted", "")), rule: "phase", action: labels.Replace, phase: labels.Triage},
		{name: "ending", in: with(labelled(n.Triage), run(labels.Plan, "ending", "")), rule: "phase", action: labels.Later},
		{
			name: "stop in force", in: with(labelled(n.Plan), func(in *labels.Input) { in.Stopped = true }), rule: "phase",
			action: labels.Refuse, tell: true,
		},
		{name: "closed issue", in: with(labelled(n.Plan), func(in *labels.Input) { in.Issue.Open = false }), rule: "phase", action: labels.Ignore},
		{name: "pull request", in: with(labelled(n.Plan), func(in *labels.Input) { in.Issue.Pull = true }), rule: "phase", action: labels.Refuse, tell: true},
		{
			name: "operator", in: labels.Input{
				Event: forge.Event{Kind: forge.ManualRun, Label: n.Plan}, Issue: forge.Issue{Open: true},
				Actor: labels.Actor{Operator: true},
			}, rule: "phase", action: labels.Start, phase: labels.Plan, deltas: []labels.Delta{{Add: true, Label: n.Plan}},
		},
		{name: "stop", in: labelled(n.Stop), rule: "stop", action: labels.StopIssue},
		{name: "stop by a reader", in: with(labelled(n.Stop), actor(person(forge.Read))), rule: "stop", action: labels.Refuse, tell: true},
		{name: "stop all", in: labelled(n.StopAll), rule: "stop-all", action: labels.StopRepo},
		{name: "lift", in: unlabelled(n.Stop), rule: "lift", action: labels.LiftIssue},
		{
			name: "lift by a reader", in: with(with(unlabelled(n.Stop), actor(person(forge.Read))), func(in *labels.Input) { in.Stopped = true }),
			rule: "lift", action: labels.Refuse, tell: true, deltas: []labels.Delta{{Add: true, Label: n.Stop}},
		},
		{
			name: "lift by a bot", in: with(with(unlabelled(n.Stop), actor(bot)), func(in *labels.Input) { in.Stopped = true }),
			rule: "bot", action: labels.Ignore, deltas: []labels.Delta{{Add: true, Label: n.Stop}},
		},
		{name: "bot comment lifts nothing", in: with(with(said("/pipeline resume"), actor(bot)), run(labels.Plan, "halted", "")), rule: "bot", action: labels.Ignore},
		{name: "resume", in: with(said("/pipeline resume"), run(labels.Plan, "halted", "")), rule: "command", action: labels.LiftIssue},
		{name: "resume of nothing", in: said("/pipeline resume"), rule: "command", action: labels.Refuse, tell: true},
		{name: "approve", in: with(said("/pipeline approve AB12cd34"), run(labels.Plan, "waiting", "approval")), rule: "command", action: labels.Deliver},
		{name: "approve before the run is parked", in: with(said("/pipeline approve AB12cd34"), run(labels.Plan, "running", "")), rule: "command", action: labels.Deliver},
		{name: "approve a halted plan", in: with(said("/pipeline approve AB12cd34"), run(labels.Plan, "halted", "")), rule: "command", action: labels.Refuse, tell: true},
		{
			name: "approved label before the run is parked", in: with(labelled(n.Approved, n.AwaitingApproval), run(labels.Plan, "running", "")),
			rule: "approved", action: labels.Deliver,
		},
		{name: "approved label before there is a plan", in: with(labelled(n.Approved, n.Plan), run(labels.Plan, "running", "")), rule: "none", action: labels.Ignore},
		{name: "answer before the run is parked", in: with(said("it is v2"), run(labels.Triage, "running", "")), rule: "answer", action: labels.Later},
		{name: "approve without hash", in: with(said("/pipeline approve"), run(labels.Plan, "waiting", "approval")), rule: "command", action: labels.Refuse, tell: true},
		{name: "approve of nothing", in: said("/pipeline approve ab12cd34"), rule: "command", action: labels.Refuse, tell: true},
		{
			name: "approve by triage role", in: with(with(said("/pipeline approve ab12cd34"), run(labels.Plan, "waiting", "approval")), actor(person(forge.Triage))),
			rule: "command", action: labels.Refuse, tell: true,
		},
		{name: "approved label", in: with(labelled(n.Approved), run(labels.Plan, "waiting", "approval")), rule: "approved", action: labels.Deliver},
		{name: "approved label, nothing waits", in: labelled(n.Approved), rule: "none", action: labels.Ignore},
		{name: "unknown command", in: said("/pipeline dance"), rule: "command", action: labels.Refuse, tell: true},
		{name: "command in a quote", in: said("> /pipeline stop"), rule: "none", action: labels.Ignore},
		{name: "command in code", in: said("```\n/pipeline stop\n```"), rule: "none", action: labels.Ignore},
		{
			name: "author answers", in: with(with(said("it is v2"), run(labels.Triage, "waiting", "answer")),
				actor(labels.Actor{Actor: forge.Actor{ID: 9, Login: "rep"}})), rule: "answer", action: labels.Deliver,
		},
		{name: "stranger answers", in: with(with(said("me too"), run(labels.Triage, "waiting", "answer")), actor(person(forge.Read))), rule: "answer", action: labels.Ignore},
		{name: "label withdrawn", in: with(unlabelled(n.Plan), run(labels.Plan, "running", "")), rule: "withdrawn", action: labels.Cancel},
		{name: "label withdrawn and back", in: with(unlabelled(n.Plan, n.Plan), run(labels.Plan, "running", "")), rule: "withdrawn", action: labels.Ignore},
		{name: "label withdrawn while halted", in: with(unlabelled(n.Plan), run(labels.Plan, "halted", "")), rule: "withdrawn", action: labels.Ignore},
		{
			name: "closed mid-run by a bot", in: with(with(labelled(""), run(labels.Plan, "running", "")), func(in *labels.Input) {
				in.Event, in.Actor, in.Issue.Open = forge.Event{Kind: forge.IssueClosed}, bot, false
			}), rule: "closed", action: labels.Cancel,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			d := machine().Decide(tt.in)
			type seen struct {
				Rule   string
				Action labels.Action
				Phase  labels.Phase
				Deltas []labels.Delta
				Tell   bool
			}
			for i := range d.Deltas {
				d.Deltas[i].Reason = ""
			}
			want := seen{tt.rule, tt.action, tt.phase, tt.deltas, tt.tell}
			if diff := cmp.Diff(want, seen{d.Rule, d.Action, d.Phase, d.Deltas, d.Tell}); diff != "" {
				t.Errorf("decision (-want +got):\n%s", diff)
			}
			if d.Why == "" {
				t.Error("a decision without an explanation")
			}
		})
	}
}

// TestRulesBite shows that each row of the table decides some case above:
// a row that no input reaches is dead.
func TestRulesReached(t *testing.T) {
	t.Parallel()
	n := labels.Default()
	reached := map[string]bool{}
	for _, status := range []string{"", "running", "waiting", "halted", "ending"} {
		for _, awaits := range []string{"", "answer", "approval"} {
			for _, kind := range []forge.EventKind{
				forge.Labeled, forge.Unlabeled, forge.Commented, forge.IssueClosed, forge.IssueGone, forge.IssueLocked,
				forge.ManualCancel, forge.ManualResume, forge.PullClosed, forge.CommentEdited, forge.IssueOpened, forge.IssueEdited,
			} {
				for _, l := range n.All() {
					for _, a := range []labels.Actor{person(forge.Write), {Self: true}, {Operator: true}, {Actor: forge.Actor{Bot: true}}} {
						in := labels.Input{
							Event: forge.Event{Kind: kind, Label: l, Comment: &forge.Comment{Body: "/pipeline stop"}},
							Issue: forge.Issue{Labels: []string{l}, Locked: true}, Actor: a,
						}
						if status != "" {
							in.Run = &labels.Run{Phase: labels.Plan, Status: status, Awaits: awaits}
						}
						reached[machine().Decide(in).Rule] = true
						in.Event.Comment.Body = "words"
						reached[machine().Decide(in).Rule] = true
					}
				}
			}
		}
	}
	for _, r := range labels.Rules() {
		if !reached[r.Name] {
			t.Errorf("rule %s is reached by no input", r.Name)
		}
	}
}

// TestDecideProperties holds for every input: no stranger spends or unlocks
// anything, and a decision never asks to touch a label that is not the
// pipeline's.
//
// Covers: BL12.
func TestDecideProperties(t *testing.T) {
	t.Parallel()
	n := labels.Default()
	rapid.Check(t, func(t *rapid.T) {
		label := rapid.SampledFrom(append(n.All(), "bug")).Draw(t, "label")
		in := labels.Input{
			Event: forge.Event{
				Kind: rapid.SampledFrom([]forge.EventKind{
					forge.Labeled, forge.Unlabeled, forge.Commented, forge.IssueClosed, forge.IssueEdited, forge.PullClosed,
					forge.IssueOpened, forge.ChecksChanged, forge.CommentEdited,
				}).Draw(t, "kind"),
				Label:   label,
				Comment: &forge.Comment{Body: rapid.SampledFrom([]string{"/pipeline approve ab", "/pipeline resume", "/pipeline stop", "/pipeline retry", "/pipeline skip", "/pipeline revise x", "/pipeline status", "hello", ""}).Draw(t, "body")},
			},
			Issue: forge.Issue{
				Open: rapid.Bool().Draw(t, "open"), Locked: rapid.Bool().Draw(t, "locked"), Pull: rapid.Bool().Draw(t, "pull"),
				Labels: rapid.SliceOfDistinct(rapid.SampledFrom(append(n.All(), "bug", "wontfix")), func(s string) string { return s }).Draw(t, "labels"),
				Author: forge.Actor{ID: 9},
			},
			Stopped: rapid.Bool().Draw(t, "stopped"),
			Actor: labels.Actor{
				Actor:      forge.Actor{ID: rapid.Int64Range(1, 9).Draw(t, "id"), Bot: rapid.Bool().Draw(t, "bot")},
				Permission: forge.Permission(rapid.IntRange(0, 5).Draw(t, "permission")),
			},
		}
		if rapid.Bool().Draw(t, "run") {
			in.Run = &labels.Run{
				Phase:  rapid.SampledFrom(labels.Phases()).Draw(t, "phase"),
				Status: rapid.SampledFrom([]string{"ready", "running", "waiting", "halted", "ending"}).Draw(t, "status"),
				Awaits: rapid.SampledFrom([]string{"", "answer", "approval"}).Draw(t, "awaits"),
			}
		}
		if rapid.Bool().Draw(t, "last") {
			in.Last = &labels.Last{Phase: rapid.SampledFrom(labels.Phases()).Draw(t, "last phase"), Result: rapid.SampledFrom([]string{"error", "approved", "cancelled"}).Draw(t, "last result")}
		}
		d := machine().Decide(in)
		if d.Why == "" || d.Rule == "" {
			t.Fatalf("unexplained: %+v", d)
		}
		spends := d.Action == labels.Start || d.Action == labels.Resume || d.Action == labels.Replace ||
			d.Action == labels.LiftIssue || d.Action == labels.LiftRepo || (d.Action == labels.Deliver && d.Deliver == "approval")
		if spends && (in.Actor.Bot || in.Actor.Permission < forge.Triage) {
			t.Fatalf("%s by %+v", d.Action, in.Actor)
		}
		if in.Stopped && (d.Action == labels.Start || d.Action == labels.Resume) {
			t.Fatalf("%s although stopped", d.Action)
		}
		for _, delta := range d.Deltas {
			if !labels.Has(n.All(), delta.Label) {
				t.Fatalf("touches %q", delta.Label)
			}
			if delta.Add == labels.Has(in.Issue.Labels, delta.Label) {
				t.Fatalf("needless %+v on %v", delta, in.Issue.Labels)
			}
		}
	})
}

func TestDeltas(t *testing.T) {
	t.Parallel()
	n := labels.Default()
	got := labels.After(labels.Plan, "approved").Deltas(n, []string{"bug", n.AwaitingApproval, n.Approved, n.NeedsHuman, n.Auto})
	want := []labels.Delta{
		{Add: true, Label: n.Implement}, {Label: n.AwaitingApproval}, {Label: n.Approved}, {Label: n.NeedsHuman},
	}
	for i := range got {
		got[i].Reason = ""
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("deltas (-want +got):\n%s", diff)
	}
	if got := labels.After(labels.Implement, "never-heard-of").To(n); got != n.NeedsHuman {
		t.Errorf("an unknown result leads to %q", got)
	}
}

func TestDocument(t *testing.T) {
	t.Parallel()
	path := filepath.Join("..", "docs", "states.md")
	if *update {
		if err := os.WriteFile(path, []byte(labels.Document()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	have, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(labels.Document(), string(have)); diff != "" {
		t.Errorf("docs/states.md is stale, run `go test ./labels -update` (-want +got):\n%s", diff)
	}
}

func FuzzParseCommand(f *testing.F) {
	for _, s := range []string{"/pipeline approve ab12", "> /pipeline stop", "```\n/pipeline stop\n```", "/pipelines", "/pipeline", "/pipeline\tstop", "text\r\n/pipeline  STOP  \r\n"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, body string) {
		c, ok := labels.ParseCommand(body)
		if ok && !strings.Contains(body, "/pipeline") {
			t.Fatalf("found a command in %q", body)
		}
		if !ok && c != (labels.Command{}) {
			t.Fatalf("no command, but %+v", c)
		}
	})
}

// Names may be anything: what completes does not depend on them.
func TestCompletes(t *testing.T) {
	t.Parallel()
	for _, tr := range labels.Transitions() {
		n := labels.Default()
		n.Done, n.NeedsHuman = "finished", "done"
		want := tr.To != nil && tr.To(n) == n.Done
		if got := tr.Completes(); got != want {
			t.Errorf("%s, %s: %v, want %v", tr.Phase, tr.Result, got, want)
		}
	}
	if labels.After(labels.Review, "no such result").Completes() {
		t.Error("an unknown result completes the pipeline")
	}
}
