package flows

import (
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Bounds of commands.
const (
	maxArgs   = 64
	maxEnv    = 64
	maxAccept = 16
)

var envForm = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,63}$`)

func (l *loader) readCommand(n *rawNode) {
	n.m.need("argv")
	n.Uses = CommandAction
	n.Argv = l.argv(n, n.m.value("argv"), "argv")
	l.readAccept(n)
	l.readEnv(n)
	l.readBounds(n, []string{"wall"})
	l.readTake(n)
}

func (l *loader) readAccept(n *rawNode) {
	items := n.m.items("accept")
	if len(items) > maxAccept {
		n.m.bad("accept", "has more than %d commands", maxAccept)
		return
	}
	for _, item := range items {
		n.Accept = append(n.Accept, l.argv(n, item, "accept"))
	}
}

// argv reads one command: a program and its arguments, each of which reaches
// it as it stands.
func (l *loader) argv(n *rawNode, list *yaml.Node, what string) []string {
	switch {
	case list == nil:
		return nil
	case list.Kind == yaml.ScalarNode && isText(list):
		l.add(at(list, n.ID), "shell-string", "write a list: [make, test]", "%s is one text, which only a shell could take apart", what)
		return nil
	case list.Kind != yaml.SequenceNode || len(list.Content) == 0 || len(list.Content) > maxArgs:
		l.add(at(list, n.ID), "bad-value", "[make, test]", "%s must be a list of 1 to %d words", what, maxArgs)
		return nil
	}
	var argv []string
	for _, item := range list.Content {
		switch {
		case item.Kind != yaml.ScalarNode || !isText(item) && item.ShortTag() != "!!int":
			l.add(at(item, n.ID), "bad-value", "quote it", "%s must be a list of texts", what)
		case strings.Contains(item.Value, "{{"):
			l.add(at(item, n.ID), "template-in-argv", "put it into env and let the program read it", "%s has a template", what)
		case len(item.Value) > maxText || strings.ContainsRune(item.Value, 0):
			l.add(at(item, n.ID), "bad-value", "", "a word of %s has more than %d bytes or a zero byte", what, maxText)
		}
		argv = append(argv, item.Value)
	}
	switch {
	case argv[0] == "":
		l.add(at(list.Content[0], n.ID), "bad-value", "", "%s names no program", what)
	case runsText(argv):
		l.add(at(list, n.ID), "shell-string", "name the program itself, or a script in the repository", "%s gives %s a text to run", what, argv[0])
	}
	return argv
}

// runsText tells that a command gives a shell a program as text.
func runsText(argv []string) bool {
	shells := []string{"sh", "bash", "dash", "zsh", "ksh", "ash", "fish", "busybox", "cmd", "powershell", "pwsh"}
	shell := -1
	for i, arg := range argv {
		base := strings.TrimSuffix(strings.ToLower(path.Base(strings.ReplaceAll(arg, `\`, "/"))), ".exe")
		switch {
		case shell < 0 && i > 0 && strings.HasPrefix(arg, "-"):
			// An option of what runs the shell, such as env -i sh -c …
		case shell < 0 && slices.Contains(shells, base):
			shell = i
		case shell >= 0 && (strings.EqualFold(arg, "/c") || strings.HasPrefix(strings.ToLower(arg), "-command")):
			return true
		case shell >= 0 && len(arg) > 1 && arg[0] == '-' && arg[1] != '-' && strings.Contains(arg, "c"):
			return true
		}
	}
	return false
}

func (l *loader) readEnv(n *rawNode) {
	if !n.m.has("env") {
		return
	}
	m, ok := l.mapping(n.m.value("env"), n.ID, "env", nil)
	if !ok {
		return
	}
	if len(m.order) > maxEnv {
		n.m.bad("env", "has more than %d names", maxEnv)
		return
	}
	n.Env = map[string]string{}
	for _, key := range m.order {
		v := m.value(key)
		switch {
		case !envForm.MatchString(key):
			l.add(at(m.key(key), n.ID), "bad-name", "letters, digits and _, no digit first", "the environment can't have the name %q", key)
			continue
		case v.Kind != yaml.ScalarNode || !isText(v) && v.ShortTag() != "!!int":
			m.bad(key, "must be a text")
			continue
		case len(v.Value) > maxText || strings.ContainsRune(v.Value, 0):
			m.bad(key, "has more than %d bytes or a zero byte", maxText)
			continue
		}
		n.Env[key] = v.Value
		n.reads = append(n.reads, l.templates(m.where(key), v.Value)...)
	}
}

// commandFields are what a command's action returns.
func commandFields() map[string]*Field {
	return map[string]*Field{OutputKey: {Key: OutputKey, Type: ArtifactField}, CodeKey: {Key: CodeKey, Type: IntField}}
}

func (l *loader) checkCommand(n *rawNode) {
	if n.action, n.known = l.reg.Get(CommandAction); !n.known {
		l.add(at(n.m.at, n.ID), "unknown-action", "register it in the program", "commands need the action %s, which this program lacks", CommandAction)
	}
	// Commands have no `in`: they see what their action reads and the flow has,
	// which is where the work stands.
	for _, key := range n.action.Reads {
		if l.flow.byKey[key] != nil {
			n.In = append(n.In, key)
		}
	}
	known := commandFields()
	for _, key := range slices.Sorted(maps.Keys(n.Take)) {
		if from := n.Take[key]; known[from] == nil && from != "" {
			l.add(n.m.where("take"), "ref-unknown", "known: "+CodeKey+", "+OutputKey, "take names %s, which a command does not have", from)
			return
		}
	}
	l.checkTaken(n, func(from string) *Field { return known[from] })
	if err := n.setWith(); err != nil {
		l.add(at(n.m.at, n.ID), "bad-value", "", "%v", err)
		return
	}
	if n.known && n.action.CheckWith != nil && len(n.Argv) > 0 {
		if err := n.action.CheckWith(n.With); err != nil {
			l.add(at(n.m.at, n.ID), "bad-with", "", "the action %s refuses the command: %v", n.Uses, err)
		}
	}
}

// setWith writes a command as its action gets it.
func (n *rawNode) setWith() error {
	with := struct {
		Argv   []string          `json:"argv"`
		Env    map[string]string `json:"env"`
		Accept [][]string        `json:"accept"`
	}{n.Argv, n.Env, n.Accept}
	if with.Env == nil {
		with.Env = map[string]string{}
	}
	if with.Accept == nil {
		with.Accept = [][]string{}
	}
	raw, err := encode(with)
	if err != nil {
		return fmt.Errorf("writing the command of node %s: %w", n.ID, err)
	}
	n.With = raw
	return nil
}
