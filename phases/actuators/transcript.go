package actuators

import "github.com/pipelinebot/pipelinebot/llm"

// Transcript is everything that was said in a tool loop, for an artifact. It
// is returned with an error, too.
type Transcript struct {
	Prompt string `json:"prompt"`
	Model  string `json:"model"`
	System string `json:"system"`
	// Messages are complete, also where old results were dropped from what
	// the model saw.
	Messages []llm.Message `json:"messages"`
	Turns    int           `json:"turns"`
	// ToolCalls counts the calls that were carried out.
	ToolCalls int `json:"tool_calls"`
	// Trims counts how often old results were dropped from the context.
	Trims int `json:"trims,omitempty"`
	// Usage sums what the vendor counted; Unknown when it gave no figures for
	// some turn.
	Usage llm.Usage `json:"usage"`
	// Ended is "finished" or the error's code (see Code); Error is its text.
	Ended string `json:"ended"`
	Error string `json:"error,omitempty"`
}

func (t *Transcript) count(u llm.Usage) {
	t.Usage.Input += u.Input
	t.Usage.Output += u.Output
	t.Usage.Cached += u.Cached
	t.Usage.CacheWrite += u.CacheWrite
	t.Usage.Unknown = t.Usage.Unknown || u.Unknown
}
