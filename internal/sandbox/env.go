package sandbox

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// markerName is the variable by which leftover processes are recognised.
const markerName = "PIPELINEBOT_SANDBOX"

func newMarker() string { return rand.Text() }

// homeDir is the folder that serves as HOME for the repository of dir; made
// when missing.
func homeDir(cacheDir, dir string) (string, error) {
	repo := filepath.Dir(filepath.Clean(dir))
	sum := sha256.Sum256([]byte(repo))
	home := filepath.Join(cacheDir, "home", hex.EncodeToString(sum[:8]))
	if err := os.MkdirAll(home, 0o700); err != nil {
		return "", fmt.Errorf("making the cache of %s: %w", dir, err)
	}
	return home, nil
}

// environ is the whole environment of a run: a short list, then the spec's.
func environ(path []string, home, tmp, marker string, extra map[string]string) []string {
	env := map[string]string{
		"PATH": strings.Join(path, string(filepath.ListSeparator)), "HOME": home, "TMPDIR": tmp,
		"LANG": "C.UTF-8", "TZ": "UTC", "CI": "true", "TERM": "dumb", "NO_COLOR": "1",
		// The worktree's .git names a folder that is not there; the go command
		// would fail to stamp builds with it.
		"GOFLAGS":  "-buildvcs=false",
		markerName: marker,
	}
	if runtime.GOOS == "windows" {
		// Programs do not start without these.
		for _, k := range []string{"SystemRoot", "SystemDrive", "ComSpec", "PATHEXT", "NUMBER_OF_PROCESSORS"} {
			env[k] = os.Getenv(k)
		}
		env["TEMP"], env["TMP"], env["USERPROFILE"], env["LOCALAPPDATA"] = tmp, tmp, home, home
	}
	maps.Copy(env, extra)
	env[markerName] = marker
	list := make([]string, 0, len(env))
	for _, k := range slices.Sorted(maps.Keys(env)) {
		list = append(list, k+"="+env[k])
	}
	return list
}

// toolRoots are the folders outside roots that hold the Go toolchain of this
// machine. Others, such as ~/.cargo, lie beside credentials and must be named
// by the operator.
func toolRoots(roots []string) []string {
	found, err := exec.LookPath("go")
	if err != nil {
		return nil
	}
	if found, err = filepath.EvalSymlinks(found); err != nil || within(found, roots) {
		return nil
	}
	root := filepath.Dir(filepath.Dir(found))
	if fi, err := os.Stat(filepath.Join(root, "src", "runtime")); err != nil || !fi.IsDir() {
		return nil // not a GOROOT: don't open a folder for a wrapper script
	}
	return []string{root}
}

// searchPath is PATH inside the sandbox: this process's entries that lie in
// roots, then the bin folders of extra paths.
func searchPath(roots, extra []string) []string {
	var path []string
	add := func(dir string) {
		if fi, err := os.Stat(dir); err == nil && fi.IsDir() && !slices.Contains(path, dir) {
			path = append(path, dir)
		}
	}
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		if filepath.IsAbs(dir) && within(filepath.Clean(dir), roots) {
			add(filepath.Clean(dir))
		}
	}
	for _, p := range extra {
		if filepath.Base(p) == "bin" {
			add(p)
		}
		add(filepath.Join(p, "bin"))
	}
	if runtime.GOOS != "windows" {
		for _, dir := range []string{"/usr/local/bin", "/usr/bin", "/bin", "/usr/sbin", "/sbin"} {
			add(dir)
		}
	}
	return path
}

func within(path string, roots []string) bool {
	for _, r := range roots {
		if path == r || strings.HasPrefix(path, strings.TrimSuffix(r, string(filepath.Separator))+string(filepath.Separator)) {
			return true
		}
	}
	return false
}

// lookUp finds argv[0] as the sandbox will, so that a missing program is told
// apart from one that fails. The error wraps exec.ErrNotFound.
func lookUp(name, dir string, path, roots []string) error {
	if strings.ContainsRune(name, '/') || strings.ContainsRune(name, filepath.Separator) {
		p := name
		if !filepath.IsAbs(p) {
			p = filepath.Join(dir, p)
		}
		if executable(p) {
			return nil
		}
		return fmt.Errorf("program %q: %w", name, exec.ErrNotFound)
	}
	hidden := ""
	for _, d := range path {
		p := filepath.Join(d, name)
		if !executable(p) {
			continue
		}
		if real, err := filepath.EvalSymlinks(p); roots == nil || (err == nil && within(real, roots)) {
			return nil
		}
		hidden = p
	}
	if hidden != "" {
		return fmt.Errorf("program %q: %s leads to a folder that the sandbox does not show; add it to the read-only paths: %w", name, hidden, exec.ErrNotFound)
	}
	return fmt.Errorf("program %q is not on the sandbox's PATH %s: %w", name, strings.Join(path, string(filepath.ListSeparator)), exec.ErrNotFound)
}

func executable(path string) bool {
	if runtime.GOOS == "windows" {
		_, err := exec.LookPath(path)
		return err == nil
	}
	fi, err := os.Stat(path)
	return err == nil && fi.Mode().IsRegular() && fi.Mode()&0o111 != 0
}
