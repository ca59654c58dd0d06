package actuators

import (
	"context"
	"fmt"
	"strings"

	"github.com/pipelinebot/pipelinebot/flows"
	"github.com/pipelinebot/pipelinebot/llm"
)

// Ask is one structured call. T is a struct; its schema is inferred (see the
// tags `jsonschema:"…"` for the description and `enum:"a,b"`), and a method
// Check() error on T or *T adds rules. An answer that does not fit is sent
// back once with the reason. Each call is reserved and settled with c.Meter.
//
// Errors: flows.ErrBudget, *flows.Retry, ErrInvalidAnswer, ErrRefused,
// ErrTooLong, ErrUnknownPrice, or the cause of ctx.
func Ask[T any](ctx context.Context, c flows.Call, m Models, p Prompt) (T, error) {
	var zero T
	form, err := newAnswer[T]()
	if err != nil {
		return zero, err
	}
	paid, err := newMetered(c, m, p.ID)
	if err != nil {
		return zero, err
	}
	system, first := p.Render()
	req := llm.Request{
		Prompt: p.ID, System: system, Schema: form.schema,
		Messages: []llm.Message{{Role: llm.User, Text: first}},
	}
	var why error
	for try := range 2 {
		c.Beat(fmt.Sprintf("asking %s for %s, try %d", paid.model.Name, p.ID, try+1))
		resp, err := paid.complete(ctx, req)
		wrote := string(resp.JSON)
		switch e, typed := llm.AsError(err); {
		case err == nil:
			v, derr := form.decode(resp.JSON)
			if derr == nil {
				return v, nil
			}
			why = derr
			if resp.Stop == llm.MaxTokens {
				why = fmt.Errorf("cut off after %d output tokens: %w", paid.model.MaxOutput, derr)
			}
		case typed && e.Kind == llm.KindInvalidOutput:
			why, wrote = e.Err, resp.Text
		default:
			return zero, err
		}
		req.Messages = append(req.Messages, repair(wrote, resp, why)...)
	}
	return zero, fmt.Errorf("asking %s: %w, twice: %w", p.ID, ErrInvalidAnswer, why)
}

// repair is the turn that shows the model its own answer and what is wrong.
func repair(wrote string, resp llm.Response, why error) []llm.Message {
	own := resp.Opaque
	if strings.TrimSpace(wrote) == "" {
		wrote, own = "(no answer)", nil
	}
	return []llm.Message{
		{Role: llm.Assistant, Text: wrote, Opaque: own},
		{Role: llm.User, Text: "That answer can't be used: " + clip(why.Error(), 2000) +
			"\nAnswer again with one JSON object that fits the schema, and nothing else."},
	}
}

func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + "…"
}
