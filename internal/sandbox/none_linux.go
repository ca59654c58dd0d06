package sandbox

import (
	"context"
	"os"

	"github.com/pipelinebot/pipelinebot/internal/command"
)

// parentOf is the path of this program when a trial run shows that it calls
// Child. Without, what left its group, its parents and its environment would
// be told from anybody's process by nothing.
func parentOf(n *none) string {
	self, err := os.Executable()
	if err != nil {
		return ""
	}
	trial := *n
	trial.parent = self
	if err := probe(&trial, n.o.CacheDir); err != nil {
		n.o.Log.Warn("processes that leave a command's group may outlive it", "reason", err.Error())
		return ""
	}
	return self
}

func (n *none) belowParent(ctx context.Context, s command.Spec, l command.Limits, marker string, env []string) (command.Result, error) {
	order := childOrder{Free: true, Argv: s.Argv, Program: find(s.Argv[0], n.path), Dir: s.Dir, Env: env, FileSize: l.FileSize}
	return adopted(ctx, s, l, order, marker, n.parent, n.o.CacheDir, n.Name())
}
