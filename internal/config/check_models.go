package config

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/pipelinebot/pipelinebot/checkpoints"
	"github.com/pipelinebot/pipelinebot/internal/strictyaml"
)

const defaultMaxOutput = 8192

func (c *checker) models() Models {
	r := c.raw.Models
	m := Models{
		Backends: map[string]Backend{}, Prompts: map[string]Model{}, Prices: map[string]Price{},
		AllowUnknownPrice: r.AllowUnknownPrice,
	}
	if len(r.Backends) == 0 {
		c.fail("models.backends", "add one, see the commented config.yaml", "no model backend is named")
	}
	for _, name := range slices.Sorted(maps.Keys(r.Backends)) {
		m.Backends[name] = c.backend("models.backends."+name, r.Backends[name])
	}
	m.Default = c.model("models.default", r.Default, Model{})
	if m.Default.Name == "" {
		c.fail("models.default.model", "", "no default model is named")
	}
	for _, id := range slices.Sorted(maps.Keys(r.Prompts)) {
		m.Prompts[id] = c.model("models.prompts."+id, r.Prompts[id], m.Default)
	}
	for _, name := range slices.Sorted(maps.Keys(r.Prices)) {
		p := r.Prices[name]
		if p.Input < 0 || p.Output < 0 || p.Cached < 0 {
			c.fail("models.prices."+name, "", "a price cannot be below 0")
		}
		micro := func(usd float64) int64 { return int64(usd*1e6 + 0.5) }
		m.Prices[name] = Price{Input: micro(p.Input), Cached: micro(p.Cached), Output: micro(p.Output)}
	}
	return m
}

func (c *checker) backend(path string, r RawBackend) Backend {
	b := Backend{
		BaseURL: c.url(path+".base_url", r.BaseURL), Timeout: r.Timeout, JSONMode: r.JSONMode,
		Key: c.secret(path+".api_key_env", r.APIKeyEnv, path+".api_key_file", r.KeyFile),
	}
	if b.Timeout == 0 {
		b.Timeout = 10 * time.Minute
	}
	if r.Driver == "" {
		c.fail(path+".driver", "", "want anthropic or openai")
	} else {
		b.Driver = c.oneOf(path+".driver", r.Driver, "anthropic", "openai")
	}
	if r.JSONMode != "" {
		c.oneOf(path+".json_mode", r.JSONMode, "schema", "tool", "object")
		if r.Driver == "anthropic" {
			c.fail(path+".json_mode", "remove it", "json_mode is for the openai driver")
		}
	}
	if r.Driver == "anthropic" && r.APIKeyEnv == "" && r.KeyFile == "" {
		c.fail(path, "set api_key_env or api_key_file", "the anthropic driver needs a key")
	}
	return b
}

func (c *checker) model(path string, r RawModel, base Model) Model {
	m := Model{Backend: or(r.Backend, base.Backend), Name: or(r.Model, base.Name), MaxOutput: r.MaxOutput}
	names := slices.Sorted(maps.Keys(c.raw.Models.Backends))
	if m.Backend == "" && len(names) == 1 {
		m.Backend = names[0]
	}
	if m.Backend == "" && len(names) > 1 {
		c.fail(path+".backend", "", "want one of %s", strings.Join(names, ", "))
	}
	if m.Backend != "" && !slices.Contains(names, m.Backend) {
		c.fail(path+".backend", strictyaml.DidYouMean(m.Backend, names), "there is no backend %q", m.Backend)
	}
	if m.MaxOutput == 0 {
		m.MaxOutput = max(base.MaxOutput, defaultMaxOutput)
	}
	if m.MaxOutput < 0 {
		c.fail(path+".max_output", "", "want a number above 0")
	}
	return m
}

// limits fills in the defaults: an issue costs at most 20 dollars unless the
// operator says otherwise, a day 100.
func (c *checker) limits() checkpoints.Limits {
	amount := func(v int64) *int64 { return &v }
	limit := func(r RawLimit, tokens, microUSD, calls *int64) checkpoints.Limit {
		return checkpoints.Limit{
			Tokens: r.Tokens.limit(1, tokens), MicroUSD: r.CostUSD.limit(1e6, microUSD), ToolCalls: r.ToolCalls.limit(1, calls),
		}
	}
	b := c.raw.Budgets
	return checkpoints.Limits{
		Run:   limit(b.Run, amount(3_000_000), amount(8e6), amount(600)),
		Issue: limit(b.Issue, amount(10_000_000), amount(20e6), amount(2000)),
		Day:   limit(b.Day, nil, amount(100e6), nil),
	}
}
