package gitws

import (
	"testing"

	"github.com/pipelinebot/pipelinebot/internal/workspace"
)

func FuzzParseFiles(f *testing.F) {
	f.Add([]byte(":100644 000000 1 0 D\x00a\x00:100644 100644 1 2 R100\x00b\x00c\x00"), []byte("0\t1\ta\x001\t2\t\x00b\x00c\x00"))
	f.Add([]byte(":"), []byte("-\t-\tx"))
	f.Fuzz(func(t *testing.T, raw, counts []byte) {
		files, err := parseFiles(raw, counts)
		if err != nil {
			return
		}
		for i, file := range files {
			if file.Status == "" || (i > 0 && files[i-1].Path >= file.Path) {
				t.Errorf("unsorted or without status: %+v", files)
			}
		}
	})
}

func FuzzSlug(f *testing.F) {
	f.Add("run/7")
	f.Add("..")
	f.Fuzz(func(t *testing.T, s string) {
		got := slug(s)
		if got == "" || len(got) > 60 || unsafeName.MatchString(got) {
			t.Errorf("slug(%q) = %q", s, got)
		}
	})
}

func TestMessage(t *testing.T) {
	t.Parallel()
	const line = "Signed-off-by: bot <b@x>"
	for text, want := range map[string]string{
		"Fix":                    "Fix\n\n" + line + "\n",
		"fix: it":                "fix: it\n\n" + line + "\n",
		"Fix\n\nCloses: #7\n\n":  "Fix\n\nCloses: #7\n" + line + "\n",
		"Fix\n\nWhy: because so": "Fix\n\nWhy: because so\n" + line + "\n",
		"Fix\n\n" + line:         "Fix\n\n" + line + "\n",
		"Fix\r\n\r\nSome text.":  "Fix\n\nSome text.\n\n" + line + "\n",
	} {
		if got := message(workspace.Commit{Message: text, Name: "bot", Email: "b@x", SignOff: true}); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}
