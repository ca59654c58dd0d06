// Package blob writes and reads artifacts as bytes or JSON. State holds only
// references, so every phase does this at almost every node.
//
// It must not know what the artifacts mean, and imports only checkpoints.
package blob

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"

	"github.com/pipelinebot/pipelinebot/checkpoints"
)

// MaxRead is the most bytes that are read of one artifact.
const MaxRead = 64 << 20

// Put stores bytes.
func Put(ctx context.Context, s checkpoints.ArtifactStore, what string, b []byte) (checkpoints.Artifact, error) {
	a, err := s.Put(ctx, bytes.NewReader(b))
	if err != nil {
		return a, fmt.Errorf("storing the %s: %w", what, err)
	}
	return a, nil
}

// PutJSON stores v as JSON.
func PutJSON(ctx context.Context, s checkpoints.ArtifactStore, what string, v any) (checkpoints.Artifact, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return checkpoints.Artifact{}, fmt.Errorf("encoding the %s: %w", what, err)
	}
	return Put(ctx, s, what, b)
}

// Get reads an artifact. An artifact that is not set gives nil.
func Get(ctx context.Context, s checkpoints.ArtifactStore, what string, a checkpoints.Artifact) ([]byte, error) {
	if !Set(a) {
		return nil, nil
	}
	r, err := s.Open(ctx, a)
	if err != nil {
		return nil, fmt.Errorf("opening the %s: %w", what, err)
	}
	defer func() { _ = r.Close() }()
	b, err := io.ReadAll(io.LimitReader(r, MaxRead+1))
	if err != nil {
		return nil, fmt.Errorf("reading the %s: %w", what, err)
	}
	if len(b) > MaxRead {
		return nil, fmt.Errorf("reading the %s: more than %d bytes", what, MaxRead)
	}
	return b, nil
}

// GetJSON reads an artifact into a T. An artifact that is not set gives the
// zero T.
func GetJSON[T any](ctx context.Context, s checkpoints.ArtifactStore, what string, a checkpoints.Artifact) (T, error) {
	var v T
	b, err := Get(ctx, s, what, a)
	if err != nil || b == nil {
		return v, err
	}
	if err := json.Unmarshal(b, &v); err != nil {
		return v, fmt.Errorf("decoding the %s: %w", what, err)
	}
	return v, nil
}

// Set reports that a refers to something.
func Set(a checkpoints.Artifact) bool { return a.Path != "" || a.SHA256 != "" }
