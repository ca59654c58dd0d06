package gates

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// manifestBytes bounds what is read of a repository's own files: they are
// untrusted and may be huge.
const manifestBytes = 1 << 20

var makeTest = regexp.MustCompile(`(?m)^test[ \t]*:([^=]|$)`)

// Detect finds the test command of the repository in dir by its manifests, in
// this order: go.mod, Cargo.toml, package.json with a test script, a pytest
// configuration or test files, a Makefile with a target "test". False when
// there is none: the operator must configure one.
func Detect(dir string) (TestCommand, bool) {
	cmd := func(argv ...string) (TestCommand, bool) { return TestCommand{Argv: argv}, true }
	switch {
	case isFile(dir, "go.mod"):
		return cmd("go", "test", "-json", "./...")
	case isFile(dir, "Cargo.toml"):
		return cmd("cargo", "test")
	case hasNodeScript(dir):
		return cmd("npm", "test")
	case hasPytest(dir):
		return cmd("python3", "-m", "pytest")
	}
	for _, name := range []string{"GNUmakefile", "makefile", "Makefile"} {
		if makeTest.Match(manifest(dir, name)) {
			return cmd("make", "test")
		}
	}
	return TestCommand{}, false
}

func hasNodeScript(dir string) bool {
	var pkg struct {
		Scripts map[string]string `json:"scripts"`
	}
	if json.Unmarshal(manifest(dir, "package.json"), &pkg) != nil {
		return false
	}
	script := pkg.Scripts["test"]
	// What `npm init` writes; it always fails.
	return script != "" && !strings.Contains(script, "no test specified")
}

func hasPytest(dir string) bool {
	if isFile(dir, "pytest.ini") || isFile(dir, "conftest.py") || isFile(dir, filepath.Join("tests", "conftest.py")) {
		return true
	}
	if bytes.Contains(manifest(dir, "pyproject.toml"), []byte("pytest")) ||
		bytes.Contains(manifest(dir, "setup.cfg"), []byte("[tool:pytest]")) ||
		bytes.Contains(manifest(dir, "tox.ini"), []byte("[pytest]")) {
		return true
	}
	for _, pattern := range []string{"test_*.py", "*_test.py", "tests/test_*.py", "test/test_*.py"} {
		if m, _ := filepath.Glob(filepath.Join(globEscape(dir), pattern)); len(m) > 0 {
			return true
		}
	}
	return false
}

// globEscape keeps special characters of a folder's own name from matching.
func globEscape(dir string) string {
	if filepath.Separator == '\\' {
		return dir // no escape on Windows, where these are rare in paths
	}
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(dir)
}

func isFile(dir, name string) bool {
	// Lstat: a symbolic link may point out of the repository.
	fi, err := os.Lstat(filepath.Join(dir, name))
	return err == nil && fi.Mode().IsRegular()
}

func manifest(dir, name string) []byte {
	if !isFile(dir, name) {
		return nil
	}
	f, err := os.Open(filepath.Join(dir, name))
	if err != nil {
		return nil
	}
	defer func() { _ = f.Close() }()
	buf := make([]byte, manifestBytes)
	n := 0
	for n < len(buf) {
		k, err := f.Read(buf[n:])
		n += k
		if err != nil {
			break
		}
	}
	return buf[:n]
}
