package bench

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
)

// The lines between which Rewrite writes.
const (
	begin = "<!-- generated: make bench -->"
	end   = "<!-- end of what is generated -->"
)

// enough repetitions make a median that says something.
const enough = 3

// Markdown is the machine, the aims beside what was measured, and every
// figure.
func Markdown(r Results) string {
	var b strings.Builder
	b.WriteString("| on | |\n|---|---|\n")
	for _, key := range slices.Sorted(maps.Keys(r.About)) {
		if slices.Contains(shown(), key) {
			fmt.Fprintf(&b, "| %s | %s |\n", key, cell(r.About[key]))
		}
	}
	if n := r.Repetitions(); n < enough {
		fmt.Fprintf(&b, "\n**A quick look: repeated less than %d times. Not figures to quote.**\n", enough)
	}
	b.WriteString("\n| what | aim | measured | |\n|---|---|---|---|\n")
	for _, a := range Aims() {
		value := "–"
		if v, ok := a.Value(r); ok {
			value = number(v) + " " + a.Unit
			if a.Per != (Figure{}) {
				of, _ := r.Median(a.Of)
				per, _ := r.Median(a.Per)
				value += fmt.Sprintf(" (%s to %s %s)", number(of), number(per), a.Of.Unit)
			}
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", a.What, a.text(), value, mark(a.Met(r)))
	}
	b.WriteString("\nEvery figure: the median of the repetitions, and their least and greatest.\n\n| benchmark | median | from | to | unit | repetitions |\n|---|---|---|---|---|---|\n")
	for _, name := range r.Names() {
		units := r.Values[name]
		for _, unit := range slices.Sorted(maps.Keys(units)) {
			f := Figure{name, unit}
			v, _ := r.Median(f)
			low, high := r.Spread(f)
			fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %d |\n", cell(name), number(v), number(low), number(high), cell(unit), len(units[unit]))
		}
	}
	return b.String()
}

// shown are the keys of About that say on what it was measured.
func shown() []string {
	return []string{"command", "cpu", "date", "disk", "goos", "goarch", "go", "memory", "node", "processors", "commit", "load"}
}

func mark(met string) string {
	if met == "not met" {
		return "**not met**"
	}
	return met
}

func (a Aim) text() string {
	switch {
	case a.AtLeast != nil:
		return "≥ " + number(*a.AtLeast) + " " + a.Unit
	case a.AtMost != nil:
		return "≤ " + number(*a.AtMost) + " " + a.Unit
	default:
		return ""
	}
}

// number has three significant digits, and all digits before the point.
func number(v float64) string {
	size := math.Abs(v)
	digits := 0
	switch {
	case v == math.Trunc(v) && size < 100:
	case size < 0.1:
		return strconv.FormatFloat(v, 'g', 2, 64)
	case size < 10:
		digits = 2
	case size < 100:
		digits = 1
	}
	whole, rest, _ := strings.Cut(strconv.FormatFloat(v, 'f', digits, 64), ".")
	for i := len(whole) - 3; i > 0 && whole[i-1] != '-'; i -= 3 {
		whole = whole[:i] + "," + whole[i:]
	}
	if rest != "" {
		rest = "." + rest
	}
	return whole + rest
}

// cell keeps a text within its cell of a table.
func cell(s string) string { return strings.NewReplacer("|", "\\|", "\n", " ", "<", "&lt;").Replace(s) }

// Rewrite replaces what stands between the two marker lines of a page.
func Rewrite(page string, r Results) (string, error) {
	before, rest, ok := strings.Cut(page, begin+"\n")
	_, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		return "", errors.New("rewriting the benchmarks' page: it lacks the lines " + begin + " and " + end)
	}
	return before + begin + "\n\n" + Markdown(r) + "\n" + end + after, nil
}
