package docs_test

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/pipelinebot/pipelinebot/internal/cli"
	"github.com/pipelinebot/pipelinebot/internal/docs"
)

// The first commands of the guide do what it says when they are typed as they
// stand there, in a folder that holds nothing but the two files.
//
//nolint:paralleltest // the commands look into the working folder
func TestGuidesFirstCommands(t *testing.T) {
	section := ""
	for _, s := range docs.Sections(read(t, "flows.md")) {
		if s.Title == "The shortest flow" {
			section = s.Text
		}
	}
	t.Chdir(t.TempDir())
	if err := os.Mkdir("flows", 0o750); err != nil {
		t.Fatal(err)
	}
	commands := ""
	for _, f := range docs.Fences(section) {
		var file string
		switch {
		case strings.HasPrefix(f.Text, "apiVersion:"):
			file = "flows/shortest.yaml"
		case strings.HasPrefix(f.Text, "# script: shortest\n"):
			file = "shortest.script.yaml"
		default:
			commands += f.Text
			continue
		}
		if !strings.Contains(section, "`"+strings.TrimPrefix(file, "flows/")+"`") {
			t.Errorf("the guide does not say to write %s", file)
		}
		if err := os.WriteFile(file, []byte(f.Text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	typed := 0
	for line := range strings.Lines(commands) {
		words := strings.Fields(line)
		if len(words) < 3 || words[0] != "$" || words[1] != "pipelinebot" {
			t.Errorf("%q is no command", line)
			continue
		}
		typed++
		var out, errs bytes.Buffer
		none := func(string) (string, bool) { return "", false }
		if code := cli.Main(t.Context(), words[2:], cli.IO{In: strings.NewReader(""), Out: &out, Err: &errs, Env: none}); code != cli.ExitOK {
			t.Errorf("%sends with %d: %s%s", line, code, out.String(), errs.String())
		}
	}
	if typed < 3 {
		t.Errorf("only %d commands found: the walk is broken", typed)
	}
}
