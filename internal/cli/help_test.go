package cli

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// What a command says of itself fits a terminal; the library wraps nothing.
func TestHelpFitsATerminal(t *testing.T) {
	t.Parallel()
	const wide = 80
	commands := 0
	var walk func(*cobra.Command)
	walk = func(c *cobra.Command) {
		commands++
		for line := range strings.Lines(c.Long) {
			if n := len(strings.TrimSpace(line)); n > wide {
				t.Errorf("%s --help has a line of %d: %s", c.CommandPath(), n, line)
			}
		}
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk((&shell{}).root())
	if commands < 30 {
		t.Errorf("only %d commands: the walk is broken", commands)
	}
}
