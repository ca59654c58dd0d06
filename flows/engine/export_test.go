package engine

// Bounds that tests step over.
const (
	Grace    = grace
	MaxParks = maxParks
	Longest  = longest
)
