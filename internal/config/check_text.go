package config

import (
	"fmt"
	"os"
	"path"
	"strings"
)

// maxWorkers is far beyond what one machine can work on.
const maxWorkers = 256

func (c *checker) workers() int {
	n := c.positive("workers", c.raw.Workers, 4)
	if n > maxWorkers {
		c.fail("workers", "", "want at most %d, got %d", maxWorkers, n)
	}
	return n
}

// patterns checks globs that protect something: one that can never match
// protects nothing.
func (c *checker) patterns(at string, list []string) []string {
	for i, p := range list {
		_, err := path.Match(p, "x")
		elements := strings.Split(strings.Trim(p, "/"), "/")
		for _, e := range elements {
			if e == "" || e == "." || e == ".." {
				err = path.ErrBadPattern
			}
		}
		if err != nil {
			c.fail(fmt.Sprintf("%s[%d]", at, i), `write it like ".github/**" or "*.lock"`, "this pattern matches nothing: %q", p)
		}
	}
	return list
}

// commands checks an allow-list: an empty command would allow any. Where
// nothing is said the usual test commands are allowed; an empty list is none.
func (c *checker) commands(at string, list [][]string) [][]string {
	if list == nil {
		return [][]string{{"go", "build"}, {"go", "vet"}, {"go", "test"}, {"npm", "test"}, {"make", "test"}}
	}
	for i, argv := range list {
		if len(argv) == 0 || argv[0] == "" {
			c.fail(fmt.Sprintf("%s[%d]", at, i), "write it like [go, test]", "the command is empty")
		}
	}
	return list
}

// identity checks a part of a commit's author line.
func (c *checker) identity(at, given, fallback string) string {
	if strings.ContainsAny(given, "<>\n\r\x00") || (given != "" && strings.TrimSpace(given) == "") {
		c.fail(at, "", "git takes no empty text, line break, < or > here: %q", given)
	}
	return or(given, fallback)
}

// folder checks that a folder which is named is there.
func (c *checker) folder(at, given string) string {
	dir := c.path(given)
	if dir == "" {
		return dir
	}
	if fi, err := os.Stat(dir); err != nil || !fi.IsDir() {
		c.fail(at, "make it, or leave the key out", "there is no folder %s", dir)
	}
	return dir
}
