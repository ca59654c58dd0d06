package labels

import "strings"

// Command is a comment command, `/pipeline verb argument`.
type Command struct {
	// Verb is lower case: approve, reject, deny, revise, stop, resume, retry,
	// skip, status, help.
	Verb string
	// Arg is the rest of the line, trimmed.
	Arg string
	// Rest is what the comment says below the line, trimmed.
	Rest string
}

// Note is what a command says beyond its verb.
func (c Command) Note() string { return strings.TrimSpace(c.Arg + "\n" + c.Rest) }

// verb is a known verb.
type verb struct {
	name, arg, does string
	// who may, for the document.
	who string
	do  func(m Machine, in Input, c Command) Decision
}

// verbs are the known ones, in the order in which people are told of them.
func verbs() []verb {
	return []verb{
		{"approve", "HASH", "approve the plan that shows this hash, or what else a flow waits for", "permissions.approve, or the node's approvers", approval},
		{"reject", "", "turn the plan down, or what else a flow waits for; `deny` is the same", "permissions.approve, or the node's approvers", approval},
		{"revise", "TEXT", "have the plan that waits written anew, with what the comment says", "permissions.approve", revise},
		{"stop", "", "stop all work on this issue", "permissions.stop", func(m Machine, in Input, _ Command) Decision { return stop(m, in, StopIssue) }},
		{"resume", "", "lift a stop and go on", "permissions.lift", resume},
		{"retry", "", "start the phase again that came to nothing, or wake a halted one", "that of starting the phase", retry},
		{"skip", "", "leave triage out and plan the issue as it is, or end the review as it is", "that of starting the plan, or the review", skip},
		{"status", "", "say where the issue stands, with a fresh status comment", "everybody who can read the repository", status},
		{"help", "", "list these commands", "everybody who can read the repository", helpOut},
	}
}

// doer is what carries out a verb, nil for an unknown one.
func doer(name string) func(m Machine, in Input, c Command) Decision {
	if name == "deny" {
		name = "reject"
	}
	for _, v := range verbs() {
		if v.name == name {
			return v.do
		}
	}
	return nil
}

// Verbs are the known verbs with what they do, for the help text.
func Verbs() []Command {
	var out []Command
	for _, v := range verbs() {
		arg := v.does
		if v.arg != "" {
			arg = v.arg + ": " + v.does
		}
		out = append(out, Command{Verb: v.name, Arg: arg})
	}
	return out
}

// usage is how a verb is written.
func (v verb) usage() string {
	s := "/pipeline " + v.name
	if v.arg != "" {
		s += " " + v.arg
	}
	return "`" + s + "`"
}

// ParseCommand finds the first line that begins with /pipeline. Lines inside
// code fences and quotes are text, not commands.
func ParseCommand(body string) (Command, bool) {
	fenced, at := false, 0
	for line := range strings.Lines(body) {
		at += len(line)
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
		return Command{strings.ToLower(verb), strings.TrimSpace(arg), strings.TrimSpace(body[at:])}, true
	}
	return Command{}, false
}

// help lists the verbs in one sentence.
func help() string {
	var parts []string
	for _, v := range verbs() {
		parts = append(parts, "`/pipeline "+v.name+"`")
	}
	return strings.Join(parts, ", ")
}
