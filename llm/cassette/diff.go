package cassette

import (
	"fmt"
	"strings"
)

const (
	// maxDiffLines bounds the lines compared of each side, maxShown those
	// shown, around the unchanged lines kept beside a change.
	maxDiffLines = 2000
	maxShown     = 80
	around       = 2
)

// similar is the share of lines in common, 0 to 1.
func similar(a, b []string) float64 {
	count := map[string]int{}
	for _, l := range a {
		count[l]++
	}
	both := 0
	for _, l := range b {
		if count[l] > 0 {
			count[l]--
			both++
		}
	}
	return 2 * float64(both) / float64(max(len(a)+len(b), 1))
}

// diff shows how to get from a to b, line by line: "-" only in a, "+" only in
// b, with a few lines around.
func diff(a, b []string) string {
	all := edits(clipLines(a), clipLines(b))
	keep := make([]bool, len(all))
	for i, l := range all {
		if l[0] != ' ' {
			for j := max(i-around, 0); j <= min(i+around, len(all)-1); j++ {
				keep[j] = true
			}
		}
	}
	var out strings.Builder
	shown, gap := 0, false
	for i, l := range all {
		if !keep[i] {
			gap = true
			continue
		}
		if gap && shown > 0 {
			out.WriteString("  ...\n")
		}
		gap = false
		if shown++; shown > maxShown {
			fmt.Fprintf(&out, "  ... (cut at %d lines)\n", maxShown)
			break
		}
		out.WriteString(l + "\n")
	}
	return out.String()
}

func clipLines(lines []string) []string {
	if len(lines) > maxDiffLines {
		return lines[:maxDiffLines]
	}
	return lines
}

// edits aligns two lists by their longest common subsequence.
func edits(a, b []string) []string {
	var out []string
	for len(a) > 0 && len(b) > 0 && a[0] == b[0] {
		out = append(out, "  "+a[0])
		a, b = a[1:], b[1:]
	}
	var tail []string
	for len(a) > 0 && len(b) > 0 && a[len(a)-1] == b[len(b)-1] {
		tail = append(tail, "  "+a[len(a)-1])
		a, b = a[:len(a)-1], b[:len(b)-1]
	}
	// best[i][j] is the length of what a[i:] and b[j:] have in common.
	best := make([][]int32, len(a)+1)
	for i := range best {
		best[i] = make([]int32, len(b)+1)
	}
	for i := len(a) - 1; i >= 0; i-- {
		for j := len(b) - 1; j >= 0; j-- {
			if a[i] == b[j] {
				best[i][j] = best[i+1][j+1] + 1
			} else {
				best[i][j] = max(best[i+1][j], best[i][j+1])
			}
		}
	}
	i, j := 0, 0
	for i < len(a) || j < len(b) {
		switch {
		case i < len(a) && j < len(b) && a[i] == b[j]:
			out = append(out, "  "+a[i])
			i, j = i+1, j+1
		case j == len(b) || (i < len(a) && best[i+1][j] >= best[i][j+1]):
			out = append(out, "- "+a[i])
			i++
		default:
			out = append(out, "+ "+b[j])
			j++
		}
	}
	for k := len(tail) - 1; k >= 0; k-- {
		out = append(out, tail[k])
	}
	return out
}
