package app

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"

	"github.com/pipelinebot/pipelinebot/checkpoints"
	"github.com/pipelinebot/pipelinebot/checkpoints/artifacts"
	"github.com/pipelinebot/pipelinebot/phases/gates"
)

// TestRun is what the bot's own run of a repository's tests said.
type TestRun struct {
	// When is "before" or "after".
	When string `json:"when"`
	gates.Evidence
}

// Evidence reads the test runs that implement runs recorded: at the base
// commit, and of the change.
func Evidence(ctx context.Context, dataDir string, runs []checkpoints.Run) ([]TestRun, error) {
	kept, err := artifacts.New(artifacts.Options{Dir: filepath.Join(dataDir, "artifacts")})
	if err != nil {
		return nil, fmt.Errorf("opening the artifacts: %w", err)
	}
	var all []TestRun
	for _, r := range runs {
		if r.Phase != "implement" {
			continue
		}
		var state struct {
			Baseline checkpoints.Artifact `json:"baseline_ref"`
			Evidence checkpoints.Artifact `json:"evidence_ref"`
		}
		if err := json.Unmarshal(r.State, &state); err != nil {
			return nil, fmt.Errorf("reading the state of run %s: %w", r.ID, err)
		}
		for _, t := range []struct {
			when string
			ref  checkpoints.Artifact
		}{{"before", state.Baseline}, {"after", state.Evidence}} {
			if t.ref.SHA256 == "" {
				continue
			}
			run := TestRun{When: t.when}
			if err := readJSON(ctx, kept, t.ref, &run.Evidence); err != nil {
				return nil, fmt.Errorf("reading the evidence of run %s: %w", r.ID, err)
			}
			all = append(all, run)
		}
	}
	return all, nil
}

func readJSON(ctx context.Context, kept *artifacts.Store, ref checkpoints.Artifact, into any) error {
	content, err := kept.Open(ctx, ref)
	if err != nil {
		return err
	}
	defer func() { _ = content.Close() }()
	text, err := io.ReadAll(content)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, into)
}
