package gates

import (
	"path"
	"strings"
)

// Match reports that name, a slash-separated path, matches the glob pattern.
// "*", "?" and "[…]" stay inside a path element as in path.Match, an element
// "**" stands for any number of elements, a leading "/" anchors, a trailing
// "/" means everything below, and a pattern without any other slash matches at
// any depth. A malformed pattern matches only its own text.
func Match(pattern, name string) bool {
	anchored := strings.HasPrefix(pattern, "/")
	pattern = strings.TrimPrefix(pattern, "/")
	if strings.HasSuffix(pattern, "/") {
		pattern += "**"
	}
	if pattern == name {
		return true
	}
	if !anchored && !strings.Contains(strings.TrimSuffix(pattern, "/**"), "/") {
		pattern = "**/" + pattern
	}
	return matchElements(strings.Split(pattern, "/"), strings.Split(name, "/"))
}

// matchElements walks both lists, coming back to the last "**" on a mismatch,
// so that its cost is bounded by the product of the lengths.
func matchElements(pattern, name []string) bool {
	p, n := 0, 0
	backP, backN := -1, -1
	for n < len(name) {
		switch {
		case p < len(pattern) && pattern[p] == "**":
			backP, backN = p, n
			p++
			// A final "**" needs at least one element: "a/**" is not "a".
			if p == len(pattern) {
				return true
			}
		case p < len(pattern) && matchElement(pattern[p], name[n]):
			p++
			n++
		case backP >= 0:
			backN++
			p, n = backP+1, backN
		default:
			return false
		}
	}
	return p == len(pattern)
}

func matchElement(pattern, name string) bool {
	ok, err := path.Match(pattern, name)
	return pattern == name || (err == nil && ok)
}
