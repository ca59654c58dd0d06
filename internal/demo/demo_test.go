package demo_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pipelinebot/pipelinebot/internal/demo"
	"github.com/pipelinebot/pipelinebot/internal/mockworld/modelwire"
	"github.com/pipelinebot/pipelinebot/internal/mockworld/scenario"
)

// TestStoryIsGenuine plays the scripted edits on the story's repository with
// nothing of the pipeline in between: its tests must fail as it stands and
// after the first attempt, in different ways, and pass after the second.
func TestStoryIsGenuine(t *testing.T) {
	t.Parallel()
	s, err := scenario.Load(demo.Scenario())
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, content := range s.World.Repos[0].Files {
		write(t, filepath.Join(dir, name), content)
	}
	expect := func(when string, pass bool, mentions string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "go", "test", "./...")
		cmd.Dir = dir
		cmd.Env = append(cmd.Environ(), "GOFLAGS=-mod=mod", "GOPROXY=off", "GOTOOLCHAIN=local")
		out, err := cmd.CombinedOutput()
		if (err == nil) != pass || !strings.Contains(string(out), mentions) {
			t.Fatalf("%s: go test: %v, want pass = %v and %q in:\n%s", when, err, pass, mentions, out)
		}
	}
	expect("as it stands", false, "TestMinutesWithMeetingInsideAnother")
	attempts := 0
	for _, r := range s.Model["implement/code"] {
		for _, c := range r.Calls {
			apply(t, dir, c)
		}
		if r.JSON != nil {
			attempts++
			expect("after an attempt", attempts == 2, map[int]string{1: "TestMergeTakesAnyOrder", 2: "ok"}[attempts])
		}
	}
	if attempts != 2 {
		t.Errorf("%d attempts, want 2", attempts)
	}
}

func apply(t *testing.T, dir string, c modelwire.Call) {
	t.Helper()
	if c.Name != "edit_file" {
		return
	}
	field := func(name string) string {
		s, ok := c.Input[name].(string)
		if !ok {
			t.Fatalf("edit_file without %s", name)
		}
		return s
	}
	path := filepath.Join(dir, field("path"))
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(b), field("old")); n != 1 {
		t.Fatalf("the text to replace occurs %d times in %s:\n%s", n, path, field("old"))
	}
	write(t, path, strings.Replace(string(b), field("old"), field("new"), 1))
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}
