package flows

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// checkPhase wants a known phase, and of the flow that a phase runs that it is
// of that phase and has no results which the phase does not know.
func (l *loader) checkPhase() {
	if l.opts.frozen || l.opts.Phases == nil || l.flow.phase == "" {
		return
	}
	phases := slices.Sorted(maps.Keys(l.opts.Phases))
	known, ok := l.opts.Phases[l.flow.phase]
	results, replaces := l.opts.Phases[l.flow.name]
	switch {
	case !ok:
		l.add(l.top.where("phase"), "phase-unknown", didYouMean(l.flow.phase, phases), "no phase is called %s", l.flow.phase)
		return
	case !replaces || l.inline != nil:
		return
	case l.flow.phase != l.flow.name:
		l.add(l.top.where("phase"), "phase-mismatch", "phase: "+l.flow.name+", or another name",
			"the flow %s is the one that the phase %s runs, and says that it is of the phase %s", l.flow.name, l.flow.name, l.flow.phase)
		known = results
	}
	known = slices.DeleteFunc(slices.Clone(known), func(v string) bool { return v == noResult })
	f, state := l.flow.byKey[resultKey], mapping{reader: l.reader, at: l.top.valueOr("state")}
	if f == nil {
		return
	}
	for i, v := range f.Values {
		if v != noResult && !slices.Contains(known, v) {
			l.add(state.inside(resultKey, "values", fmt.Sprint(i)), "result-unknown", didYouMean(v, known),
				"the phase %s knows no result %s, so nothing would say which label comes next", l.flow.name, v)
		}
	}
}

// Notes are what the author of a flow may not have meant, for people.
func Notes(f *Flow) []string {
	var notes []string
	for _, n := range f.nodes {
		if n.Kind == Command && !slices.ContainsFunc(f.out[n.ID], func(e *Edge) bool { return e.Takes(Failed) }) {
			notes = append(notes, fmt.Sprintf("the command %s has no edge on failed: an exit code other than 0 ends the run with an error", n.ID))
		}
	}
	return notes
}

// noteResults tells of results with which the phase's flow may end and the one
// in its place never does.
func noteResults(f *Flow, phases map[string][]string) []string {
	result, ok := f.Field(resultKey)
	if !ok || phases[f.name] == nil {
		return nil
	}
	lacks := slices.DeleteFunc(slices.Clone(phases[f.name]), func(v string) bool { return slices.Contains(result.Values, v) })
	if len(lacks) == 0 {
		return nil
	}
	return []string{fmt.Sprintf("it never ends with %s, which the phase %s knows", strings.Join(lacks, ", "), f.name)}
}
