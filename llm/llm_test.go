package llm_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/pipelinebot/pipelinebot/llm"
)

func TestError(t *testing.T) {
	t.Parallel()
	cause := errors.New("slow down")
	for kind, retryable := range map[llm.Kind]bool{
		llm.KindRateLimited: true, llm.KindOverloaded: true, llm.KindTransient: true, llm.KindTooLong: false,
		llm.KindRefused: false, llm.KindInvalidOutput: false, llm.KindAuth: false, llm.KindInvalid: false,
	} {
		err := fmt.Errorf("asking: %w", &llm.Error{Kind: kind, Err: cause})
		e, ok := llm.AsError(err)
		if !ok || e.Kind != kind || e.Retryable() != retryable || !errors.Is(err, cause) {
			t.Errorf("%s: %+v, %t", kind, e, ok)
		}
	}
	if _, ok := llm.AsError(cause); ok {
		t.Error("any error passes as a model's")
	}
}
