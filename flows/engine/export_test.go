package engine

// Bounds that tests step over.
const (
	Grace         = grace
	MaxParks      = maxParks
	Longest       = longest
	MaxPassedOver = maxPassedOver
)

// Asked is what a visit keeps that asks for effects by these names.
func Asked(names ...string) []string {
	var c call
	for _, name := range names {
		c.ask(name)
	}
	return c.effects
}
