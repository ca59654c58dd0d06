package scenario

import (
	"fmt"
	"regexp"
	"strconv"
)

// Count is a claim about a number, written "3", "<=3", ">=3" or "2..4".
type Count struct {
	// Min and Max bound it; nil is no bound.
	Min, Max *int
}

// anyNumber is the word of a count that claims nothing; Load refuses it.
const anyNumber = "any"

var countForm = regexp.MustCompile(`^(<=|>=)?(\d{1,9})(?:\.\.(\d{1,9}))?$`)

// UnmarshalText implements encoding.TextUnmarshaler.
func (c *Count) UnmarshalText(b []byte) error {
	if string(b) == anyNumber {
		*c = Count{}
		return nil
	}
	m := countForm.FindStringSubmatch(string(b))
	if m == nil || (m[1] != "" && m[3] != "") {
		return fmt.Errorf(`count %q: write "3", "<=3", ">=3" or "2..4"`, b)
	}
	n, err := strconv.Atoi(m[2])
	if err != nil {
		return fmt.Errorf("count %q: %w", b, err)
	}
	switch {
	case m[1] == "<=":
		*c = Count{Max: &n}
	case m[1] == ">=":
		*c = Count{Min: &n}
	case m[3] != "":
		hi, err := strconv.Atoi(m[3])
		if err != nil || hi < n {
			return fmt.Errorf("count %q: the second number is smaller", b)
		}
		*c = Count{Min: &n, Max: &hi}
	default:
		*c = Count{Min: &n, Max: &n}
	}
	return nil
}

// MarshalText implements encoding.TextMarshaler.
func (c Count) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// String is the count as written.
func (c Count) String() string {
	switch {
	case c.Min == nil && c.Max == nil:
		return anyNumber
	case c.Min == nil:
		return "<=" + strconv.Itoa(*c.Max)
	case c.Max == nil:
		return ">=" + strconv.Itoa(*c.Min)
	case *c.Min == *c.Max:
		return strconv.Itoa(*c.Min)
	}
	return fmt.Sprintf("%d..%d", *c.Min, *c.Max)
}

// Holds reports that n is within the bounds.
func (c Count) Holds(n int) bool {
	return (c.Min == nil || n >= *c.Min) && (c.Max == nil || n <= *c.Max)
}

func exactly(n int) *Count { return &Count{Min: &n, Max: &n} }

// altered are claims that no number makes true together with c.
func (c Count) altered() []Count {
	var out []Count
	if c.Max != nil {
		n := *c.Max + 1
		out = append(out, Count{Min: &n})
	}
	if c.Min != nil && *c.Min > 0 {
		n := *c.Min - 1
		out = append(out, Count{Max: &n})
	}
	return out
}
