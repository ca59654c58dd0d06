package flowscript

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"sync"

	"github.com/pipelinebot/pipelinebot/checkpoints"
	"github.com/pipelinebot/pipelinebot/flows"
)

// kept is an artifact store in memory.
type kept struct {
	mu  sync.Mutex
	all map[string][]byte
}

// Put implements checkpoints.ArtifactStore.
func (k *kept) Put(_ context.Context, r io.Reader) (checkpoints.Artifact, error) {
	b, err := io.ReadAll(r)
	if err != nil {
		return checkpoints.Artifact{}, err
	}
	return k.keep(b), nil
}

func (k *kept) keep(b []byte) checkpoints.Artifact {
	sum := sha256.Sum256(b)
	hash := hex.EncodeToString(sum[:])
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.all == nil {
		k.all = map[string][]byte{}
	}
	k.all[hash] = b
	return checkpoints.Artifact{Path: hash[:2] + "/" + hash, SHA256: hash, Bytes: int64(len(b))}
}

// Open implements checkpoints.ArtifactStore.
func (k *kept) Open(_ context.Context, a checkpoints.Artifact) (io.ReadCloser, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	b, ok := k.all[a.SHA256]
	if !ok {
		return nil, checkpoints.ErrNotFound
	}
	return io.NopCloser(bytes.NewReader(b)), nil
}

// values turns what a script says into state values: texts given for artifacts
// are kept.
func (k *kept) values(f *flows.Flow, in map[string]any) (map[string]json.RawMessage, error) {
	out := make(map[string]json.RawMessage, len(in))
	for key, v := range in {
		if text, ok := v.(string); ok {
			if fd, known := f.Field(key); known && fd.Type == flows.ArtifactField {
				v = k.keep([]byte(text))
			}
		}
		raw, err := json.Marshal(v)
		if err != nil {
			return nil, fmt.Errorf("encoding %s: %w", key, err)
		}
		out[key] = raw
	}
	return out, nil
}
