package sqlite

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/pipelinebot/pipelinebot/checkpoints"
)

// What every commit encodes is encoded by hand: it is the price of a node.

// encodeUsage is the usage as JSON without what is zero, "" for nothing.
func encodeUsage(u checkpoints.Usage) string {
	b := []byte{'{'}
	for _, f := range [...]struct {
		name string
		n    int64
	}{
		{`"input_tokens":`, u.InputTokens},
		{`"output_tokens":`, u.OutputTokens},
		{`"cached_tokens":`, u.CachedTokens},
		{`"tool_calls":`, u.ToolCalls},
		{`"model_calls":`, u.ModelCalls},
		{`"micro_usd":`, u.MicroUSD},
	} {
		if f.n == 0 {
			continue
		}
		if len(b) > 1 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(append(b, f.name...), f.n, 10)
	}
	if len(b) == 1 {
		return ""
	}
	return string(append(b, '}'))
}

// encodeVisits is the counts as JSON, in the order of the nodes' names.
func encodeVisits(visits map[string]int) (string, error) {
	b := []byte{'{'}
	for i, node := range slices.Sorted(maps.Keys(visits)) {
		if i > 0 {
			b = append(b, ',')
		}
		if strings.ContainsFunc(node, special) {
			text, err := json.Marshal(visits)
			return string(text), err
		}
		b = append(append(append(b, '"'), node...), '"', ':')
		b = strconv.AppendInt(b, int64(visits[node]), 10)
	}
	return string(append(b, '}')), nil
}

// special reports what a JSON string may have to escape.
func special(r rune) bool { return r < ' ' || r > '~' || r == '"' || r == '\\' }

// decode reads JSON; "" leaves the zero value.
func decode(text string, into any) error {
	if text == "" {
		return nil
	}
	return json.Unmarshal([]byte(text), into)
}
