//go:build race

package engine_test

// propRace says that the race detector makes everything much slower.
const propRace = true
