package implement

import (
	"context"
	"flag"
	"strings"
	"testing"

	"github.com/pipelinebot/pipelinebot/flows"
	"github.com/pipelinebot/pipelinebot/internal/workspace"
	"github.com/pipelinebot/pipelinebot/phases/delivery"
	"github.com/pipelinebot/pipelinebot/phases/gates"
	"github.com/pipelinebot/pipelinebot/phases/phasetest"
	"github.com/pipelinebot/pipelinebot/phases/plandoc"
	"github.com/pipelinebot/pipelinebot/phases/tree"
)

var _ = flag.Bool("update", false, "rewrite golden files")

func sample() plandoc.Document {
	return plandoc.Document{
		Summary: "Sum keeps the sign; fixes #9 for @ann.", Steps: []string{"Remove the abs."},
		Files: []plandoc.File{{Path: "sum.go", Why: "the mistake"}},
		Tests: []plandoc.Test{{Path: "sum_test.go", Name: "TestNegative"}}, Acceptance: []string{"Sum(-1, -2) is -3."},
	}
}

func TestGoldens(t *testing.T) {
	t.Parallel()
	hash := strings.Repeat("ab", 32)
	before := gates.Evidence{Argv: []string{"go", "test"}, ExitCode: 1, TestsRun: 3, Code: gates.FailedTests, Reason: "1 test of 3 failed: TestNegative", Tree: "1111111111111111"}
	after := gates.Evidence{Argv: []string{"go", "test", "-json", "./..."}, TestsRun: 4, Passed: true, Code: gates.Passed, Reason: "4 tests passed", Tree: "2222222222222222", Sandbox: "bubblewrap"}
	found := []gates.Finding{{Code: gates.CodeBinary, Path: "logo.png", Text: "binary | content"}}
	sum := tree.Summary{Files: []workspace.File{{Path: "sum.go", Added: 2, Deleted: 1}, {Path: "logo.png", Added: -1, Deleted: -1}}}
	phasetest.Golden(t, "pull.md", pullBody(7, sample(), hash, before, after, found, sum))
	phasetest.Golden(t, "commit.txt", message(7, 1, sample(), hash)+"-----\n"+message(7, 2, sample(), hash))
	in := codeInput{
		issue: "Issue acme/widgets#7\nSum is wrong", plan: sample().Text(), findings: `{"findings":[]}`, attempt: 2,
		failed: "1 test of 3 failed\nStill failing: TestNegative", test: "go test ./...",
	}
	system, first := in.prompt().Render()
	phasetest.Golden(t, "code@1.golden", system+"\n=====\n"+first+"\n")
}

// A pull request closes its own issue and no other.
func TestOnlyItsOwnIssueIsClosed(t *testing.T) {
	t.Parallel()
	body := pullBody(7, sample(), "", gates.Evidence{}, gates.Evidence{}, nil, tree.Summary{})
	if strings.Count(body, "Fixes #7") != 1 || strings.Contains(body, "#9") || strings.Contains(body, "@ann") {
		t.Errorf("body:\n%s", body)
	}
}

// Every further attempt has another input than the one before.
func TestAttemptsDiffer(t *testing.T) {
	t.Parallel()
	_, first := codeInput{plan: "p", attempt: 1}.prompt().Render()
	_, second := codeInput{plan: "p", attempt: 2, failed: "x"}.prompt().Render()
	if first == second || !strings.Contains(second, "attempt 2") {
		t.Errorf("first:\n%s\nsecond:\n%s", first, second)
	}
}

// A process that did not open the worktree itself saves the work from the
// state.
func TestSaveFromState(t *testing.T) {
	t.Parallel()
	origin := phasetest.NewOrigin(t, map[string]string{"a.txt": "a\n"})
	forge := phasetest.NewForge()
	p := phase{Deps{Trees: tree.New(origin, forge)}}
	c := phasetest.Call(t, nil)
	w, err := p.Trees.Open(t.Context(), c, tree.At{Base: origin.Head("trunk")})
	if err != nil {
		t.Fatal(err)
	}
	phasetest.Write(t, w.Dir(), "a.txt", "b\n")
	saved, err := tree.Save(t.Context(), c.Artifacts, w)
	if err != nil {
		t.Fatal(err)
	}
	fresh := phase{Deps{Trees: tree.New(origin, forge), Settings: Settings{Identity: delivery.Identity{Name: "bot", Email: "b@x"}}}}
	in, err := flows.StateOf(map[string]any{"work_base": origin.Head("trunk"), "work_ref": saved.Patch})
	if err != nil {
		t.Fatal(err)
	}
	c.In, c.Ended = in, &flows.Ended{How: "cancelled"}
	for range 2 { // a repetition finds the branch as it left it
		r, err := fresh.saveWork().Run(context.Background(), c)
		if err != nil || !strings.Contains(r.Note, delivery.WIPBranch(7, c.Run.Lineage)) {
			t.Fatalf("%q, %v", r.Note, err)
		}
	}
	if got := origin.Show(delivery.WIPBranch(7, c.Run.Lineage), "a.txt"); got != "b\n" {
		t.Errorf("saved %q", got)
	}
	// Nothing to save is fine.
	c.In = flows.State{}
	if r, err := fresh.saveWork().Run(context.Background(), c); err != nil || r.Note != "" {
		t.Errorf("%q, %v", r.Note, err)
	}
}
