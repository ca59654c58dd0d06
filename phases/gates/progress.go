package gates

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
)

// ProgressWindow is how many attempts in a row may pass without the failing
// set growing smaller.
const ProgressWindow = 3

// Attempt is what one attempt left behind.
type Attempt struct {
	// Tree is the id of the content; empty when there was none.
	Tree string `json:"tree"`
	// Failing names what failed: tests, or findings of CheckDiff. Empty means
	// unknown, and then says nothing about progress.
	Failing []string `json:"failing,omitempty"`
}

// Signature is a short hexadecimal name of one attempt: equal content, failing
// tests and findings, in any order, give an equal signature.
func Signature(tree string, failing, findings []string) string {
	h := sha256.New()
	write := func(part string) { fmt.Fprintf(h, "%d:%s,", len(part), part) }
	write(tree)
	for _, list := range [][]string{failing, findings} {
		list = distinct(list)
		write(fmt.Sprint(len(list)))
		for _, s := range list {
			write(s)
		}
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}

// NoProgress reports that the last attempt of history, oldest first, leads
// nowhere, and says in words what repeated: the same content as the attempt
// before, content of an earlier attempt (A-B-A), nothing that failed before
// passing now, or a failing set that did not grow smaller within
// ProgressWindow attempts. So a run that gets nowhere pays for two attempts.
func NoProgress(history []Attempt) (stuck bool, what string) {
	n := len(history)
	if n < 2 {
		return false, ""
	}
	last := history[n-1]
	if last.Tree != "" {
		for i := n - 2; i >= 0; i-- {
			if history[i].Tree != last.Tree {
				continue
			}
			if i == n-2 {
				return true, fmt.Sprintf("attempt %d left exactly the same content as attempt %d", n, n-1)
			}
			return true, fmt.Sprintf("attempt %d went back to exactly the content of attempt %d, with %s in between",
				n, i+1, plural(n-2-i, "other attempt"))
		}
	}
	before, after := distinct(history[n-2].Failing), distinct(last.Failing)
	if len(before) > 0 && !slices.ContainsFunc(before, func(f string) bool { return !slices.Contains(after, f) }) {
		return true, fmt.Sprintf("attempt %d settled nothing of what failed in attempt %d: %s still failing (%s)",
			n, n-1, plural(len(before), "item"), shortList(before, 5))
	}
	if n < ProgressWindow {
		return false, ""
	}
	window := history[n-ProgressWindow:]
	first := len(distinct(window[0].Failing))
	for _, a := range window {
		if size := len(distinct(a.Failing)); size == 0 || size < first {
			return false, ""
		}
	}
	return true, fmt.Sprintf("the last %d attempts did not make the failing set smaller: %s still failing (%s)",
		ProgressWindow, plural(len(distinct(last.Failing)), "item"), shortList(distinct(last.Failing), 5))
}

func distinct(list []string) []string {
	out := slices.Clone(list)
	slices.Sort(out)
	return slices.Compact(out)
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

func shortList(list []string, most int) string {
	if len(list) <= most {
		return strings.Join(list, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(list[:most], ", "), len(list)-most)
}
