package gates

import (
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pipelinebot/pipelinebot/internal/workspace"
)

func file(path, status, mode string, added int) workspace.File {
	return workspace.File{Path: path, Status: status, Mode: mode, Added: added}
}

func changed(files ...workspace.File) workspace.Diff { return workspace.Diff{Files: files} }

// adding is a diff of a file of that name with the added lines.
func adding(f workspace.File, lines ...string) workspace.Diff {
	return workspace.Diff{Files: []workspace.File{f}, Patch: addition(f.Path, lines...)}
}

// addition is a patch that adds lines to a new file.
func addition(path string, lines ...string) []byte {
	return []byte("diff --git a/" + path + " b/" + path + "\nnew file mode 100644\n--- /dev/null\n+++ b/" + path +
		"\n@@ -0,0 +1," + strconv.Itoa(len(lines)) + " @@\n+" + strings.Join(lines, "\n+") + "\n")
}

func TestCheckDiff(t *testing.T) {
	t.Parallel()
	plain := file("a.go", "M", "100644", 3)
	ci := file(".github/workflows/ci.yml", "M", "100644", 1)
	// Put together here, so that no scanner of this repository finds them.
	github := "ghp_" + "x7Kq2mZ9vB4nL8wR3tY6pD1sF5hJ0cG2aQ8e"
	aws := "AKIA" + "Q3EGRZ7XW2LMN5PT"
	key := []string{"-----BEGIN RSA " + "PRIVATE KEY-----", strings.Repeat("MIIEpAIBAAKCAQEA0Z3VS5JJcds3xfn", 3), strings.Repeat("q8", 30), "-----END RSA " + "PRIVATE KEY-----"}
	tests := map[string]struct {
		d    workspace.Diff
		r    Rules
		want []string // "code path fatal"
	}{
		"nothing":              {workspace.Diff{}, Rules{}, []string{"empty  fatal"}},
		"fine":                 {changed(plain), Rules{}, nil},
		"many files":           {changed(plain, file("b.go", "A", "100644", 1)), Rules{MaxFiles: 1}, []string{"too-big  fatal"}},
		"many lines":           {changed(file("a.go", "M", "100644", 2001)), Rules{}, []string{"too-big  fatal"}},
		"no limit":             {changed(file("a.go", "M", "100644", 99999)), Rules{MaxLines: Unlimited}, nil},
		"protected":            {changed(file("deploy/Prod.yaml", "D", "000000", 0)), Rules{Protected: []string{"deploy/**"}}, []string{"protected-path deploy/Prod.yaml fatal"}},
		"protected, any case":  {changed(file("x/codeowners", "A", "100644", 1)), Rules{Protected: DefaultProtected()}, []string{"protected-path x/codeowners fatal"}},
		"renamed away":         {changed(workspace.File{Path: "b", OldPath: "deploy/a", Status: "R", Mode: "100644"}), Rules{Protected: []string{"deploy/**"}}, []string{"protected-path deploy/a fatal"}},
		"leaves":               {changed(file("../x", "A", "100644", 1), file("a/.GIT/config", "A", "100644", 1)), Rules{}, []string{"protected-path ../x fatal", "protected-path a/.GIT/config fatal"}},
		"workflow":             {changed(ci), Rules{}, []string{"workflow-file .github/workflows/ci.yml fatal"}},
		"workflow allowed":     {changed(ci), Rules{AllowWorkflows: true}, nil},
		"in scope":             {changed(plain, file("sub/b_test.go", "A", "100644", 1)), Rules{Scope: []string{"a.go", "*_test.go"}}, nil},
		"out of scope":         {changed(plain, file("b", "A", "100644", 1), file("c", "A", "100644", 1)), Rules{Scope: []string{"a.go"}, ScopeSlack: 1}, []string{"out-of-scope b ", "out-of-scope c fatal"}},
		"submodule":            {changed(file("s", "A", "160000", 1)), Rules{}, []string{"submodule s fatal"}},
		"link inside":          {adding(file("d/l", "A", "120000", 1), "../a.go"), Rules{}, []string{"symlink d/l "}},
		"link outside":         {adding(file("d/l", "A", "120000", 1), "../../a.go"), Rules{}, []string{"symlink d/l fatal"}},
		"link to root":         {adding(file("l", "A", "120000", 1), "/etc/passwd"), Rules{}, []string{"symlink l fatal"}},
		"link unread":          {changed(file("l", "A", "120000", 1)), Rules{}, []string{"symlink l fatal"}},
		"link deleted":         {changed(file("l", "D", "000000", 0)), Rules{}, nil},
		"binary":               {changed(file("p.png", "A", "100644", -1)), Rules{}, []string{"binary p.png "}},
		"token":                {adding(plain, "x", `t := "`+github+`" // gitleaks:allow`), Rules{}, []string{"secret a.go fatal"}},
		"token in a lock file": {adding(file("package-lock.json", "A", "100644", 1), `"t": "`+github+`"`), Rules{}, []string{"secret package-lock.json fatal"}},
		"two lines":            {adding(plain, "key = '"+aws+"'", "t = '"+github+"'"), Rules{}, []string{"secret a.go fatal", "secret a.go fatal"}},
		"private key":          {adding(plain, key...), Rules{}, []string{"secret a.go fatal"}},
		"placeholder":          {adding(plain, `password = "${DB_PASSWORD}"`, `token := os.Getenv("GITHUB_TOKEN")`), Rules{}, nil},
		"removed only":         {workspace.Diff{Files: []workspace.File{plain}, Patch: []byte("--- a/a.go\n+++ b/a.go\n@@ -1 +0,0 @@\n-t := \"" + github + "\"\n")}, Rules{}, nil},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got []string
			for _, f := range CheckDiff(tt.d, tt.r) {
				fatal := ""
				if f.Fatal {
					fatal = "fatal"
				}
				got = append(got, f.Code+" "+f.Path+" "+fatal)
				if f.Text == "" || strings.Contains(f.String(), github) || strings.Contains(f.String(), aws) {
					t.Errorf("bad text: %s", f)
				}
			}
			if d := cmp.Diff(tt.want, got); d != "" {
				t.Errorf("findings (-want +got):\n%s", d)
			}
		})
	}
}

func TestSecretRulesLoad(t *testing.T) {
	t.Parallel()
	rules, err := secretRules()
	if err != nil || len(rules.OrderedRules) < 200 || len(rules.Allowlists) == 0 {
		t.Fatalf("%d rules, %v", len(rules.OrderedRules), err)
	}
}

func TestParsePatch(t *testing.T) {
	t.Parallel()
	raw := "diff --git \"a/n\\303\\251 \\\"q\\\"\" \"b/n\\303\\251 \\\"q\\\"\"\n--- /dev/null\n+++ \"b/n\\303\\251 \\\"q\\\"\"\n@@ -0,0 +1,2 @@\n+++ b/fake\n+@@ -1 +1 @@\n" +
		"diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -5,2 +5,3 @@ func\n same\n-old\n+new\n+more\n\\ No newline at end of file\n@@ -20 +21 @@\n-a\n+b\n" +
		"diff --git a/a b c\t b/a b c\n--- a/a b c\t\n+++ b/a b c\t\n@@ -0,0 +1 @@\n+z\n"
	got := parsePatch([]byte(raw))
	want := patch{
		{`né "q"`, []addedLine{{1, "++ b/fake"}, {2, "@@ -1 +1 @@"}}},
		{"x", []addedLine{{6, "new"}, {7, "more"}, {21, "b"}}},
		{"a b c", []addedLine{{1, "z"}}},
	}
	if d := cmp.Diff(want, got, cmp.AllowUnexported(patchFile{}, addedLine{})); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
}

func FuzzCheckDiff(f *testing.F) {
	f.Add(addition("a", "x"), "a", "120000")
	f.Add([]byte("@@ -1,99999999999999999999 +1 @@\n+++ \"\\"), "../x", "100644")
	f.Fuzz(func(t *testing.T, raw []byte, path, mode string) {
		d := workspace.Diff{Patch: raw, Files: []workspace.File{{Path: path, Status: "A", Mode: mode}}}
		for _, finding := range CheckDiff(d, Rules{Protected: []string{path}}) {
			if finding.Code == "" || finding.Text == "" {
				t.Errorf("a finding without code or words: %+v", finding)
			}
		}
	})
}

func TestMatch(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		pattern, name string
		want          bool
	}{
		{"a/b.go", "a/b.go", true}, {"a/*.go", "a/b.go", true}, {"a/*.go", "a/b/c.go", false},
		{"a/**/c.go", "a/c.go", true}, {"a/**/c.go", "a/x/y/c.go", true}, {"a/**", "a/b/c", true}, {"a/**", "a", false},
		{"**/x", "x", true}, {"**/x", "a/b/x", true}, {"*.md", "docs/a.md", true}, {"/*.md", "docs/a.md", false},
		{"/*.md", "a.md", true}, {"docs/", "docs/a/b", true}, {"docs/", "x/docs/a", true}, {"/docs/", "x/docs/a", false},
		{"?.go", "ab.go", false}, {"[ab].go", "b.go", true}, {"[", "[", true}, {"[", "a", false}, {"", "a", false},
		{"**/a/**/b", "a/x/a/y/b", true}, {"**/a/**/b", "a/b/c", false}, {"**", "a/b", true}, {"a/**/b/**", "a/q/b/z", true},
	} {
		if got := Match(tt.pattern, tt.name); got != tt.want {
			t.Errorf("Match(%q, %q) = %v", tt.pattern, tt.name, got)
		}
	}
}

func FuzzMatch(f *testing.F) {
	f.Add("**/a/**/*b", "a/b/a/cb")
	f.Fuzz(func(t *testing.T, pattern, name string) {
		Match(pattern, name) // ends, and does not panic
		if name != "" && !strings.HasPrefix(name, "/") && !strings.HasSuffix(name, "/") && !Match(name, name) {
			t.Errorf("%q does not match itself", name)
		}
	})
}
