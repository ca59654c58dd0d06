package delivery

import (
	"fmt"
	"strings"

	"github.com/pipelinebot/pipelinebot/phases/gates"
	"github.com/pipelinebot/pipelinebot/phases/markdown"
	"github.com/pipelinebot/pipelinebot/phases/tree"
)

// TestTable is the chapter of a pull request that says what the bot tested, as
// Markdown; before may be zero.
func TestTable(before, after gates.Evidence) string {
	var b strings.Builder
	b.WriteString("### Tests, run by the bot\n\n")
	fmt.Fprintf(&b, "Command: %s in sandbox %s\n\n", markdown.Code(strings.Join(after.Argv, " ")), markdown.Code(after.Sandbox))
	b.WriteString("| | verdict | exit code | tests run | content |\n|---|---|---|---|---|\n")
	if before.Code != "" {
		b.WriteString(evidenceRow("before", before))
	}
	b.WriteString(evidenceRow("after", after))
	return b.String()
}

func evidenceRow(when string, e gates.Evidence) string {
	return fmt.Sprintf("| %s | %s | %d | %d | %s |\n", when, markdown.Inline(e.Reason, 200), e.ExitCode, e.TestsRun, markdown.Code(tree.Short(e.Tree)))
}

// Remarks is the chapter of a pull request that names what is worth a look;
// empty when nothing is.
func Remarks(found []gates.Finding) string {
	if len(found) == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString("\n### Worth a look\n\n")
	for _, f := range found {
		b.WriteString("- " + markdown.Inline(f.String(), 300) + "\n")
	}
	return b.String()
}
