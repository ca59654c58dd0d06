package sandbox

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/landlock-lsm/go-landlock/landlock"

	"github.com/pipelinebot/pipelinebot/internal/command"
)

// confined runs programs under landlock rules. The rules bind a process and
// what it starts, so this program runs itself again as the one to be bound:
// see Child. Weaker than bubblewrap: loopback TCP is blocked with all other
// TCP, UDP only on kernels that can, other processes stay visible (not their
// memory or environment), and hard-coded /tmp paths fail.
type confined struct {
	o           Options
	self        string
	extra, path []string
}

// newLandlock proves with a trial run that the kernel enforces the rules and
// that this program calls Child.
func newLandlock(o Options) (command.Runner, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("%w: landlock: finding this program: %w", ErrUnavailable, err)
	}
	roots := append(systemDirs(), o.ReadOnlyPaths...)
	extra := append(slices.Clone(o.ReadOnlyPaths), toolRoots(roots)...)
	c := &confined{o: o, self: self, extra: extra, path: searchPath(append(systemDirs(), extra...), extra)}
	if err := probe(c, o.CacheDir); err != nil {
		return nil, fmt.Errorf("%w: landlock: a trial run failed: %w", ErrUnavailable, err)
	}
	return c, nil
}

// Name implements command.Runner.
func (*confined) Name() string { return string(Landlock) }

// Run implements command.Runner.
func (c *confined) Run(ctx context.Context, s command.Spec) (command.Result, error) {
	if err := check(s); err != nil {
		return command.Result{}, err
	}
	s.Dir = filepath.Clean(s.Dir)
	shown := append(append(systemDirs(), c.extra...), s.Dir)
	if err := lookUp(s.Argv[0], s.Dir, c.path, shown); err != nil {
		return command.Result{}, fmt.Errorf("running %s: %w", s.Argv[0], err)
	}
	home, err := homeDir(c.o.CacheDir, s.Dir)
	if err != nil {
		return command.Result{}, err
	}
	tmp, err := os.MkdirTemp("", "pipelinebot-")
	if err != nil {
		return command.Result{}, fmt.Errorf("making a temporary folder: %w", err)
	}
	defer removeAll(tmp)
	l := fill(s.Limits, c.o.Defaults)
	marker := newMarker()
	env := environ(c.path, home, tmp, marker, s.Env)
	order := childOrder{
		Argv: s.Argv, Program: find(s.Argv[0], c.path), Dir: s.Dir, Env: env, Network: s.Network,
		ReadDirs: append(systemDirs(), c.extra...), ReadFiles: systemFiles(s.Network),
		WriteDirs: []string{home, tmp}, FileSize: l.FileSize,
	}
	if s.ReadOnly {
		order.ReadDirs = append(order.ReadDirs, s.Dir)
	} else {
		order.WriteDirs = append(order.WriteDirs, s.Dir)
	}
	return adopted(ctx, s, l, order, marker, c.self, c.o.CacheDir, c.Name())
}

// restrict binds the calling process to the order's rules: the newest the
// kernel knows, and nothing less than version 5 (Linux 6.10), the first that
// covers files, TCP and device controls.
func restrict(o childOrder) error {
	for _, cfg := range []landlock.Config{landlock.V5, landlock.V11.BestEffort()} {
		rules := []landlock.Rule{
			landlock.RODirs(o.ReadDirs...).IgnoreIfMissing(),
			landlock.RODirs("/proc").IgnoreIfMissing(),
			landlock.RWDirs(o.WriteDirs...).WithRefer(),
			landlock.RWFiles("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty").IgnoreIfMissing(),
		}
		for _, f := range o.ReadFiles {
			if fi, err := os.Stat(f); err == nil && fi.IsDir() {
				rules = append(rules, landlock.RODirs(f))
			} else {
				rules = append(rules, landlock.ROFiles(f).IgnoreIfMissing())
			}
		}
		var err error
		if o.Network {
			err = cfg.RestrictPaths(rules...)
		} else {
			err = cfg.Restrict(rules...)
		}
		if err != nil {
			return fmt.Errorf("applying landlock rules: %w", err)
		}
	}
	return nil
}
