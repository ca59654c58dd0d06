package coverage

import (
	"fmt"
	"slices"
	"strings"
)

// biting is how the names of tests begin that refuse a wrong double.
const biting = "TestWrong"

// Problems are the reasons why rows and tests don't fit: a row that nothing
// proves, a row marked D without a test that is shown to bite, a test that
// names a row which does not exist.
func Problems(groups []Group, tests []Test) []string {
	var problems []string
	known := map[string]bool{}
	by := byRow(tests)
	for _, g := range groups {
		for _, r := range g.Rows {
			known[r.ID] = true
			switch {
			case r.Reason != "":
			case len(by[r.ID]) == 0:
				problems = append(problems, fmt.Sprintf(
					"row %s (%s) has no test: write \"Covers: %s.\" above one that proves it, or a reason into rows.yaml", r.ID, r.What, r.ID))
			case r.Mark == "D" && !slices.ContainsFunc(by[r.ID], func(t Test) bool { return strings.Contains(t.Name, "."+biting) }):
				problems = append(problems, fmt.Sprintf(
					"row %s (%s) has no test that refuses a wrong double: write a %s… that covers it", r.ID, r.What, biting))
			}
		}
	}
	for _, t := range tests {
		for _, id := range t.Rows {
			if !known[id] {
				problems = append(problems, fmt.Sprintf("%s:%d: %s covers %s, which is no row", t.File, t.Line, t.Name, id))
			}
		}
	}
	return problems
}

func byRow(tests []Test) map[string][]Test {
	by := map[string][]Test{}
	for _, t := range tests {
		for _, id := range slices.Compact(slices.Sorted(slices.Values(t.Rows))) {
			by[id] = append(by[id], t)
		}
	}
	for _, ts := range by {
		slices.SortFunc(ts, func(a, b Test) int { return strings.Compare(a.Name, b.Name) })
	}
	return by
}

// header is the text above the tables.
const header = `# What the flow engine must do, and which test proves it

This page is made from internal/coverage/rows.yaml and from what the tests say in their comments ("Covers: HF12."). ` + "`make generate`" + ` rewrites it; CI fails when it is stale, when a row has neither a test nor a reason, and when a test names a row that does not exist.

The rows were learned from five flow systems that people run, and from what users of such systems ask for. The mark says how the system itself fares from which a row comes: **C** its code does what its document says, **D** its code does not, **S** only its document is known, **L** it calls the row later work. The rows marked D have tests that are shown to bite: a double that does it wrongly is refused by the same check (flows/engine/wrong_*_test.go).
`

// Markdown is docs/coverage.md.
func Markdown(groups []Group, tests []Test) string {
	var b strings.Builder
	b.WriteString(header)
	by := byRow(tests)
	rows, proved := 0, 0
	for _, g := range groups {
		for _, r := range g.Rows {
			rows++
			if len(by[r.ID]) > 0 {
				proved++
			}
		}
	}
	fmt.Fprintf(&b, "\n%d rows, %d with tests, %d with a reason instead.\n", rows, proved, rows-proved)
	for _, g := range groups {
		fmt.Fprintf(&b, "\n## %s: %s\n\n| row | behaviour | must | mark | tests |\n|---|---|---|---|---|\n", g.ID, g.Title)
		for _, r := range g.Rows {
			fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", r.ID, cell(r.What), cell(r.Must), r.Mark, proof(r, by[r.ID]))
		}
	}
	return b.String()
}

// proof is the last cell of a row.
func proof(r Row, tests []Test) string {
	var parts []string
	for _, t := range tests {
		parts = append(parts, fmt.Sprintf("[%s](../%s)", cell(t.Name), t.File))
	}
	if r.Reason != "" {
		parts = append(parts, "*"+cell(r.Reason)+"*")
	}
	return strings.Join(parts, "<br>")
}

// cell keeps a text within a cell of a table.
func cell(s string) string {
	return strings.NewReplacer("|", `\|`, "\n", " ", "<", "&lt;").Replace(s)
}
