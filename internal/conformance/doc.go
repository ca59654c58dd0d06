// Package conformance holds internal/mockworld against what others made: the
// descriptions that GitHub publishes of its API and of its webhooks, and the
// clients Octokit, gh and git. It has no code of its own besides its tests.
//
// The descriptions and Octokit come from npm, are installed into a temporary
// folder and never committed. Without npm the tests say so and are skipped;
// CI has it.
package conformance
