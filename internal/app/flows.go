package app

import (
	"fmt"
	"os"

	"github.com/pipelinebot/pipelinebot/flows"
	"github.com/pipelinebot/pipelinebot/phases/agent"
	"github.com/pipelinebot/pipelinebot/phases/implement"
	"github.com/pipelinebot/pipelinebot/phases/plan"
	"github.com/pipelinebot/pipelinebot/phases/review"
	"github.com/pipelinebot/pipelinebot/phases/triage"
)

// deps are the dependencies of all phases.
type deps struct {
	triage    triage.Deps
	plan      plan.Deps
	implement implement.Deps
	review    review.Deps
	agent     agent.Deps
}

// registry holds the actions of all phases, and those for flows of users' own.
func registry(d deps) (*flows.Registry, error) {
	reg := &flows.Registry{}
	for _, actions := range [][]flows.Action{
		triage.Actions(d.triage), plan.Actions(d.plan), implement.Actions(d.implement), review.Actions(d.review),
		agent.Actions(d.agent),
	} {
		if err := reg.Add(actions...); err != nil {
			return nil, err
		}
	}
	return reg, nil
}

// Registry holds every action by name, for checking and drawing flows; its
// actions cannot run.
func Registry() (*flows.Registry, error) { return registry(deps{}) }

// Catalog is the built-in flows and those of the user's folder ("" for none),
// which win over built-in ones of the same name.
func Catalog(reg *flows.Registry, dir string) (*flows.Catalog, error) {
	builtin := map[string][]byte{}
	for _, source := range []func() (string, []byte){
		triage.FlowSource, plan.FlowSource, implement.FlowSource, review.FlowSource,
	} {
		name, src := source()
		builtin[name] = src
	}
	sources := []flows.Source{{Name: "built in", Files: builtin}}
	if dir != "" {
		if _, err := os.Stat(dir); err != nil {
			return nil, fmt.Errorf("reading flows_dir: %w", err)
		}
		sources = append(sources, flows.Source{Name: dir, FS: os.DirFS(dir)})
	}
	return flows.NewCatalog(reg, sources...)
}

// phaseFlows finds the flow of a phase: the winning one of the phase's name.
type phaseFlows struct{ catalog *flows.Catalog }

func (p phaseFlows) ForPhase(phase string) (*flows.Flow, error) { return p.catalog.Get(phase) }
