package docs

import (
	"fmt"
	"slices"
	"strings"

	"github.com/pipelinebot/pipelinebot/flows"
)

// About is what people should know of an action and the registry does not say.
type About struct {
	// What it does, in a sentence.
	What string
	// With explains the keys of `with`; Example is one that is accepted, as
	// JSON. Both are empty for actions that take none.
	With    []Key
	Example string
	// Flow shows the action in a flow, as YAML with `nodes` and `edges`, where
	// its place is not plain; InFlow says what to look at. Both may be empty.
	Flow, InFlow string
}

// Key is one key of an action's `with`.
type Key struct{ Name, What string }

// Actions is the page docs/actions.md. Every action needs an entry of about,
// every entry an action, and a `with` is explained if and only if the action
// takes one, which accepts the example.
func Actions(reg *flows.Registry, about map[string]About) (string, error) {
	var problems []string
	bad := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	var own, phases []string
	for _, name := range reg.Names() {
		a, _ := reg.Get(name)
		entry, ok := about[name]
		switch {
		case !ok:
			bad("the action %s is not explained", name)
		case a.CheckWith == nil && (entry.Example != "" || len(entry.With) > 0):
			bad("%s takes no with, and one is explained", name)
		case a.CheckWith != nil && (entry.Example == "" || len(entry.With) == 0):
			bad("%s takes a with, which is not explained", name)
		case a.CheckWith != nil:
			if err := a.CheckWith([]byte(entry.Example)); err != nil {
				bad("%s refuses its example %s: %v", name, entry.Example, err)
			}
			for _, key := range entry.With {
				if !strings.Contains(entry.Example, `"`+key.Name+`"`) {
					bad("the example of %s lacks %s", name, key.Name)
				}
			}
		}
		if slices.Contains(a.Writes, "result") != (a.Ends != nil || len(a.Sets) > 0) {
			bad("%s writes result or does not, and the results that it declares say otherwise", name)
		}
		if ofPhase(name) {
			phases = append(phases, name)
		} else {
			own = append(own, name)
		}
	}
	for name := range about {
		if _, ok := reg.Get(name); !ok {
			bad("%s is explained and is no action", name)
		}
	}
	if len(problems) > 0 {
		slices.Sort(problems)
		return "", fmt.Errorf("writing the page of actions: %s", strings.Join(problems, "; "))
	}
	var b strings.Builder
	b.WriteString(intro)
	for _, part := range []struct {
		title, text string
		names       []string
	}{
		{"For flows of your own", ofOwn, own}, {"Of the four phases", ofPhases, phases},
	} {
		fmt.Fprintf(&b, "\n## %s\n\n%s\n", part.title, part.text)
		for _, name := range part.names {
			a, _ := reg.Get(name)
			action(&b, a, about[name])
		}
	}
	return b.String(), nil
}

const intro = `<!-- Written by the tests of internal/docs from the program's registry. -->

# Actions

What ` + "`uses:`" + ` of a [flow](flows.md) may name. An action is code of the program; a flow only says when it runs and what it is told.

- **read-only**: changes nothing but the state, so it may be a branch of a fanout, and its result may be cached.
- **not read-only**: keeps or changes something beside the state, on this machine.
- **writes outside**: comments, pushes or opens something, once, however often it is tried. Never a gate.
- **Reads** and **writes** are state fields. A flow must declare them in ` + "`state`" + `; ` + "`in`" + ` and ` + "`writes`" + ` of the node may be left out then. Where an action reads or writes *what the node says*, the node must say it.
- **Outcomes** are those beside ` + "`ok` `failed` `timeout` `budget-exhausted`" + `, which every action may have.

An action may end the flow early, for instance when the forge refuses something that no repetition mends. The results it may end with or sets must be among the values of the flow's ` + "`result`" + `, and the flow needs ` + "`stop`" + `; ` + "`flow check`" + ` says what is missing.
`

const (
	ofOwn    = "They share their state fields with the four phases, so that a flow made of them may stand in a phase's place."
	ofPhases = "The parts of the built-in flows, for flows that replace one. They read and write each other's fields; begin with the built-in flow, not with an empty file."
)

func ofPhase(name string) bool {
	return slices.ContainsFunc([]string{"triage.", "plan.", "implement.", "review."}, func(p string) bool { return strings.HasPrefix(name, p) })
}

func action(b *strings.Builder, a flows.Action, about About) {
	fmt.Fprintf(b, "\n### `%s`\n\n%s\n\n", a.Name, about.What)
	kind := "not read-only"
	switch {
	case a.Effects:
		kind = "writes outside"
	case a.ReadOnly:
		kind = "read-only"
	}
	fmt.Fprintf(b, "- version %s, %s\n- reads %s\n- writes %s\n", a.Version, kind, keys(a.Reads), keys(a.Writes))
	if len(a.Outcomes) > 0 {
		var words []string
		for _, o := range a.Outcomes {
			words = append(words, "`"+string(o)+"`")
		}
		fmt.Fprintf(b, "- outcomes %s\n", strings.Join(words, " "))
	}
	if len(a.Sets) > 0 {
		fmt.Fprintf(b, "- sets the result %s\n", "`"+strings.Join(a.Sets, "` `")+"`")
	}
	if a.Ends != nil {
		if ends := a.Ends(nil); len(ends) > 0 {
			fmt.Fprintf(b, "- may end the flow early with the result %s\n", "`"+strings.Join(ends, "` `")+"`")
		} else {
			b.WriteString("- ends the flow early\n")
		}
	}
	if len(about.With) == 0 {
		b.WriteString("- takes no `with`\n")
		return
	}
	b.WriteString("\n| `with` | what |\n|---|---|\n")
	for _, k := range about.With {
		fmt.Fprintf(b, "| `%s` | %s |\n", k.Name, k.What)
	}
	fmt.Fprintf(b, "\n```json\n%s\n```\n", about.Example)
	if about.Flow != "" {
		fmt.Fprintf(b, "\n%s\n\n```yaml\n%s```\n", about.InFlow, about.Flow)
	}
}

func keys(names []string) string {
	switch {
	case names == nil:
		return "what the node says"
	case len(names) == 0:
		return "nothing"
	}
	return "`" + strings.Join(names, "` `") + "`"
}
