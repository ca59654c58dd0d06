package app

import (
	"fmt"
	"os"

	"github.com/pipelinebot/pipelinebot/flows"
	"github.com/pipelinebot/pipelinebot/labels"
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

// BuiltInSource is what the source of the built-in flows is called in a catalog.
const BuiltInSource = "built in"

// BuiltIn is the text of the built-in flows by the name of their file.
func BuiltIn() map[string][]byte {
	all := map[string][]byte{}
	for _, source := range []func() (string, []byte){
		triage.FlowSource, plan.FlowSource, implement.FlowSource, review.FlowSource,
	} {
		name, src := source()
		all[name] = src
	}
	return all
}

// Catalog is the built-in flows and those of the user's folder ("" for none),
// which win over built-in ones of the same name.
func Catalog(reg *flows.Registry, dir string) (*flows.Catalog, error) {
	builtin, phases := BuiltIn(), map[string][]string{}
	for name, src := range builtin {
		f, problems := flows.Load(name, src, reg)
		if err := problems.Err(); err != nil {
			return nil, fmt.Errorf("reading the built-in flow %s: %w", name, err)
		}
		// What a phase's own flow may end with is what the pipeline knows to go
		// on from.
		result, _ := f.Field("result")
		phases[f.Phase()] = result.Values
	}
	sources := []flows.Source{{Name: BuiltInSource, Files: builtin}}
	if dir != "" {
		if _, err := os.Stat(dir); err != nil {
			return nil, fmt.Errorf("reading flows_dir: %w", err)
		}
		sources = append(sources, flows.Source{Name: dir, FS: os.DirFS(dir)})
	}
	return flows.NewCatalogWith(flows.LoadOptions{Registry: reg, Phases: phases}, sources...)
}

// CheckFlows tells why the flow of a phase can't be used: the daemon does not
// start with it. A broken flow of the user's own must not wait for the first
// label.
func CheckFlows(dir string) error {
	reg, err := Registry()
	if err != nil {
		return err
	}
	c, err := Catalog(reg, dir)
	if err != nil {
		return err
	}
	return usable(c)
}

func usable(c *flows.Catalog) error {
	for _, p := range labels.Phases() {
		if _, err := c.Get(string(p)); err != nil {
			return fmt.Errorf("the flow of the %s phase cannot be used: %w", p, err)
		}
	}
	return nil
}

// phaseFlows finds the flow of a phase: the winning one of the phase's name.
type phaseFlows struct{ catalog *flows.Catalog }

func (p phaseFlows) ForPhase(phase string) (*flows.Flow, error) { return p.catalog.Get(phase) }
