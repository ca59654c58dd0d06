// Package sandbox runs programs on repository content, which nobody has
// reviewed, so that they can neither read the host's secrets nor outlive
// their run.
//
// Drivers, best first: bubblewrap (namespaces: own file system, processes and
// network), landlock (access rules on one process tree) and none, which is
// used only when asked for by name.
//
// What is bounded, in every driver: wall time, time without output, kept
// output, resident memory and number of processes (watched several times a
// second), size of a written file (RLIMIT_FSIZE, not on Windows). Memory is
// watched rather than limited by RLIMIT_AS, because race detectors, node and
// JVMs reserve far more address space than they use.
//
// It must not know git, forges, flows or models. It may import
// internal/command, golang.org/x/sys and go-landlock.
package sandbox

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/pipelinebot/pipelinebot/internal/command"
)

// Mode names a driver, or the choice of one.
type Mode string

// The modes. Auto takes the best that works and never None.
const (
	Auto       Mode = "auto"
	Bubblewrap Mode = "bubblewrap"
	Landlock   Mode = "landlock"
	None       Mode = "none"
)

// ErrUnavailable says that no sandbox, or not the one asked for, works here.
var ErrUnavailable = errors.New("sandbox: not available")

// Options configure New.
type Options struct {
	// Mode is the driver; empty is Auto.
	Mode Mode
	// CacheDir keeps a HOME for each repository (build caches survive there)
	// and the records of running processes. Required, absolute; made if
	// missing. A repository is recognised by the folder that holds its
	// worktrees, the parent of Spec.Dir.
	CacheDir string
	// ReadOnlyPaths are further absolute paths that programs may read, such as
	// a toolchain in /opt or a module cache. Their bin folders join PATH.
	ReadOnlyPaths []string
	// Defaults replace the package's default limits; zero fields keep them.
	Defaults command.Limits
	// Log gets what was chosen and swept; nil discards.
	Log *slog.Logger
}

// defaults are the limits used where neither Spec nor Options say anything.
func defaults() command.Limits {
	return command.Limits{
		Wall: 10 * time.Minute, Idle: 5 * time.Minute, Output: 1 << 20,
		Memory: 4 << 30, Processes: 512, FileSize: 1 << 30,
	}
}

// New returns the runner of o.Mode, proven to work by a trial run, after
// killing what an earlier process with the same CacheDir left running.
// ErrUnavailable tells what to install or to set.
func New(o Options) (command.Runner, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Mode == "" {
		o.Mode = Auto
	}
	if !filepath.IsAbs(o.CacheDir) {
		return nil, fmt.Errorf("sandbox: cache folder %q: want an absolute path", o.CacheDir)
	}
	for _, p := range o.ReadOnlyPaths {
		if !filepath.IsAbs(p) || filepath.Clean(p) == string(filepath.Separator) {
			return nil, fmt.Errorf("sandbox: read-only path %q: want an absolute path below the root", p)
		}
	}
	for _, dir := range []string{"home", "pids"} {
		if err := os.MkdirAll(filepath.Join(o.CacheDir, dir), 0o700); err != nil {
			return nil, fmt.Errorf("sandbox: making cache folder: %w", err)
		}
	}
	o.Defaults = fill(o.Defaults, defaults())
	r, err := choose(o)
	if err != nil {
		return nil, err
	}
	if n := sweep(filepath.Join(o.CacheDir, "pids")); n > 0 {
		o.Log.Warn("killed processes left by an earlier run", "processes", n)
	}
	o.Log.Debug("sandbox chosen", "sandbox", r.Name())
	return r, nil
}

func choose(o Options) (command.Runner, error) {
	switch o.Mode {
	case None:
		return newNone(o), nil
	case Bubblewrap:
		return newBubblewrap(o)
	case Landlock:
		return newLandlock(o)
	case Auto:
		r, errB := newBubblewrap(o)
		if errB == nil {
			return r, nil
		}
		r, errL := newLandlock(o)
		if errL == nil {
			o.Log.Warn("bubblewrap does not work here; using landlock, which hides less", "reason", errB.Error())
			return r, nil
		}
		return nil, fmt.Errorf("no sandbox for repository commands works here: install bubblewrap "+
			"(Debian and Ubuntu: apt install bubblewrap) on a kernel that allows user namespaces, or run on Linux 6.10 or later for landlock; "+
			"or set sandbox mode \"none\" to run repository code with this process's own rights: %w", errors.Join(errB, errL))
	}
	return nil, fmt.Errorf("sandbox mode %q: want auto, bubblewrap, landlock or none", o.Mode)
}

// fill takes the fields of byDefault where l has none.
func fill(l, byDefault command.Limits) command.Limits {
	pick := func(v *int64, d int64) {
		if *v <= 0 {
			*v = d
		}
	}
	if l.Wall <= 0 {
		l.Wall = byDefault.Wall
	}
	if l.Idle <= 0 {
		l.Idle = byDefault.Idle
	}
	if l.Processes <= 0 {
		l.Processes = byDefault.Processes
	}
	pick(&l.Output, byDefault.Output)
	pick(&l.Memory, byDefault.Memory)
	pick(&l.FileSize, byDefault.FileSize)
	return l
}
