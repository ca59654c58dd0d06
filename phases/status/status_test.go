package status

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/pipelinebot/pipelinebot/checkpoints"
	"github.com/pipelinebot/pipelinebot/internal/forge"
	"github.com/pipelinebot/pipelinebot/phases/markdown"
)

var update = flag.Bool("update", false, "rewrite golden files")

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), got); d != "" {
		t.Errorf("%s (-want +got):\n%s", name, d)
	}
}

var ref = forge.Ref{Repo: forge.Repo{Owner: "acme", Name: "widgets"}, Number: 7}

func TestRenderGolden(t *testing.T) {
	t.Parallel()
	until := time.Date(2026, 12, 7, 9, 0, 0, 0, time.UTC)
	cost := checkpoints.Usage{InputTokens: 12_345, OutputTokens: 2_000, ModelCalls: 4, ToolCalls: 1, MicroUSD: 73_200}
	triage := RunView{Phase: "triage", Round: 1, State: Ended, Result: "accepted", Took: 3 * time.Second, Nodes: []NodeView{
		{Node: "snapshot", Outcome: "ok", Note: "read the issue and 2 comments"},
		{Node: "classify", Outcome: "ok", Note: "bug, size s", Took: 2100 * time.Millisecond},
	}}
	for name, v := range map[string]View{
		"waiting.md": {
			Ref: ref, Phase: "plan", State: Waiting, WaitsFor: "approval", Until: until, PlanHash: "0123456789abcdef",
			Cost: cost, RunID: "r1", Runs: []RunView{triage, {Phase: "plan", Round: 1, State: Waiting, Nodes: []NodeView{
				{Node: "critique", Outcome: "ok"}, {Node: "await"},
			}}},
		},
		"hostile.md": {
			Ref: ref, Phase: "implement", State: Ended, Result: "needs_human", Code: "secret",
			Reason: "ask @octocat | fixes #9 <!-- pipelinebot:status --> <img src=x>\nnext line",
			Links:  []Link{{"PR [1](x)", "https://example.com/a)b"}, {"bad", "javascript:alert(1)"}},
			Saved:  "pipelinebot/wip/7-abc`d", Cost: cost,
			Runs: []RunView{{Phase: "implement", Round: 2, State: Ended, Result: "needs_human", Nodes: []NodeView{
				{Node: "check_diff", Outcome: "failed", Note: "by @team/all"},
			}}},
		},
		"done.md": {
			Ref: ref, Phase: "review", State: Ended, Result: "approved", Reason: "Nothing serious was found.", Cost: cost,
			Links: []Link{{"Pull request #8", "https://github.com/acme/widgets/pull/8"}}, Runs: []RunView{triage},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			golden(t, name, Render(v))
		})
	}
}

// results are all results of all phases, and those the worker adds.
func results() map[string][]string {
	own := []string{"error", "cancelled"}
	return map[string][]string{
		"triage":    append([]string{"accepted", "needs_info", "declined", "split", "duplicate", "closed", "needs_human"}, own...),
		"plan":      append([]string{"approved", "rejected", "expired", "needs_human", "closed"}, own...),
		"implement": append([]string{"pr_opened", "needs_human", "no_progress", "empty", "closed", "merged"}, own...),
		"review":    append([]string{"approved", "changes_requested", "needs_human", "closed", "merged"}, own...),
	}
}

// Every ending says result, reason, cost and what to do next.
func TestEveryEndingAdvises(t *testing.T) {
	t.Parallel()
	unknown := Advice(View{State: Ended, Result: "unheard of", RunID: "r"})
	for phase, list := range results() {
		for _, result := range list {
			v := View{Ref: ref, Phase: phase, State: Ended, Result: result, Reason: "because", RunID: "r"}
			if _, ok := endings(phase, result); !ok {
				t.Errorf("%s/%s has no headline", phase, result)
			}
			if a := Advice(v); a == unknown {
				t.Errorf("%s/%s has no advice", phase, result)
			}
			got := Render(v)
			for _, want := range []string{Marker, "**Result** | `" + result, "**Reason** | because", "**Cost** | $", "**What to do next** | "} {
				if !strings.Contains(got, want) {
					t.Errorf("%s/%s lacks %q:\n%s", phase, result, want, got)
				}
			}
		}
	}
	for _, state := range []string{Ready, Running, Waiting, BackingOff, Halted} {
		for _, waits := range []string{"", "approval", "answer"} {
			v := View{Phase: "plan", State: state, WaitsFor: waits}
			if Headline(v) == "Ended." || Advice(v) == unknown {
				t.Errorf("state %s, waiting for %q: %q, %q", state, waits, Headline(v), Advice(v))
			}
		}
	}
}

// A run that another version of the program began has three ways out, and
// none of them is a label alone.
func TestDriftAdvises(t *testing.T) {
	t.Parallel()
	v := View{Ref: ref, Phase: "plan", State: Halted, Code: "drift", RunID: "01R"}
	got := Advice(v)
	for _, want := range []string{"`pipelinebot runs audit 01R`", "`pipelinebot runs resume 01R --accept-drift`", "`pipelinebot runs cancel 01R`", "`pipeline:plan`"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q lacks %s", got, want)
		}
	}
	if h := Headline(v); strings.Contains(h, "`") || h == Headline(View{State: Halted}) {
		t.Errorf("the headline is %q", h)
	}
}

func TestRenderStaysUnderTheLimit(t *testing.T) {
	t.Parallel()
	v := View{Ref: ref, Phase: "review", State: Ended, Result: "approved", Reason: strings.Repeat("ü@x ", 30_000), RunID: "r"}
	for i := range 60 {
		r := RunView{Phase: "implement", Round: i + 1, State: Ended, Result: "pr_opened"}
		for n := range 80 {
			r.Nodes = append(r.Nodes, NodeView{Node: fmt.Sprint("node", n), Outcome: "ok", Note: strings.Repeat("long note ", 50)})
		}
		v.Runs = append(v.Runs, r)
	}
	got := Render(v)
	if n := utf8.RuneCountInString(got); n > markdown.MaxBody {
		t.Errorf("%d characters", n)
	}
	if !strings.Contains(got, "**What to do next** | Read the pull request") || !strings.Contains(got, "earlier runs are not shown") {
		t.Errorf("the ending was lost: …%s", got[len(got)-500:])
	}
}

// Whoever is asked sees the whole question.
func TestRenderShowsTheWholeQuestion(t *testing.T) {
	t.Parallel()
	asked := "Write " + strings.Repeat("docs/page.md, ", 280) + "docs/last.md?"
	got := Render(View{Ref: ref, Phase: "implement", State: Waiting, WaitsFor: "approval", Reason: asked, RunID: "r"})
	if len(asked) > maxReason || !strings.Contains(got, "docs/last.md?") {
		t.Errorf("%d letters asked are cut: …%s", len(asked), got[max(0, len(got)-400):])
	}
}

func TestStateOf(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		run  checkpoints.Run
		want string
	}{
		{checkpoints.Run{Status: checkpoints.Running}, Running},
		{checkpoints.Run{Status: checkpoints.Waiting, Wait: &checkpoints.Wait{Event: "approval"}}, Waiting},
		{checkpoints.Run{Status: checkpoints.Waiting, Wait: &checkpoints.Wait{}}, BackingOff},
		{checkpoints.Run{Status: checkpoints.Halted}, Halted},
		{checkpoints.Run{Status: checkpoints.Ending, Result: "approved"}, Ended},
		{checkpoints.Run{Status: checkpoints.Cancelled}, Ended},
	} {
		if got := StateOf(tc.run); got != tc.want {
			t.Errorf("StateOf(%s, %q) = %s, want %s", tc.run.Status, tc.run.Result, got, tc.want)
		}
	}
}

func TestNodesOfLeavesOutLoops(t *testing.T) {
	t.Parallel()
	got := NodesOf([]checkpoints.NodeRecord{{Node: "code", Kind: "step", Outcome: "ok"}, {Node: "again", Kind: "loop"}, {Node: "done", Kind: "sink"}})
	if d := cmp.Diff([]NodeView{{Node: "code", Outcome: "ok"}}, got); d != "" {
		t.Errorf("NodesOf (-want +got):\n%s", d)
	}
}

func FuzzRender(f *testing.F) {
	f.Add("reason @x", "code", "https://x/y", "note\n<!--")
	f.Fuzz(func(t *testing.T, reason, code, link, note string) {
		got := Render(View{
			Ref: ref, Phase: "plan", State: Ended, Result: "needs_human", Code: code, Reason: reason,
			Links: []Link{{note, link}}, Runs: []RunView{{Phase: "plan", Nodes: []NodeView{{Node: note, Note: reason}}}},
		})
		if !strings.HasPrefix(got, Marker) || strings.Count(got, "<!--") != 1 {
			t.Errorf("the marker is missing or not alone:\n%s", got)
		}
	})
}
