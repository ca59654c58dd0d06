package actuators

import (
	"maps"
	"strings"
)

// Prices are prices by model name.
type Prices map[string]Price

// DefaultPrices are the vendors' list prices of 30 November 2026 for standard
// requests, cache writes at the five-minute rate. Sources:
// platform.claude.com/docs/en/about-claude/pricing and
// developers.openai.com/api/docs/pricing. A configuration overrides them with
// With.
func DefaultPrices() Prices {
	p := Prices{}
	for _, m := range []struct {
		names                        string
		input, cached, write, output float64 // US dollars a million tokens
	}{
		{"claude-fable-5-2 claude-mythos-5-2", 8, 0.20, 10, 40},
		{"claude-fable-5-1 claude-mythos-5-1", 10, 0.25, 12.50, 50},
		{"claude-fable-5 claude-mythos-5", 10, 1, 12.50, 50},
		{"claude-opus-5-5", 4, 0.20, 5, 20},
		{"claude-opus-5 claude-opus-4-8 claude-opus-4-7 claude-opus-4-6 claude-opus-4-5", 5, 0.50, 6.25, 25},
		{"claude-sonnet-5-5", 2, 0.10, 2.50, 10},
		{"claude-sonnet-5", 2, 0.20, 2.50, 10},
		{"claude-sonnet-4-6 claude-sonnet-4-5", 3, 0.30, 3.75, 15},
		{"claude-haiku-5-5", 0.10, 0.01, 0.125, 0.50},
		{"claude-haiku-4-5", 1, 0.10, 1.25, 5},
		{"gpt-6-astra", 10, 1, 12.50, 50},
		{"gpt-6.1-sol", 2, 0.10, 2.50, 10},
		{"gpt-6-sol", 2, 0.20, 2.50, 10},
		{"gpt-6-luna", 0.10, 0.01, 0.125, 0.50},
		{"gpt-5.6-sol gpt-5.6", 4, 0.40, 0, 20},
		{"gpt-5.6-terra", 2, 0.20, 0, 12},
		{"gpt-5.6-luna", 0.20, 0.02, 0, 1.20},
		{"gpt-5.5", 5, 0.50, 0, 30},
		{"gpt-5.4", 2.50, 0.25, 0, 15},
		{"gpt-5.4-mini", 0.75, 0.075, 0, 4.50},
	} {
		for name := range strings.FieldsSeq(m.names) {
			p[name] = Price{
				InputMicroUSD: micro(m.input), CachedMicroUSD: micro(m.cached),
				CacheWriteMicroUSD: micro(m.write), OutputMicroUSD: micro(m.output), Known: true,
			}
		}
	}
	// Long requests cost more as a whole.
	for name, price := range p {
		switch {
		case name == "claude-haiku-5-5":
			price.LongAbove, price.LongInputPercent, price.LongOutputPercent = 100_000, 500, 500
		case strings.HasPrefix(name, "gpt-6"), strings.HasPrefix(name, "gpt-5.6"), strings.HasPrefix(name, "gpt-5.5"), name == "gpt-5.4":
			price.LongAbove, price.LongInputPercent, price.LongOutputPercent = 272_000, 200, 150
		}
		p[name] = price
	}
	return p
}

func micro(dollars float64) int64 { return int64(dollars*1e6 + 0.5) }

// With returns the prices with others put over them.
func (p Prices) With(others Prices) Prices {
	out := maps.Clone(p)
	if out == nil {
		out = Prices{}
	}
	maps.Copy(out, others)
	return out
}

// Of is the price of a model: of its exact name, or of the name without a
// date or "latest" at its end. Another variant of a known name ("…-pro") is
// not known: it may cost ten times as much.
func (p Prices) Of(model string) Price {
	if price, ok := p[model]; ok {
		return price
	}
	for at := strings.LastIndexByte(model, '-'); at > 0; at = strings.LastIndexByte(model[:at], '-') {
		if dated(model[at+1:]) {
			if price, ok := p[model[:at]]; ok {
				return price
			}
		}
	}
	return Price{}
}

// dated reports "20251001", "2026-10-01" or "latest".
func dated(s string) bool {
	if s == "latest" {
		return true
	}
	digits := strings.ReplaceAll(s, "-", "")
	return len(digits) == 8 && strings.Trim(digits, "0123456789") == ""
}
