package flows

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"
)

// emptyList stands for a list without items in a text that is read: nothing at
// all would read like a slip.
const emptyList = "(none)"

// inserted is a value as it stands in a text. A list keeps its items, so that it
// can be shortened between two of them.
type inserted struct {
	text  string
	list  bool
	items []string
	// dropped is how many items, from the end, are only counted.
	dropped int
}

func insertedOf(raw json.RawMessage) inserted {
	var items []json.RawMessage
	if len(raw) == 0 || raw[0] != '[' || json.Unmarshal(raw, &items) != nil {
		return inserted{text: scalarText(raw)}
	}
	v := inserted{list: true, items: make([]string, len(items))}
	for i, item := range items {
		v.items[i] = scalarText(item)
	}
	return v
}

func scalarText(raw json.RawMessage) string {
	if t, ok := text(raw); ok {
		return t
	}
	return string(raw)
}

// String is the text; a list's items have commas between.
func (v inserted) String() string {
	if !v.list {
		return v.text
	}
	shown := strings.Join(v.items[:len(v.items)-v.dropped], ", ")
	switch {
	case v.dropped == 0:
		return shown
	case shown == "":
		return fmt.Sprintf("%d items", v.dropped)
	}
	return fmt.Sprintf("%s … and %d more", shown, v.dropped)
}

// joined is the whole text, with empty for a list without items.
func joined(parts []inserted, empty string) string {
	if len(parts) == 1 {
		return parts[0].text
	}
	var b strings.Builder
	for _, p := range parts {
		if p.list && len(p.items) == 0 {
			b.WriteString(empty)
			continue
		}
		b.WriteString(p.String())
	}
	return b.String()
}

// shorten drops items of lists until the whole has at most that many letters,
// or no list has any left.
func shorten(parts []inserted, most int) {
	sizes, whole := make([]int, len(parts)), 0
	for i, p := range parts {
		sizes[i] = utf8.RuneCountInString(p.String())
		if p.list && len(p.items) == 0 {
			sizes[i] = len(emptyList)
		}
		whole += sizes[i]
	}
	for whole > most {
		longest := -1
		for i, p := range parts {
			if p.list && p.dropped < len(p.items) && (longest < 0 || sizes[i] > sizes[longest]) {
				longest = i
			}
		}
		if longest < 0 {
			return
		}
		// While far too long, many at once, so that a long list costs little.
		p := &parts[longest]
		p.dropped++
		if over := whole - most; over > 256 {
			for freed := 0; freed < over-256 && p.dropped < len(p.items); p.dropped++ {
				freed += utf8.RuneCountInString(p.items[len(p.items)-p.dropped-1]) + 2
			}
		}
		size := utf8.RuneCountInString(p.String())
		whole += size - sizes[longest]
		sizes[longest] = size
	}
}
