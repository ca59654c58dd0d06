// Package demo holds the story that `pipelinebot demo` plays: one scenario
// file with a small Go repository that has a genuine bug.
//
// It must not know how scenarios are played and imports only the standard
// library. Whoever plays it loads it with internal/mockworld/scenario:
//
//	name, src := demo.Scenario()
//	s, err := scenario.Load(name, src)
//	rep, err := scenario.Run(ctx, s, launcher, scenario.Options{Observe: show})
package demo

import _ "embed"

//go:embed scenario.yaml
var story []byte

// Scenario is the story's file name, for messages, and its content.
func Scenario() (name string, src []byte) { return "demo/scenario.yaml", story }
