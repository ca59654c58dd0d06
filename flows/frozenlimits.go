package flows

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"
)

// FrozenLimits reads the limits of a frozen definition alone, whether or not
// this program has its actions: what bounds a run bounds it as long as its
// text can be read. A definition that can't, or that does not have the given
// hash, is ErrCorrupt.
func FrozenLimits(definition []byte, hash string) (FlowLimits, error) {
	sum := sha256.Sum256(definition)
	if got := hex.EncodeToString(sum[:]); got != hash {
		return FlowLimits{}, fmt.Errorf("%w: its sha256 is %s, not %s", ErrCorrupt, got, hash)
	}
	doc := struct {
		Limits docLimits `json:"limits"`
	}{docLimits{MaxSteps: defaultMaxSteps, WarnAt: 0.8}}
	if err := json.Unmarshal(definition, &doc); err != nil {
		return FlowLimits{}, fmt.Errorf("%w: its limits: %w", ErrCorrupt, err)
	}
	in := doc.Limits
	out := FlowLimits{MaxSteps: in.MaxSteps, Tokens: in.Tokens, ToolCalls: in.ToolCalls, WarnAt: in.WarnAt}
	if in.CostUSD != "" {
		money, ok := microUSD(in.CostUSD.String())
		if !ok {
			return FlowLimits{}, fmt.Errorf("%w: its limit cost_usd: %s is no amount of money", ErrCorrupt, in.CostUSD)
		}
		out.MicroUSD = money
	}
	if in.Wall != "" {
		wall, err := time.ParseDuration(in.Wall)
		if err != nil {
			return FlowLimits{}, fmt.Errorf("%w: its limit wall: %w", ErrCorrupt, err)
		}
		out.Wall = wall
	}
	return out, nil
}
