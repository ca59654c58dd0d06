package gates

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestDetect(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		files map[string]string
		want  string
	}{
		"nothing":         {nil, ""},
		"go":              {map[string]string{"go.mod": "module x", "Makefile": "test:\n"}, "go test -json ./..."},
		"cargo":           {map[string]string{"Cargo.toml": ""}, "cargo test"},
		"node":            {map[string]string{"package.json": `{"scripts":{"test":"node --test"}}`}, "npm test"},
		"node, npm init":  {map[string]string{"package.json": `{"scripts":{"test":"echo \"Error: no test specified\" && exit 1"}}`}, ""},
		"node, broken":    {map[string]string{"package.json": `{`, "Makefile": "all:\n\ntest: all\n"}, "make test"},
		"pytest":          {map[string]string{"pyproject.toml": "[tool.pytest.ini_options]"}, "python3 -m pytest"},
		"pytest by files": {map[string]string{"tests/test_a.py": ""}, "python3 -m pytest"},
		"make":            {map[string]string{"Makefile": ".PHONY: test\ntest:\n\ttrue\n"}, "make test"},
		"make, variable":  {map[string]string{"Makefile": "test := x\ntest:=y\n"}, ""},
		"make, other":     {map[string]string{"Makefile": "retest:\n"}, ""},
	} {
		dir := filepath.Join(t.TempDir(), "odd [name]")
		for f, text := range tt.files {
			p := filepath.Join(dir, f)
			if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(p, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		tc, ok := Detect(dir)
		if got := strings.Join(tc.Argv, " "); got != tt.want || ok != (tt.want != "") {
			t.Errorf("%s: %q, %v", name, got, ok)
		}
	}
}
