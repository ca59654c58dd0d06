package actuators_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pipelinebot/pipelinebot/llm/llmtest"
	"github.com/pipelinebot/pipelinebot/phases/actuators"
)

// TestNoEscape: no tool reaches outside the directory, into .git, or through
// a link, by any spelling.
func TestNoEscape(t *testing.T) {
	t.Parallel()
	outside := tree(t, map[string]string{"secret.txt": "s3cret\n"})
	dir := tree(t, map[string]string{".git/config": "s3cret\n", "sub/.git/config": "s3cret\n", "ok.txt": "fine\n"})
	for link, to := range map[string]string{
		"out": outside, "file": filepath.Join(outside, "secret.txt"), "git": ".git", "up": "..", "conf": ".git/config", "dangling": "sub/new.txt",
	} {
		if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	for _, p := range []string{
		"../secret.txt", outside + "/secret.txt", "/etc/passwd", "sub/../../x", "..", "a/../../b",
		".git/config", ".GIT/config", "./.git/config", "sub/.git/config", ".git", ".git./config", ".git /config", "git~1/config", ".git::$INDEX_ALLOCATION/config",
		"out/secret.txt", "file", "git/config", "up/x", "conf", "dangling", `..\x`, "a\x00b",
	} {
		t.Run(p, func(t *testing.T) {
			t.Parallel()
			for _, turn := range []llmtest.Turn{
				llmtest.Call("read_file", args{"path": p}),
				llmtest.Call("write_file", args{"path": p, "content": "owned"}),
				llmtest.Call("edit_file", args{"path": p, "old": "s3cret", "new": "owned"}),
			} {
				asked, _, err := work(t, actuators.Toolbox{Dir: dir}, turn, llmtest.Finish(done{}))
				if err != nil {
					t.Fatal(err)
				}
				if r := results(asked[1])[0]; !r.Error || strings.Contains(r.Text, "s3cret\n") {
					t.Errorf("result = %+v", r)
				}
			}
		})
	}
	t.Run("listing", func(t *testing.T) {
		t.Parallel()
		asked, _, err := work(t, actuators.Toolbox{Dir: dir},
			llmtest.CallAll(llmtest.Wish{Name: "list_files", Args: args{}}, llmtest.Wish{Name: "search", Args: args{"pattern": "s3cret|fine"}}), llmtest.Finish(done{}))
		if err != nil {
			t.Fatal(err)
		}
		r := results(asked[1])
		if r[0].Text != "ok.txt (5 bytes)\n" || r[1].Text != "ok.txt:1: fine\n" {
			t.Errorf("listed %q, found %q", r[0].Text, r[1].Text)
		}
	})
	t.Cleanup(func() {
		if read(t, outside, "secret.txt") != "s3cret\n" || read(t, dir, ".git/config") != "s3cret\n" {
			t.Error("something was overwritten")
		}
		if entries, err := os.ReadDir(outside); err != nil || len(entries) != 1 {
			t.Errorf("something was created outside: %v, %v", entries, err)
		}
	})
}

// TestCaps: results are bounded, and say how to see the rest.
func TestCaps(t *testing.T) {
	t.Parallel()
	files := map[string]string{"big.txt": strings.Repeat("0123456789 needle\n", 5000), "line.txt": strings.Repeat("x", 100_000)}
	for i := range 500 {
		files[fmt.Sprintf("many/f%03d.txt", i)] = "needle"
	}
	dir := tree(t, files)
	for _, c := range []struct {
		tool string
		args args
		want string
	}{
		{"read_file", args{"path": "big.txt"}, "of 5000; go on with start="},
		{"read_file", args{"path": "big.txt", "start": 4990}, "[lines 4990-5000 of 5000]"},
		{"read_file", args{"path": "big.txt", "start": 3, "end": 4}, "     3\t0123456789 needle\n     4\t0123456789 needle\n[lines 3-4 of 5000]\n"},
		{"read_file", args{"path": "line.txt"}, "…"},
		{"search", args{"pattern": "needle", "files": "big.txt", "context": 99}, "there may be more"},
		{"search", args{"pattern": "needle", "files": "many/*"}, "there may be more"},
		{"search", args{"pattern": "NEEDLE", "files": "many/f00?.txt", "ignore_case": true}, "many/f009.txt:1: needle"},
		{"list_files", args{"pattern": "many"}, "100 more; narrow the pattern"},
	} {
		asked, _, err := work(t, actuators.Toolbox{Dir: dir, ReadOnly: true}, llmtest.Call(c.tool, c.args), llmtest.Finish(done{}))
		if err != nil {
			t.Fatal(err)
		}
		r := results(asked[1])[0]
		if r.Error || len(r.Text) > 16<<10 || !strings.Contains(r.Text, c.want) {
			t.Errorf("%s %v: error %t, %d bytes, want %q, ends %q", c.tool, c.args, r.Error, len(r.Text), c.want, r.Text[max(len(r.Text)-200, 0):])
		}
	}
}

func TestEditKeeps(t *testing.T) {
	t.Parallel()
	dir := tree(t, map[string]string{"crlf.txt": "a\r\nb\r\nc\r\n", "tool.sh": "#!/bin/sh\necho a\n"})
	if err := os.Chmod(filepath.Join(dir, "tool.sh"), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, _, err := work(t, actuators.Toolbox{Dir: dir},
		llmtest.Call("edit_file", args{"path": "crlf.txt", "old": "a\nb", "new": "a\nB"}),
		llmtest.Call("edit_file", args{"path": filepath.Join(dir, "tool.sh"), "old": "echo a", "new": "echo b"}),
		llmtest.Finish(done{}),
	); err != nil {
		t.Fatal(err)
	}
	if got := read(t, dir, "crlf.txt"); got != "a\r\nB\r\nc\r\n" {
		t.Errorf("line ends: %q", got)
	}
	info, err := os.Stat(filepath.Join(dir, "tool.sh"))
	if err != nil || info.Mode().Perm() != 0o755 || read(t, dir, "tool.sh") != "#!/bin/sh\necho b\n" {
		t.Errorf("mode %v, content %q, %v", info.Mode(), read(t, dir, "tool.sh"), err)
	}
}

func TestGlob(t *testing.T) {
	t.Parallel()
	dir := tree(t, map[string]string{"a.go": "", "x/a.go": "", "x/y/b.go": "", "x/y/c.txt": "", "node_modules/z.go": ""})
	for pattern, want := range map[string]string{
		"": "a.go x/a.go x/y/b.go x/y/c.txt", "**": "a.go x/a.go x/y/b.go x/y/c.txt", "*.go": "a.go x/a.go x/y/b.go", "x/*.go": "x/a.go",
		"x/**/*.go": "x/a.go x/y/b.go", "**/b.go": "x/y/b.go", "x/y": "x/y/b.go x/y/c.txt", "./x/y/": "x/y/b.go x/y/c.txt", "?.go": "a.go x/a.go x/y/b.go", "none*": "",
	} {
		asked, _, err := work(t, actuators.Toolbox{Dir: dir, ReadOnly: true}, llmtest.Call("list_files", args{"pattern": pattern}), llmtest.Finish(done{}))
		if err != nil {
			t.Fatal(err)
		}
		got := strings.ReplaceAll(strings.TrimSpace(results(asked[1])[0].Text), " (0 bytes)\n", " ")
		got = strings.TrimSuffix(got, " (0 bytes)")
		if want == "" {
			want = fmt.Sprintf("No file matches %q.", pattern)
		}
		if got != want {
			t.Errorf("%q lists %q, want %q", pattern, got, want)
		}
	}
}

// FuzzTools: whatever a model writes as arguments, the loop goes on, and
// nothing outside or in .git changes.
func FuzzTools(f *testing.F) {
	for _, s := range []string{
		`{"path":"a.txt"}`, `{"path":"a.txt","start":2,"end":1}`, `{"path":"../x","content":"y"}`, `{"path":".git/config","old":"core","new":"x"}`,
		`{"path":"a.txt","old":"one","new":"two"}`, `{"pattern":"**/**/**/*"}`, `{"pattern":"(a|b)*$","context":3}`, `{`, `null`, `[]`, `{"path":"a.txt/b","content":""}`,
	} {
		for tool := range 5 {
			f.Add(uint8(tool), []byte(s))
		}
	}
	f.Fuzz(func(t *testing.T, which uint8, raw []byte) {
		top := t.TempDir()
		dir := filepath.Join(top, "repo")
		for name, text := range map[string]string{"a.txt": "one\ntwo\n", ".git/config": "core", "d/b.txt": "x\r\n"} {
			p := filepath.Join(dir, name)
			if err := errors.Join(os.MkdirAll(filepath.Dir(p), 0o755), os.WriteFile(p, []byte(text), 0o644)); err != nil {
				t.Fatal(err)
			}
		}
		tool := []string{"list_files", "read_file", "search", "edit_file", "write_file"}[which%5]
		asked, log, err := work(t, actuators.Toolbox{Dir: dir}, llmtest.Call(tool, json.RawMessage(raw)), llmtest.Finish(done{}))
		if err != nil {
			t.Fatal(err)
		}
		if n := len(results(asked[1])[0].Text); n > 16<<10 {
			t.Errorf("result of %d bytes", n)
		}
		if _, err := json.Marshal(log); err != nil {
			t.Error(err)
		}
		if read(t, dir, ".git/config") != "core" {
			t.Error(".git was changed")
		}
		if e, err := os.ReadDir(top); err != nil || len(e) != 1 {
			t.Errorf("something was made outside: %v %v", e, err)
		}
	})
}
