package labels

import "strings"

// Command is a comment command, `/pipeline verb argument`.
type Command struct {
	// Verb is lower case: approve, reject, deny, stop, resume.
	Verb string
	// Arg is the rest of the line, trimmed.
	Arg string
}

// Verbs are the known verbs with what they do, for the help text.
func Verbs() []Command {
	return []Command{
		{"approve", "HASH: approve the plan that shows this hash, or what else a flow waits for"},
		{"reject", "reject the plan, or what else a flow waits for; deny is the same"},
		{"stop", "stop all work on this issue"},
		{"resume", "lift a stop and go on"},
	}
}

// ParseCommand finds the first line that begins with /pipeline. Lines inside
// code fences and quotes are text, not commands.
func ParseCommand(body string) (Command, bool) {
	fenced := false
	for line := range strings.Lines(body) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "```") || strings.HasPrefix(line, "~~~") {
			fenced = !fenced
			continue
		}
		rest, ok := strings.CutPrefix(line, "/pipeline")
		if fenced || !ok || (rest != "" && rest[0] != ' ' && rest[0] != '\t') {
			continue
		}
		verb, arg, _ := strings.Cut(strings.TrimSpace(rest), " ")
		return Command{strings.ToLower(verb), strings.TrimSpace(arg)}, true
	}
	return Command{}, false
}

// help lists the verbs in one sentence.
func help() string {
	var parts []string
	for _, v := range Verbs() {
		parts = append(parts, "`/pipeline "+v.Verb+"`")
	}
	return strings.Join(parts, ", ")
}
