package memory

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"sync"

	"github.com/pipelinebot/pipelinebot/checkpoints"
)

// Artifacts is a checkpoints.ArtifactStore. The zero value is ready; methods
// may be called concurrently.
type Artifacts struct {
	mu  sync.Mutex
	all map[string][]byte
}

var _ checkpoints.ArtifactStore = (*Artifacts)(nil)

// Put implements checkpoints.ArtifactStore.
func (s *Artifacts) Put(_ context.Context, r io.Reader) (checkpoints.Artifact, error) {
	b, err := io.ReadAll(r)
	if err != nil {
		return checkpoints.Artifact{}, fmt.Errorf("reading artifact content: %w", err)
	}
	return s.Keep(b), nil
}

// Keep is Put of what must not be changed afterwards.
func (s *Artifacts) Keep(b []byte) checkpoints.Artifact {
	sum := sha256.Sum256(b)
	hash := hex.EncodeToString(sum[:])
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all == nil {
		s.all = map[string][]byte{}
	}
	s.all[hash] = b
	return checkpoints.Artifact{Path: hash[:2] + "/" + hash[2:], SHA256: hash, Bytes: int64(len(b))}
}

// Open implements checkpoints.ArtifactStore; what was never kept is
// checkpoints.ErrNotFound.
func (s *Artifacts) Open(_ context.Context, a checkpoints.Artifact) (io.ReadCloser, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b, ok := s.all[a.SHA256]
	if !ok {
		return nil, fmt.Errorf("artifact %s: %w", a.SHA256, checkpoints.ErrNotFound)
	}
	return io.NopCloser(bytes.NewReader(b)), nil
}
