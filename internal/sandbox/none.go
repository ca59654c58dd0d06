package sandbox

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/pipelinebot/pipelinebot/internal/command"
)

// none runs programs with the rights of this process. Environment, time,
// output and, on Linux, memory and processes are bounded all the same; files
// and network are not.
type none struct {
	o    Options
	path []string
	// parent is this program, if it can be the parent of all that a run
	// starts; "" where it can't.
	parent string
}

func newNone(o Options) *none {
	o.Log.Warn("repository commands run without a sandbox, as configured")
	n := &none{o: o, path: searchPath(hostRoots(), o.ReadOnlyPaths)}
	n.parent = parentOf(n)
	return n
}

// hostRoots is everything, since nothing is hidden: PATH is used whole.
func hostRoots() []string {
	var roots []string
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		if filepath.IsAbs(dir) {
			roots = append(roots, filepath.Clean(dir))
		}
	}
	return roots
}

// Name implements command.Runner.
func (*none) Name() string { return string(None) }

// Run implements command.Runner.
func (n *none) Run(ctx context.Context, s command.Spec) (command.Result, error) {
	if err := check(s); err != nil {
		return command.Result{}, err
	}
	if err := lookUp(s.Argv[0], s.Dir, n.path, nil); err != nil {
		return command.Result{}, fmt.Errorf("running %s: %w", s.Argv[0], err)
	}
	home, err := homeDir(n.o.CacheDir, s.Dir)
	if err != nil {
		return command.Result{}, err
	}
	tmp, err := os.MkdirTemp("", "pipelinebot-")
	if err != nil {
		return command.Result{}, fmt.Errorf("making a temporary folder: %w", err)
	}
	defer removeAll(tmp)
	l := fill(s.Limits, n.o.Defaults)
	marker := newMarker()
	env := environ(n.path, home, tmp, marker, s.Env)
	if n.parent != "" {
		return n.belowParent(ctx, s, l, marker, env)
	}
	//nolint:noctx // supervise kills all that the run started, not one process
	cmd := exec.Command(find(s.Argv[0], n.path), s.Argv[1:]...)
	cmd.Args[0] = s.Argv[0]
	cmd.Dir = s.Dir
	cmd.Env = env
	j := &job{cmd: cmd, marker: marker, pidsDir: filepath.Join(n.o.CacheDir, "pids"), sandbox: n.Name()}
	bare(j, l)
	return run(ctx, s, l, j)
}

// find is the program's path in the search path; names with a separator stay.
func find(name string, path []string) string {
	if filepath.Base(name) != name {
		return name
	}
	for _, d := range path {
		if p := filepath.Join(d, name); executable(p) {
			return p
		}
	}
	return name
}

// removeAll removes a folder whose content may be read-only, such as a module
// cache.
func removeAll(dir string) {
	if os.RemoveAll(dir) == nil {
		return
	}
	_ = filepath.WalkDir(dir, func(p string, d os.DirEntry, _ error) error {
		if d != nil && d.IsDir() {
			_ = os.Chmod(p, 0o700)
		}
		return nil
	})
	_ = os.RemoveAll(dir)
}
