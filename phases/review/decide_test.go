package review

import (
	"flag"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pipelinebot/pipelinebot/internal/forge"
	"github.com/pipelinebot/pipelinebot/phases/gates"
	"github.com/pipelinebot/pipelinebot/phases/phasetest"
	"github.com/pipelinebot/pipelinebot/phases/plandoc"
)

var _ = flag.Bool("update", false, "rewrite golden files")

func of(s ...Severity) []Finding {
	var out []Finding
	for _, one := range s {
		out = append(out, Finding{Severity: one, Text: string(one)})
	}
	return out
}

func TestRule(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name    string
		b       basis
		want    string
		raised  []Severity
		dropped int
	}{
		{"nothing", basis{round: 1}, approve, nil, 0},
		{"minor only", basis{round: 1, judged: of(Minor, Nit)}, approve, []Severity{Minor, Nit}, 0},
		{"major", basis{round: 1, judged: of(Major)}, changes, []Severity{Major}, 0},
		{"last round", basis{round: 3, judged: of(Major)}, human, []Severity{Major}, 0},
		{"ratchet drops nits", basis{round: 2, judged: of(Minor, Nit), last: of(Major, Nit)}, approve, nil, 2},
		{"ratchet keeps majors", basis{round: 2, judged: of(Major, Nit), last: of(Major)}, changes, []Severity{Major}, 1},
		{"ratchet at blocker", basis{round: 2, judged: of(Major), last: of(Blocker)}, human, nil, 1},
		{"no ratchet after a green round", basis{round: 2, judged: of(Nit), last: of(Nit)}, approve, []Severity{Nit}, 0},
		{"first round ignores last", basis{round: 1, judged: of(Major), last: of(Blocker)}, changes, []Severity{Major}, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			tc.b.answered, tc.b.green, tc.b.ci, tc.b.maxRounds = true, true, "none", 3
			r := rule(tc.b)
			var raised []Severity
			for _, f := range r.raised {
				raised = append(raised, f.Severity)
			}
			if r.verdict != tc.want || r.why == "" || !slices.Equal(raised, tc.raised) || len(r.dropped) != tc.dropped {
				t.Errorf("%+v, want %s, raised %v, dropped %d", r, tc.want, tc.raised, tc.dropped)
			}
		})
	}
}

// Anything that is not known is no approval.
func TestRuleFailsClosed(t *testing.T) {
	t.Parallel()
	good := basis{answered: true, green: true, ci: "success", round: 1, maxRounds: 3}
	if r := rule(good); r.verdict != approve {
		t.Fatalf("%+v", r)
	}
	for name, spoil := range map[string]func(b *basis){
		"no answer":  func(b *basis) { b.answered = false },
		"red":        func(b *basis) { b.green = false },
		"ci failed":  func(b *basis) { b.ci = "failure" },
		"ci timeout": func(b *basis) { b.ci = "timeout" },
		"ci unknown": func(b *basis) { b.ci = "unknown" },
		"ci empty":   func(b *basis) { b.ci = "" },
	} {
		b := good
		spoil(&b)
		if r := rule(b); r.verdict == approve {
			t.Errorf("%s: approved", name)
		}
	}
}

func TestJudgeCI(t *testing.T) {
	t.Parallel()
	done := func(c string) forge.Check { return forge.Check{Name: c, Done: true, Conclusion: c} }
	for _, tc := range []struct {
		name     string
		checks   []forge.Check
		required bool
		want     string
		pending  bool
	}{
		{"none", nil, false, "none", false},
		{"none yet", nil, true, "unknown", true},
		{"own only", []forge.Check{{Own: true, Name: "bot"}}, false, "none", false},
		{"success", []forge.Check{done("success"), done("neutral")}, true, "success", false},
		{"skipped is no success", []forge.Check{done("skipped")}, false, "none", false},
		{"skipped is not enough", []forge.Check{done("skipped")}, true, "unknown", true},
		{"cancelled", []forge.Check{done("success"), done("cancelled")}, false, "failure", false},
		{"timed out", []forge.Check{done("timed_out")}, false, "failure", false},
		{"needs action", []forge.Check{done("action_required")}, false, "failure", false},
		{"failure before the rest ends", []forge.Check{done("failure"), {Name: "slow"}}, false, "failure", false},
		{"running", []forge.Check{done("success"), {Name: "slow"}}, false, "unknown", true},
	} {
		if got, note, pending := judgeCI(tc.checks, tc.required); got != tc.want || pending != tc.pending || note == "" {
			t.Errorf("%s: got %s (%s), pending %t", tc.name, got, note, pending)
		}
	}
}

// Covers: AR26.
func TestJoinedFindings(t *testing.T) {
	t.Parallel()
	leak := Finding{Severity: Blocker, Path: "a.go", Text: "leaks"}
	same := Finding{Severity: Minor, Path: "b.go", Line: 3, Text: "Typo  here"}
	louder := Finding{Severity: Major, Path: "b.go", Line: 3, Text: "typo here"}
	// The synthesis dropped the blocker: it comes back.
	got := joinedFindings([]Finding{same, louder}, []Finding{leak}, nil)
	want := []Finding{leak, {Severity: Major, Path: "b.go", Line: 3, Text: "Typo  here"}}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	// It was joined into another serious finding of the file.
	other := Finding{Severity: Blocker, Path: "a.go", Text: "leaks, in other words"}
	if got := joinedFindings([]Finding{other}, []Finding{leak}); len(got) != 1 {
		t.Errorf("got %+v", got)
	}
}

const patch = `diff --git a/sum.txt b/sum.txt
index 1..2 100644
--- a/sum.txt
+++ b/sum.txt
@@ -1,4 +1,4 @@ head
 one
-two
+2
++++ not a header
-four
 five
\ No newline at end of file
diff --git a/gone b/gone
--- a/gone
+++ /dev/null
@@ -1 +0,0 @@
-x
diff --git a/new b/new
--- /dev/null
+++ "b/\303\274.txt"
@@ -0,0 +1,2 @@
+a
+b
`

func TestNewLines(t *testing.T) {
	t.Parallel()
	want := map[string]map[int]bool{
		"sum.txt": {1: true, 2: true, 3: true, 4: true},
		"ü.txt":   {1: true, 2: true},
	}
	if d := cmp.Diff(want, newLines([]byte(patch))); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func FuzzNewLines(f *testing.F) {
	f.Add([]byte(patch))
	f.Add([]byte("+++ b/x\n@@ -1,999999999 +1 @@\n+a\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		n := 0
		for path, lines := range newLines(b) {
			if path == "" {
				t.Error("a line of no file")
			}
			n += len(lines)
		}
		if n > strings.Count(string(b), "\n")+1 {
			t.Errorf("%d lines of %q", n, b)
		}
	})
}

func TestPlaceAndEvent(t *testing.T) {
	t.Parallel()
	inline, rest := place([]Finding{{Path: "a", Line: 1}, {Path: "a", Line: 2}, {Path: "b", Line: 1}, {Path: "a"}}, map[string]map[int]bool{"a": {1: true}})
	if len(inline) != 1 || len(rest) != 3 {
		t.Errorf("inline %v, rest %v", inline, rest)
	}
	for _, tc := range []struct {
		verdict string
		own     bool
		want    string
	}{
		{approve, false, "APPROVE"}, {changes, false, "REQUEST_CHANGES"}, {human, false, "COMMENT"},
		{approve, true, "COMMENT"}, {changes, true, "COMMENT"},
	} {
		if got := event(tc.verdict, tc.own); got != tc.want {
			t.Errorf("event(%s, own %t) = %s", tc.verdict, tc.own, got)
		}
	}
}

func TestGoldens(t *testing.T) {
	t.Parallel()
	v := view{
		verdict: changes, why: "1 serious finding.", sha: "0123456789abcdef", summary: "Fixes the sum, says @ann.", round: 2,
		ci: "none", ciNote: "the repository has no CI results",
		evidence: gates.Evidence{Argv: []string{"go", "test", "./..."}, Reason: "3 tests passed"},
	}
	phasetest.Golden(t, "review.md", v.body(
		[]Finding{{Severity: Nit, Path: "a.go", Line: 1, Text: "x"}},
		[]Finding{{Severity: Major, Path: "b|c.go", Line: 4, Text: "zero <!-- x --> closes #4"}, {Severity: Minor, Text: "no test"}}))
	in := reviewInput{issue: "Issue acme/widgets#7", plan: "Summary: fix", diff: "+2", last: "- major: zero"}
	d := plandoc.Document{Summary: "fix", Steps: []string{"x"}}
	for id, p := range map[string]string{"review/correctness@1": correctnessPrompt, "review/safety@1": safetyPrompt} {
		system, first := in.prompt(id, p).Render()
		phasetest.Golden(t, strings.TrimPrefix(id, "review/")+".golden", system+"\n=====\n"+first+"\n")
	}
	system, first := synthesisRequest(d, "+2", Findings{Findings: of(Major)}, Findings{}).Render()
	phasetest.Golden(t, "synthesis@1.golden", system+"\n=====\n"+first+"\n")
}
