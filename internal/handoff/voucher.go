package handoff

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/pipelinebot/pipelinebot/checkpoints"
)

// Voucher is the person on whose word a run works: who started it, or who has
// resumed it or approved its plan since. Their rights are the run's.
type Voucher struct {
	ID    int64  `json:"id"`
	Login string `json:"login"`
	// Operator is a person at the bot's own machine, whose rights nobody
	// takes away on the forge.
	Operator bool `json:"operator,omitempty"`
}

func voucherKey(runID string) string { return checkpoints.EffectKey(runID) + "voucher" }

// Vouch records on whose word a run works from now on.
func Vouch(ctx context.Context, e checkpoints.Effects, runID string, v Voucher) error {
	value, err := json.Marshal(v)
	if err == nil {
		err = e.RecordEffect(ctx, voucherKey(runID), value)
	}
	if err != nil {
		return fmt.Errorf("recording on whose word run %s works: %w", runID, err)
	}
	return nil
}

// Vouchers is where vouchers are kept, with the runs.
type Vouchers interface {
	Effect(ctx context.Context, key string) (json.RawMessage, error)
	Get(ctx context.Context, id string) (checkpoints.Run, error)
}

// maxChain is how many phases a pipeline is followed back.
const maxChain = 100

// VoucherOf is on whose word a run works. A phase that followed another has
// that one's. ok is false when it is not known: the run is of an older
// version, or what it followed is deleted.
func VoucherOf(ctx context.Context, s Vouchers, run checkpoints.Run) (v Voucher, ok bool, err error) {
	for range maxChain {
		value, err := s.Effect(ctx, voucherKey(run.ID))
		if err == nil {
			if err := json.Unmarshal(value, &v); err != nil {
				return v, false, fmt.Errorf("reading on whose word run %s works: %w", run.ID, err)
			}
			return v, true, nil
		}
		if !errors.Is(err, checkpoints.ErrNotFound) {
			return v, false, fmt.Errorf("asking on whose word run %s works: %w", run.ID, err)
		}
		before, follows := strings.CutPrefix(run.Trigger, after)
		if !follows {
			return v, false, nil
		}
		run, err = s.Get(ctx, before)
		if errors.Is(err, checkpoints.ErrNotFound) {
			return v, false, nil
		}
		if err != nil {
			return v, false, fmt.Errorf("reading run %s: %w", before, err)
		}
	}
	return v, false, nil
}

// look begins the trigger of a look at an outsider's issue.
const look = "look/"

// LookTrigger is the trigger of a look that something caused.
func LookTrigger(source string) string { return look + source }

// IsLook reports that a run only looks at an outsider's issue: a shadow whose
// verdict is told in the status comment.
func IsLook(r checkpoints.Run) bool {
	return r.Mode == checkpoints.ModeShadow && strings.HasPrefix(r.Trigger, look)
}
