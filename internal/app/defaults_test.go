package app

import (
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pipelinebot/pipelinebot/internal/config"
	"github.com/pipelinebot/pipelinebot/phases/gates"
)

// The shipped config.yaml says that it shows the default of `protected`.
func TestShippedProtectedPaths(t *testing.T) {
	t.Parallel()
	cfg, err := config.Load(filepath.Join("..", "..", "config.yaml"), func(string) (string, bool) { return "set", true })
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(gates.DefaultProtected(), cfg.Implement.Protected); diff != "" {
		t.Errorf("protected paths (-default +config.yaml):\n%s", diff)
	}
}
