// Package coverage maps the behaviours that the flow engine must have, one
// row each, to the tests that prove them: rows.yaml says what must happen,
// tests say in their comments which rows they cover, docs/coverage.md shows
// both. A row without a test needs a reason.
//
// It must not know the packages whose tests it reads. It may import
// internal/strictyaml.
package coverage

import (
	_ "embed"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/pipelinebot/pipelinebot/internal/strictyaml"
)

//go:embed rows.yaml
var rowsFile []byte

// Group is the rows that were learned from one source.
type Group struct {
	// ID is the letters with which the ids of its rows begin.
	ID    string `json:"id"`
	Title string `json:"title"`
	Rows  []Row  `json:"rows"`
}

// Row is one behaviour.
type Row struct {
	// ID is the group's letters and the row's number, which counts from 1.
	ID string `json:"id"`
	// Mark says how the source itself fares: C, D, S or L; "-" has none.
	Mark string `json:"mark"`
	// What names the behaviour, Must what has to happen.
	What string `json:"what"`
	Must string `json:"must"`
	// Reason says why no test can prove it, or how it is met otherwise.
	Reason string `json:"reason"`
}

// Rows reads the rows of this program.
func Rows() ([]Group, error) { return parse("internal/coverage/rows.yaml", rowsFile) }

// parse reads rows; the error lists all that is wrong.
func parse(file string, src []byte) ([]Group, error) {
	var top struct {
		Groups []Group `json:"groups"`
	}
	doc, problems := strictyaml.Decode(file, src, &top)
	for i, g := range top.Groups {
		for j, r := range g.Rows {
			at := fmt.Sprintf("groups[%d].rows[%d]", i, j)
			if want := g.ID + strconv.Itoa(j+1); r.ID != want {
				problems = append(problems, doc.Problem(at+".id", "", "the row is called %s, in this place it must be %s", r.ID, want))
			}
			if !slices.Contains([]string{"C", "D", "S", "L", "-"}, r.Mark) {
				problems = append(problems, doc.Problem(at+".mark", "", "must be C, D, S, L or -"))
			}
			if r.What == "" || r.Must == "" {
				problems = append(problems, doc.Problem(at, "", "what and must are needed"))
			}
		}
	}
	if len(problems) > 0 {
		return nil, problems
	}
	return top.Groups, nil
}

// covered reads the ids in what a comment says after "Covers:", such as
// "HF12, CN15-18."; nil when the comment says nothing of the kind.
func covered(comment string) ([]string, error) {
	_, list, ok := strings.Cut(comment, "Covers:")
	if !ok {
		return nil, nil
	}
	list, _, _ = strings.Cut(list, ".")
	var out []string
	for word := range strings.SplitSeq(list, ",") {
		word = strings.TrimSpace(word)
		first, last, isRange := strings.Cut(word, "-")
		group := strings.TrimRight(first, "0123456789")
		from, err := strconv.Atoi(strings.TrimPrefix(first, group))
		if err != nil || from < 1 || from > maxRow || len(group) != 2 || strings.ToUpper(group) != group {
			return nil, fmt.Errorf("%q is no row: write \"Covers: HF12, CN15-18.\"", word)
		}
		to := from
		if isRange {
			if to, err = strconv.Atoi(last); err != nil || to <= from || to > maxRow {
				return nil, fmt.Errorf("%q is no range of rows: write \"Covers: HF12, CN15-18.\"", word)
			}
		}
		for n := from; n <= to; n++ {
			out = append(out, group+strconv.Itoa(n))
		}
	}
	return out, nil
}

// maxRow bounds a row's number, so that a slip in a range stays small.
const maxRow = 999
