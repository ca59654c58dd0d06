// Package bench measures the engine over the real store, beside what the
// database's driver can do at most and beside another engine of its kind, and
// writes the figures into docs/benchmarks.md. The benchmarks are its tests;
// the package itself only reads their output and makes the table.
//
// It imports only the standard library; its tests import what they measure.
package bench

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Results is what a run of the benchmarks printed.
type Results struct {
	// About is the lines "key: value" that stand between the figures, such as
	// cpu; of a key that comes twice the last.
	About map[string]string
	// Values are the figures by benchmark, without "Benchmark" and the number
	// of processors, and by unit, one a repetition. Those of other packages
	// have the package before them: "flows/engine.Node".
	Values map[string]map[string][]float64
}

// Parse reads the output of `go test -bench`, of several packages and with
// repetitions. Lines that are no result are passed over; a result with a
// number that can't be read is an error.
func Parse(r io.Reader) (Results, error) {
	res := Results{About: map[string]string{}, Values: map[string]map[string][]float64{}}
	lines := bufio.NewScanner(r)
	pkg := ""
	for n := 1; lines.Scan(); n++ {
		line := lines.Text()
		fields := strings.Fields(line)
		if len(fields) >= 4 && strings.HasPrefix(line, "Benchmark") {
			if err := res.add(pkg, fields); err != nil {
				return res, fmt.Errorf("line %d of the results: %w", n, err)
			}
			continue
		}
		if key, value, ok := strings.Cut(line, ": "); ok && key != "" && !strings.ContainsAny(key, " \t/") {
			res.About[key] = strings.TrimSpace(value)
			if key == "pkg" {
				pkg = prefix(value)
			}
		}
	}
	if err := lines.Err(); err != nil {
		return res, fmt.Errorf("reading the results: %w", err)
	}
	return res, nil
}

// prefix is what stands before the names of a package's benchmarks.
func prefix(pkg string) string {
	_, within, _ := strings.Cut(pkg, "/pipelinebot/pipelinebot/")
	if within == "internal/bench" || within == "" {
		return ""
	}
	return within + "."
}

// add reads a result: name, repetitions, then pairs of value and unit.
func (r Results) add(pkg string, fields []string) error {
	name := pkg + strings.TrimPrefix(fields[0], "Benchmark")
	if i := strings.LastIndexByte(name, '-'); i > len(pkg) {
		if _, err := strconv.Atoi(name[i+1:]); err == nil {
			name = name[:i]
		}
	}
	if len(fields)%2 != 0 {
		return fmt.Errorf("%s: a value has no unit", name)
	}
	units := r.Values[name]
	if units == nil {
		units = map[string][]float64{}
		r.Values[name] = units
	}
	for i := 2; i < len(fields); i += 2 {
		v, err := strconv.ParseFloat(fields[i], 64)
		if err != nil {
			return fmt.Errorf("%s: %q is no number", name, fields[i])
		}
		units[fields[i+1]] = append(units[fields[i+1]], v)
	}
	return nil
}

// Names are all benchmarks, sorted.
func (r Results) Names() []string { return slices.Sorted(maps.Keys(r.Values)) }

// Median is the middle of the repetitions of one figure; ok is false when it
// was not measured.
func (r Results) Median(f Figure) (v float64, ok bool) {
	all := slices.Sorted(slices.Values(r.Values[f.Name][f.Unit]))
	switch n := len(all); {
	case n == 0:
		return 0, false
	case n%2 == 1:
		return all[n/2], true
	default:
		return (all[n/2-1] + all[n/2]) / 2, true
	}
}

// Spread is the least and the greatest repetition of a figure.
func (r Results) Spread(f Figure) (low, high float64) {
	all := r.Values[f.Name][f.Unit]
	if len(all) == 0 {
		return 0, 0
	}
	return slices.Min(all), slices.Max(all)
}

// Repetitions is how often the benchmark was repeated that was repeated least.
func (r Results) Repetitions() int {
	least := 0
	for _, units := range r.Values {
		for _, all := range units {
			if least == 0 || len(all) < least {
				least = len(all)
			}
		}
	}
	return least
}

// Figure is one unit of one benchmark.
type Figure struct{ Name, Unit string }
