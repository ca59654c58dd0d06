package markdown

import (
	"fmt"
	"strings"
)

// Count says how many there are of a thing: "1 finding", "2 findings",
// "3 repositories", "4 branches".
func Count(n int, what string) string {
	if n != 1 {
		stem, y := strings.CutSuffix(what, "y")
		switch {
		case y:
			what = stem + "ies"
		case strings.HasSuffix(what, "ch"):
			what += "es"
		default:
			what += "s"
		}
	}
	return fmt.Sprintf("%d %s", n, what)
}
