package app

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pipelinebot/pipelinebot/internal/config"
)

// The prompts that can be configured are those that the phases embed.
func TestPromptNames(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(filepath.Join("..", "..", "phases", "*", "prompts", "*.md"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no prompts found: %v", err)
	}
	var want []string
	for _, f := range files {
		name, _, _ := strings.Cut(filepath.Base(f), "@")
		phase := filepath.Base(filepath.Dir(filepath.Dir(f)))
		if phase != "agent" && !slices.Contains(want, phase+"/"+name) {
			want = append(want, phase+"/"+name)
		}
	}
	got := promptNames()
	slices.Sort(got)
	slices.Sort(want)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("prompt names (-files +list):\n%s", diff)
	}
}

func TestModelDoubts(t *testing.T) {
	t.Parallel()
	cfg := &config.Config{Models: config.Models{
		Default: config.Model{Name: "homegrown-1"},
		Prompts: map[string]config.Model{
			"plan": {Name: "homegrown-2"}, "plan/draft@1": {Name: "homegrown-2"}, "plan/drafts": {Name: "homegrown-2"}, "agent/translate": {Name: "homegrown-2"},
		},
		Prices: map[string]config.Price{"homegrown-2": {Input: 1, Output: 1}},
	}}
	want := []string{
		"models: the price of homegrown-1 is not known; no call is made to it: set its price in models.prices, or models.allow_unknown_price",
		`models.prompts.plan/drafts: no prompt or phase has this name (did you mean "plan/draft"?)`,
	}
	if diff := cmp.Diff(want, ModelDoubts(cfg)); diff != "" {
		t.Errorf("doubts (-want +got):\n%s", diff)
	}
	cfg.Models.AllowUnknownPrice = true
	if got := ModelDoubts(cfg)[0]; !strings.Contains(got, "counts as free") {
		t.Errorf("an unknown price that is allowed: %s", got)
	}
}
