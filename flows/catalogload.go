package flows

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// catalogLoader loads the entries, children first.
type catalogLoader struct {
	*Catalog
	winner map[string]int
	twice  map[int]string // the file that has the name of an entry already
	path   []string       // the flows that are being loaded, from the outermost
}

func (c *catalogLoader) load() {
	c.winner, c.twice = map[string]int{}, map[int]string{}
	type place struct {
		source int
		name   string
	}
	first := map[place]string{}
	for i, e := range c.entries {
		c.winner[e.Name] = i
		at := place{e.source, e.Name}
		if file, dup := first[at]; dup {
			c.twice[i] = file
		} else {
			first[at] = e.File
		}
	}
	for i := range c.entries {
		c.entry(i)
	}
	for _, i := range c.winner {
		c.entries[i].Wins = true
	}
	c.notePhases()
}

// entry loads one entry, and before it what its subflows name.
func (c *catalogLoader) entry(i int) {
	e := &c.entries[i]
	if e.state != 0 {
		return
	}
	e.state = 1
	c.path = append(c.path, e.Name)
	f, problems := LoadWith(e.File, e.src, LoadOptions{
		Registry: c.options.Registry, Phases: c.options.Phases, Child: c.child, Names: slices.Sorted(maps.Keys(c.winner)),
	})
	c.path = c.path[:len(c.path)-1]
	e.state, e.src = 2, nil
	if file, dup := c.twice[i]; dup {
		problems = append(problems, Problem{
			Code: "duplicate-id", File: e.File, Line: 1, Column: 1,
			Msg: fmt.Sprintf("%s of the same folder is called %s, too: neither of the two runs", file, e.Name), Hint: "give one of them another name",
		})
	}
	if len(problems) > 0 {
		e.Problems = problems
		return
	}
	e.Hash, e.Version, e.Phase, e.flow = f.Hash(), f.Version(), f.Phase(), f
	e.Notes = append(noteResults(f, c.options.Phases), Notes(f)...)
}

func (c *catalogLoader) child(name string) (*Flow, error) {
	i, ok := c.winner[name]
	if !ok {
		return nil, ErrNoFlow
	}
	if c.entries[i].state == 1 || slices.Contains(c.path, name) {
		return nil, fmt.Errorf("%w: %s → %s", ErrRecursion, strings.Join(c.path, " → "), name)
	}
	c.entry(i)
	e := &c.entries[i]
	if hidden := c.hidden(*e); e.flow != nil && hidden != nil {
		return nil, hidden
	}
	for _, p := range e.Problems {
		if p.Code == "subflow-recursion" {
			return nil, fmt.Errorf("%w: %s", ErrRecursion, p.Msg)
		}
	}
	if e.flow == nil {
		return nil, e.Problems
	}
	return e.flow, nil
}

// notePhases tells of flows beside the one that is called as their phase: the
// phase's label starts that one only. Flows that merely share a phase, or that
// another one starts, are meant so.
func (c *catalogLoader) notePhases() {
	type place struct {
		source int
		phase  string
	}
	of, started := map[place][]string{}, map[string]bool{}
	for _, e := range c.entries {
		if e.flow == nil {
			continue
		}
		at := place{e.source, e.Phase}
		of[at] = append(of[at], e.Name)
		for _, child := range e.flow.Children() {
			started[child] = true
		}
	}
	for i := range c.entries {
		e := &c.entries[i]
		all := of[place{e.source, e.Phase}]
		if e.flow == nil || e.Name == e.Phase || started[e.Name] || !slices.Contains(all, e.Phase) {
			continue
		}
		others := slices.DeleteFunc(slices.Clone(all), func(name string) bool { return name == e.Name })
		are := "is"
		if len(others) > 1 {
			are = "are"
		}
		e.Notes = append(e.Notes, fmt.Sprintf("of phase %s, as %s %s: its label starts the flow that is called %s", e.Phase, are, strings.Join(others, ", "), e.Phase))
	}
}
