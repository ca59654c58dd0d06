package flows

import (
	"fmt"
	"maps"
	"slices"
)

// Registry holds the actions that flows may name. The zero value is empty and
// ready; it is filled at start-up and then only read.
type Registry struct{ actions map[string]Action }

// Add registers actions; a duplicate or incomplete one is an error.
func (r *Registry) Add(actions ...Action) error {
	if r.actions == nil {
		r.actions = map[string]Action{}
	}
	for _, a := range actions {
		if a.Name == "" || a.Version == "" || a.Run == nil {
			return fmt.Errorf("registering action %q: name, version and function are required", a.Name)
		}
		if _, dup := r.actions[a.Name]; dup {
			return fmt.Errorf("registering action %s: registered already", a.Name)
		}
		r.actions[a.Name] = a
	}
	return nil
}

// Get returns an action by name.
func (r *Registry) Get(name string) (Action, bool) {
	a, ok := r.actions[name]
	return a, ok
}

// Names are all names, sorted.
func (r *Registry) Names() []string { return slices.Sorted(maps.Keys(r.actions)) }
