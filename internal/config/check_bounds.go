package config

import (
	"time"

	"github.com/pipelinebot/pipelinebot/checkpoints"
)

func (c *checker) breaker() Breaker {
	r := c.raw.Breaker
	b := Breaker{
		Window: r.Window, Starts: c.positive("breaker.starts", r.Starts, 5), Comments: c.positive("breaker.comments", r.Comments, 10),
	}
	if b.Window == 0 {
		b.Window = time.Hour
	}
	if b.Window < 0 {
		c.fail("breaker.window", "", "want a time above 0, got %s", b.Window)
	}
	return b
}

func (c *checker) outsiders() Outsiders {
	r := c.raw.Phases.Triage.Outsiders
	tokens, money, calls := int64(60_000), int64(200_000), int64(10)
	b := r.Budget
	return Outsiders{
		Enabled: r.Enabled, PerDay: c.positive("phases.triage.outsiders.per_day", r.PerDay, 20),
		Budget: checkpoints.Limit{
			Tokens: b.Tokens.limit(1, &tokens), MicroUSD: b.CostUSD.limit(1e6, &money), ToolCalls: b.ToolCalls.limit(1, &calls),
		},
	}
}
