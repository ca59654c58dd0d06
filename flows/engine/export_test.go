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
	var e effects
	for _, name := range names {
		e.ask(name)
	}
	return e.names
}
