//go:build !race

package sqlite

// Raced says that the race detector makes everything about ten times as slow.
const Raced = false
