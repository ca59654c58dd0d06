package issue

import "github.com/pipelinebot/pipelinebot/flows"

// NoVerdict turns a model's failure to answer into an early end for a person:
// no verdict is never a good one, and the same question would fail again. code
// is actuators.Code(err); ended is false for errors that may pass, for budgets
// and for no error.
func NoVerdict(err error, code string) (r flows.Result, ended bool) {
	if err == nil {
		return flows.Result{}, false
	}
	words := map[string]string{
		"stuck":            "The model did not get on",
		"invalid-answer":   "The model gave no answer that can be read",
		"refused":          "The model declined to answer",
		"context-too-long": "The material is too long for the model",
		"unknown-price":    "The price of the model is not known, and money is limited",
		"model-access":     "The model's service refuses the configured key",
	}
	if words[code] == "" {
		return flows.Result{}, false
	}
	return End(NeedsHuman, code, "%s: %v", words[code], err), true
}
