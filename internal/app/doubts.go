package app

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/pipelinebot/pipelinebot/internal/config"
	"github.com/pipelinebot/pipelinebot/internal/strictyaml"
	"github.com/pipelinebot/pipelinebot/phases/implement"
	"github.com/pipelinebot/pipelinebot/phases/plan"
	"github.com/pipelinebot/pipelinebot/phases/review"
	"github.com/pipelinebot/pipelinebot/phases/triage"
)

// promptNames are the prompts that a configuration can give models of their
// own, without versions.
func promptNames() []string {
	return slices.Concat(triage.PromptNames(), plan.PromptNames(), implement.PromptNames(), review.PromptNames())
}

// ModelDoubts says what of `models` is legal and yet hardly meant: a model
// without a known price, which no call is made to unless
// allow_unknown_price, and settings of prompts that nothing asks for.
func ModelDoubts(cfg *config.Config) []string {
	m, err := newModels(cfg.Models, "")
	if err != nil {
		return []string{err.Error()}
	}
	var doubts []string
	used := map[string]bool{cfg.Models.Default.Name: true}
	for _, p := range cfg.Models.Prompts {
		used[p.Name] = true
	}
	for _, name := range slices.Sorted(maps.Keys(used)) {
		if m.prices.Of(name).Known {
			continue
		}
		what := "no call is made to it: set its price in models.prices, or models.allow_unknown_price"
		if cfg.Models.AllowUnknownPrice {
			what = "it counts as free, and limits in dollars don't hold for it"
		}
		doubts = append(doubts, fmt.Sprintf("models: the price of %s is not known; %s", name, what))
	}
	known := promptKeys()
	for _, key := range slices.Sorted(maps.Keys(cfg.Models.Prompts)) {
		name, _, _ := strings.Cut(key, "@")
		if slices.Contains(known, name) || strings.HasPrefix(name, "agent/") {
			continue // prompts of a flow's own agents are named by the flow
		}
		text := fmt.Sprintf("models.prompts.%s: no prompt or phase has this name", key)
		if hint := strictyaml.DidYouMean(name, known); hint != "" {
			text += " (" + hint + ")"
		}
		doubts = append(doubts, text)
	}
	return doubts
}

// promptKeys are the names under which models.prompts is looked at.
func promptKeys() []string {
	keys := []string{"agent"}
	for _, name := range promptNames() {
		phase, _, _ := strings.Cut(name, "/")
		if !slices.Contains(keys, phase) {
			keys = append(keys, phase)
		}
		keys = append(keys, name)
	}
	return keys
}
