package scenario

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pipelinebot/pipelinebot/internal/mockworld"
	"github.com/pipelinebot/pipelinebot/internal/mockworld/modelwire"
	"github.com/pipelinebot/pipelinebot/internal/strictyaml"
)

// world is one in which everything that can be claimed is there.
func world() Seen {
	issue := mockworld.IssueState{
		Number: 1, State: "open", Labels: []string{"pipeline:done", "bug"},
		Comments: []mockworld.CommentState{
			{Author: "bot", Body: StatusMarker + "\nall done, cost $0.01"},
			{Author: "bot", Body: "the plan"}, {Author: "maria", Body: "/pipeline approve 1234"},
		},
		Events: []mockworld.EventState{{Event: "labeled", Actor: "bot", Label: "pipeline:done"}},
	}
	pull := mockworld.PullState{
		IssueState: mockworld.IssueState{Number: 2, State: "open", Title: "Fix it", Body: "Closes #1", Author: "bot"},
		Head:       "pipeline/1", Base: "main", Files: []string{"a.go"}, Commits: 1,
		Reviews: []mockworld.ReviewState{{Author: "bot", State: "COMMENTED", Body: "looks right"}},
	}
	return Seen{
		Repo: "acme/shop", Bot: "bot", Starts: 2,
		World: mockworld.Snapshot{Repos: map[string]mockworld.RepoState{"acme/shop": {
			Labels: []string{"bug", "Pipeline:Done"}, Issues: []mockworld.IssueState{issue}, Pulls: []mockworld.PullState{pull},
			Branches: map[string]mockworld.BranchState{"main": {}, "pipeline/1": {}}, Refs: map[string]string{"refs/wip/1": "a"},
			Checks: []mockworld.CheckState{{Name: "ci", Conclusion: "success"}},
		}}},
		Requests:   []mockworld.Request{{Method: "POST", Path: "/repos/acme/shop/issues/1/labels", Body: `["x"]`, Status: 200}},
		Deliveries: []mockworld.Delivery{{Event: "issues", Action: "labeled", Status: 202, Done: true}},
		Model:      []modelwire.Record{{Prompt: "triage/classify"}, {Prompt: "plan/draft"}, {Prompt: "plan/draft"}},
		Runs:       []RunView{{Issue: 1, Phase: "triage", Round: 1, Status: "done", Result: "accepted", Code: "ok", Reason: "clear", Nodes: map[string]int{"classify": 1}, Tokens: 30, MicroUSD: 1000}},
		Files:      map[string]string{"acme/shop#2:a.go": "package a"},
	}
}

const everything = `
issues:
  - labels: [bug, "pipeline:done"]
    has_labels: [BUG]
    lacks_labels: ["pipeline:triage"]
    state: open
    comments:
      - {by: bot, contains: [plan], count: 1}
      - {by: maria, contains: [approve]}
      - {contains: [nonsense], count: 0}
    status: {contains: [done, cost], excludes: [panic], count: 1}
pulls:
  - {by: bot, head: pipeline/, state: open, base: main, title_contains: [Fix], body_contains: ["Closes #1"], body_excludes: [secret], files: [a.go], commits: 1,
     reviews: [{by: bot, state: COMMENTED, contains: [right], count: 1}], content: {a.go: package a}}
  - {head: nope, count: 0}
branches: [{name: pipeline/, count: 1}]
refs: [{name: refs/wip}]
repo_labels: [{name: "pipeline:done", count: 1}]
checks: [{name: ci, conclusion: success}]
runs:
  - {issue: 1, phase: triage, round: 1, status: done, result: accepted, code: ok, reason_contains: clear, count: 1, nodes: {classify: 1, plan: 0}}
  - {phase: review, count: 0}
model: {triage/classify: 1, plan/draft: "<=2", review/review: 0}
spend: {max_usd: 0.01, tokens: "<=100"}
requests: [{method: POST, path: "/labels$", body_contains: x, status: 200, count: 1}, {method: PUT, path: labels, count: 0}]
deliveries: [{event: issues.labeled, status: 202, count: 1}]
bot_starts: 2
never: [{label: "pipeline:declined"}, {comment: "@team"}, {request: {method: PUT, path: labels}}, {branch: evil}, {event: closed}]
`

func wants(t *testing.T, src string) Expect {
	t.Helper()
	var e Expect
	if _, ps := strictyaml.Decode("e.yaml", []byte(src), &e); ps != nil {
		t.Fatal(ps)
	}
	return e
}

func TestEvaluateHolds(t *testing.T) {
	t.Parallel()
	if got := Evaluate(wants(t, everything), world()); got != nil {
		t.Errorf("mismatches: %v", got)
	}
}

// TestEveryClaimBites alters each claim; this is what the test of the
// scenario files does with worlds that the real program left behind.
func TestEveryClaimBites(t *testing.T) {
	t.Parallel()
	variants := Mutate(wants(t, everything))
	if len(variants) < 60 {
		t.Errorf("only %d variants", len(variants))
	}
	for _, v := range variants {
		if len(Evaluate(v.Expect, world())) == 0 {
			t.Errorf("%s (%s): the altered claim holds", v.Path, v.What)
		}
	}
	if diff := cmp.Diff(wants(t, everything), clone(wants(t, everything)), cmp.AllowUnexported(NeverWant{}, SpendWant{})); diff != "" {
		t.Errorf("a clone differs (-want +got):\n%s", diff)
	}
}

func TestViolationsAreMismatches(t *testing.T) {
	t.Parallel()
	s := world()
	s.ModelViolations = []string{"model: no reply left"}
	if got := Evaluate(wants(t, everything), s); len(got) != 1 || got[0].Path != "expect.violations" {
		t.Errorf("mismatches %v, want one about violations", got)
	}
	if got := Evaluate(wants(t, everything+`violations: ["no reply"]`), s); got != nil {
		t.Errorf("mismatches %v, want none", got)
	}
	if got := Evaluate(wants(t, everything+`violations: ["something else"]`), s); len(got) != 2 {
		t.Errorf("mismatches %v, want two", got)
	}
}

func TestMismatchSaysWantAndGot(t *testing.T) {
	t.Parallel()
	e := wants(t, `issues: [{labels: [bug]}]`)
	got := Evaluate(e, world())
	if len(got) != 1 || !strings.Contains(got[0].String(), "want bug\n") || !strings.Contains(got[0].String(), "got  bug, pipeline:done") {
		t.Errorf("mismatches: %v", got)
	}
}

func TestCount(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]map[int]bool{
		"3":    {2: false, 3: true, 4: false},
		"<=3":  {0: true, 3: true, 4: false},
		">=3":  {2: false, 3: true, 9: true},
		"2..4": {1: false, 2: true, 4: true, 5: false},
	} {
		var c Count
		if err := c.UnmarshalText([]byte(text)); err != nil {
			t.Errorf("%s: %v", text, err)
		}
		for n, ok := range want {
			if c.Holds(n) != ok {
				t.Errorf("%s holds of %d = %v, want %v", text, n, !ok, ok)
			}
			for _, alt := range c.altered() {
				if c.Holds(n) && alt.Holds(n) {
					t.Errorf("%s and its altered %s both hold of %d", text, alt, n)
				}
			}
		}
		if c.String() != text {
			t.Errorf("%s prints as %s", text, c)
		}
	}
	for _, text := range []string{"", "x", "-1", "<=1..2", "4..2", "1.5"} {
		if err := new(Count).UnmarshalText([]byte(text)); err == nil {
			t.Errorf("count %q was accepted", text)
		}
	}
}

func TestMerge(t *testing.T) {
	t.Parallel()
	base := map[string]any{"a": map[string]any{"x": 1, "y": 2}, "b": []any{1}}
	got := Merge(base, map[string]any{"a": map[string]any{"y": 3}, "b": []any{2}, "c": "new"})
	want := map[string]any{"a": map[string]any{"x": 1, "y": 3}, "b": []any{2}, "c": "new"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("merged (-want +got):\n%s", diff)
	}
}
