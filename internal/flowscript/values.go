package flowscript

import (
	"encoding/json"
	"fmt"

	"github.com/pipelinebot/pipelinebot/checkpoints/memory"
	"github.com/pipelinebot/pipelinebot/flows"
)

// stateValues turns what a script says into state values: texts given for artifacts
// are kept.
func stateValues(kept *memory.Artifacts, f *flows.Flow, in map[string]any) (map[string]json.RawMessage, error) {
	out := make(map[string]json.RawMessage, len(in))
	for key, v := range in {
		if text, ok := v.(string); ok {
			if fd, known := f.Field(key); known && fd.Type == flows.ArtifactField {
				v = kept.Keep([]byte(text))
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
