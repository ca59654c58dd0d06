//go:build race

package conformance_test

import "testing"

// What goes over the wire is the same with the race detector, which makes the
// worlds several times slower; .ci/run validates it without.
func TestAsGitHubDescribes(t *testing.T) { t.Skip("run without -race") }
