package driver

import (
	"fmt"

	"github.com/pipelinebot/pipelinebot/llm"
)

// Structured finds and checks the answer that r.Schema demands; a turn that
// calls other tools has none yet. tool names the tool whose arguments are the
// answer, "" where the text is. When the answer does not fit, the error says
// why, and the response holds what the model wrote, without JSON.
func Structured(r llm.Request, out llm.Response, tool string) (llm.Response, error) {
	for _, c := range out.Calls {
		if tool == "" || c.Name != tool {
			continue
		}
		out.Text, out.JSON = string(c.Input), c.Input
		out.Calls, out.Opaque = nil, nil
		if out.Stop == llm.ToolUse {
			out.Stop = llm.EndTurn
		}
		break
	}
	if len(out.Calls) > 0 {
		return out, nil
	}
	if out.JSON == nil {
		out.JSON = Object(out.Text)
	}
	err := Check(r.Schema, out.JSON)
	if err == nil {
		return out, nil
	}
	out.JSON = nil
	if out.Stop == llm.MaxTokens {
		err = fmt.Errorf("cut off after %d tokens: %w", r.MaxTokens, err)
	}
	return out, err
}
