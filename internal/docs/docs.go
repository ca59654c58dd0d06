// Package docs keeps the pages under docs/ in step with the program: it
// writes the list of actions from the registry, and its tests load the
// examples of the guide to flows, play its scripts, and look that every key,
// code and command is explained there.
//
// It must not know how anything works. It may import flows and, in its tests,
// the program's parts that the pages are about.
package docs

import (
	"regexp"
	"strings"
)

// Fence is one block of code of a page.
type Fence struct {
	// Lang is the word behind the opening marks; Line where the text begins,
	// from 1.
	Lang string
	Line int
	Text string
}

// Section is a heading of a page with what stands below it, up to the next
// heading of its level or above.
type Section struct {
	Level int
	Title string
	Text  string
}

// Fences returns the blocks of code in order.
func Fences(page string) []Fence {
	var all []Fence
	var open *Fence
	for i, line := range strings.Split(page, "\n") {
		switch {
		case open == nil && strings.HasPrefix(line, "```"):
			open = &Fence{Lang: strings.TrimSpace(line[3:]), Line: i + 2}
		case open != nil && line == "```":
			all = append(all, *open)
			open = nil
		case open != nil:
			open.Text += line + "\n"
		}
	}
	return all
}

var heading = regexp.MustCompile(`^(#{1,6}) (.+)$`)

// Sections returns the headings in order. Lines within blocks of code are no
// headings.
func Sections(page string) []Section {
	var all []Section
	var open []int // the sections that a line belongs to
	code := false
	for line := range strings.Lines(page) {
		m := heading.FindStringSubmatch(strings.TrimRight(line, "\n"))
		if strings.HasPrefix(line, "```") {
			code = !code
		}
		if m != nil && !code {
			level := len(m[1])
			for len(open) > 0 && all[open[len(open)-1]].Level >= level {
				open = open[:len(open)-1]
			}
			all = append(all, Section{Level: level, Title: m[2]})
			open = append(open, len(all)-1)
			continue
		}
		for _, i := range open {
			all[i].Text += line
		}
	}
	return all
}

// Anchor is how a link names a heading.
func Anchor(title string) string {
	var b strings.Builder
	for _, r := range strings.ToLower(title) {
		switch {
		case r == ' ', r == '-':
			b.WriteByte('-')
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9', r == '_':
			b.WriteRune(r)
		}
	}
	return b.String()
}
