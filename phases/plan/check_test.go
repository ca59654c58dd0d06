package plan

import (
	"flag"
	"strings"
	"testing"

	"github.com/pipelinebot/pipelinebot/internal/forge"
	"github.com/pipelinebot/pipelinebot/labels"
	"github.com/pipelinebot/pipelinebot/phases/issue"
	"github.com/pipelinebot/pipelinebot/phases/phasetest"
	"github.com/pipelinebot/pipelinebot/phases/plandoc"
)

var _ = flag.Bool("update", false, "rewrite golden files")

func sample() plandoc.Document {
	return plandoc.Document{
		Summary: "Sum keeps the sign, says @ann.", Steps: []string{"Remove the abs.", "Add a test that fixes #9."},
		Files: []plandoc.File{{Path: "sum.go", Why: "the mistake"}, {Path: "neg_test.go", New: true, Why: "the test <b>"}},
		Tests: []plandoc.Test{{Path: "neg_test.go", Name: "TestNegative"}}, Acceptance: []string{"Sum(-1, -2) is -3."},
	}
}

func TestProblemsOf(t *testing.T) {
	t.Parallel()
	set := Settings{Protected: []string{"CODEOWNERS"}}.filled()
	for _, tc := range []struct {
		name   string
		change func(d *plandoc.Document)
		want   string // "" = none
	}{
		{"fine", func(*plandoc.Document) {}, ""},
		{"missing file", func(d *plandoc.Document) { d.Files[0].Path = "no.go" }, `"no.go" does not exist`},
		{"new but there", func(d *plandoc.Document) { d.Files[0].New = true }, `"sum.go" is marked new, but exists`},
		{"directory", func(d *plandoc.Document) { d.Files[0].Path = "dir" }, `not a regular file`},
		{"twice", func(d *plandoc.Document) { d.Files[1] = d.Files[0]; d.Tests[0].Path = "sum.go" }, "named twice"},
		{"outside", func(d *plandoc.Document) { d.Files[0].Path = "../etc/passwd" }, "leaves the repository"},
		{"git", func(d *plandoc.Document) { d.Files[0].Path = ".git/hooks/x" }, "enters .git"},
		{"absolute", func(d *plandoc.Document) { d.Files[0].Path = "/etc/passwd" }, "leaves the repository"},
		{"protected", func(d *plandoc.Document) { d.Files[0].Path = "CODEOWNERS" }, "protected"},
		{"workflow", func(d *plandoc.Document) { d.Files[0].Path = ".github/workflows/ci.yml" }, "workflow-file"},
		{"glob", func(d *plandoc.Document) { d.Files[0].Path = "*.go" }, "is a pattern"},
		{"no test", func(d *plandoc.Document) { d.Tests = nil }, "names no test"},
		{"docs need no test", func(d *plandoc.Document) {
			d.Tests, d.Files = nil, []plandoc.File{{Path: "README.md", Why: "words"}}
		}, ""},
		{"test elsewhere", func(d *plandoc.Document) { d.Tests[0].Path = "other_test.go" }, "not among the files"},
		{"test without name", func(d *plandoc.Document) { d.Tests[0].Name = " " }, "has no name"},
		{"no acceptance", func(d *plandoc.Document) { d.Acceptance = nil }, "what must hold"},
		{"too many steps", func(d *plandoc.Document) { d.Steps = make([]string, 21) }, "at most 20"},
		{"too many files", func(d *plandoc.Document) {
			for i := range 30 {
				d.Files = append(d.Files, plandoc.File{Path: strings.Repeat("x", i+1), New: true})
			}
		}, "too-big"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			d := sample()
			tc.change(&d)
			got, err := problemsOf(d, set, func(name string) (bool, bool, error) {
				return name == "sum.go" || name == "README.md" || name == "dir", name != "dir", nil
			})
			if err != nil {
				t.Fatal(err)
			}
			if tc.want == "" && len(got) > 0 || !strings.Contains(strings.Join(got, "\n"), tc.want) {
				t.Errorf("problems %q, want %q", got, tc.want)
			}
		})
	}
}

func TestJudge(t *testing.T) {
	t.Parallel()
	i := forge.Issue{Title: "a", Body: "b\r\n"}
	self := phasetest.Bot()
	posted := forge.Comment{ID: 5, Author: self, Body: "plan"}
	b := bound{planHash: "0123456789abcdef", textHash: issue.TextHash("a", "b"), comment: 5, commentHash: issue.BodyHash("plan")}
	forged := posted
	forged.Author = phasetest.Rob()
	for _, tc := range []struct {
		name, hash, via, want string
		comments              []forge.Comment
	}{
		{"whole hash", b.planHash, "command", valid, []forge.Comment{posted}},
		{"prefix", "01234567", "command", valid, []forge.Comment{posted}},
		{"upper case", " 0123456789ABC ", "command", valid, []forge.Comment{posted}},
		{"label", "", "label", valid, []forge.Comment{posted}},
		{"label with a wrong hash", "ffffffff", "label", lapsed, []forge.Comment{posted}},
		{"no hash", "", "command", lapsed, []forge.Comment{posted}},
		{"short", "0123456", "command", lapsed, []forge.Comment{posted}},
		{"deleted", "01234567", "command", lapsed, nil},
		{"somebody else's comment", "01234567", "command", lapsed, []forge.Comment{forged}},
	} {
		if got, why := judge(b, tc.hash, tc.via, i, tc.comments, self); got != tc.want || (why == "") != (got == valid) {
			t.Errorf("%s: got %s (%s), want %s", tc.name, got, why, tc.want)
		}
	}
	i.Title = "other"
	if got, _ := judge(b, "01234567", "label", i, []forge.Comment{posted}, self); got != changed {
		t.Errorf("edited issue: got %s", got)
	}
}

func TestCritiqueFailsClosed(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		q    Critique
		want int
	}{
		{Critique{OK: true}, 0},
		{Critique{OK: true, Findings: []Finding{{"minor", "x"}}}, 0},
		{Critique{OK: true, Findings: []Finding{{"blocker", "x"}}}, 1},
		{Critique{OK: false}, 1},
		{Critique{OK: false, Findings: []Finding{{"nit", "x"}}}, 2},
	} {
		if got := len(tc.q.problems()); got != tc.want {
			t.Errorf("%+v has %d problems, want %d", tc.q, got, tc.want)
		}
	}
	if (Critique{Findings: []Finding{{"huge", "x"}}}).Check() == nil {
		t.Error("an unknown severity is accepted")
	}
}

func TestGoldens(t *testing.T) {
	t.Parallel()
	s := issue.Snapshot{Ref: phasetest.Ref(), Title: "Sum is wrong", Body: "Sum(-1, -2) is 3.", Login: "rob", Tier: issue.Reporter}
	n := plandoc.Notes{Findings: []string{"sum.go: abs"}, Files: []string{"sum.go"}, Tests: []string{"sum_test.go"}, Unknown: []string{"why"}}
	d := sample()
	write := func(name string, system, first string) {
		phasetest.Golden(t, name, system+"\n=====\n"+first+"\n")
	}
	system, first := exploreRequest(s, `{"kind":"bug"}`).Render()
	write("explore@1.golden", system, first)
	system, first = draftRequest(s, n, &d, []string{"no test"}).Render()
	write("draft@1.golden", system, first)
	system, first = critiqueRequest(s, n, d).Render()
	write("critique@1.golden", system, first)
	hash, err := d.Hash()
	if err != nil {
		t.Fatal(err)
	}
	phasetest.Golden(t, "comment.md", comment(d, hash, "0123456789abcdef0123", "trunk", labels.Default()))
}
