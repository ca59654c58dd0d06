package scenario

import (
	"errors"
	"strings"
	"testing"

	"github.com/pipelinebot/pipelinebot/internal/strictyaml"
)

const small = `name: Nothing happens
covers: [Labels]
world:
  repos: [{name: acme/shop, files: {README.md: hi}, roles: {maria: maintain}}]
  issues: [{author: ann, title: Broken}]
timeline:
  - {who: maria, do: {label: bug}}
expect:
  issues: [{labels: [bug]}]
  runs: [{count: 0}]
`

func TestLoad(t *testing.T) {
	t.Parallel()
	s, err := Load("a.yaml", []byte(small))
	if err != nil {
		t.Fatal(err)
	}
	if s.Timeout != defaultTimeout || s.Settle != defaultSettle || s.Timeline[0].Do.Label != "bug" {
		t.Errorf("loaded %+v", s)
	}
	if got := s.Place("expect.runs[0].count"); got != "a.yaml:10:18" {
		t.Errorf("place = %s, want a.yaml:10:18", got)
	}
}

func TestLoadRefuses(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ old, new, want string }{
		"unknown field":      {"title: Broken", "titel: Broken", `a.yaml:5:26: world.issues[0].titel: unknown key (did you mean "title"?)`},
		"unknown kind":       {"[Labels]", "[Label]", `covers[0]: "Label": want one of`},
		"no name":            {"name: Nothing happens\n", "", "name: missing"},
		"bad role":           {"maria: maintain", "maria: boss", `world.repos[0].roles.maria: "boss"`},
		"asserts nothing":    {"  issues: [{labels: [bug]}]\n  runs: [{count: 0}]\n", "  model: {}\n", "expect: the scenario asserts nothing"},
		"empty claim":        {"{labels: [bug]}", "{number: 1}", "expect.issues[0]: claims nothing"},
		"any number":         {"count: 0", `count: ">=0"`, "true of any number"},
		"bad count":          {"count: 0", "count: few", `count "few": write`},
		"two actions":        {"{label: bug}", "{label: bug, reopen: true}", "one action a step, this has label and reopen"},
		"nobody acts":        {"who: maria, ", "", "who does it?"},
		"idle step":          {"{who: maria, do: {label: bug}}", "{}", "needs an action or something to wait for"},
		"bad repository":     {"acme/shop", "shop", `"shop": want owner/name`},
		"fault without kind": {"timeline:", "faults: [{match: {path: x}}]\ntimeline:", "faults[0]: needs either kind or kill_bot"},
		"fault of no kind":   {"timeline:", "faults: [{kind: boom}]\ntimeline:", `"boom": want one of hold`},
		"bad expression":     {"timeline:", "faults: [{kind: hold, match: {path: '('}}]\ntimeline:", "faults[0].match.path: not a regular expression"},
		"silent reply":       {"timeline:", "model: {a/b: [{delay: 1s}]}\ntimeline:", "model.a/b[0]: says nothing"},
		"bad delay":          {"timeline:", "model: {a/b: [{text: x, delay: soon}]}\ntimeline:", `duration "soon"`},
		"claims of no pull":  {"  runs:", "  pulls: [{count: 0, state: open}]\n  runs:", "expect.pulls[0]: claims something"},
		"never two":          {"  runs:", "  never: [{label: a, branch: b}]\n  runs:", "exactly one of label"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			src := strings.Replace(small, c.old, c.new, 1)
			if src == small {
				t.Fatal("the case changes nothing")
			}
			_, err := Load("a.yaml", []byte(src))
			var ps strictyaml.Problems
			if !errors.As(err, &ps) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want one with %q", err, c.want)
			}
		})
	}
}

func TestLoadReportsAllAtOnce(t *testing.T) {
	t.Parallel()
	_, err := Load("a.yaml", []byte("nam: x\ncovers: [X]\nworld: {repos: 3}\n"))
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{"nam: unknown key", "name: missing", "covers[0]", "world.repos", "asserts nothing"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error lacks %q:\n%v", want, err)
		}
	}
}

func FuzzLoad(f *testing.F) {
	f.Add([]byte(small))
	f.Add([]byte("expect: {runs: [{count: '2..1'}]}\nfaults: [{match: {path: '['}}]"))
	f.Fuzz(func(t *testing.T, src []byte) {
		s, err := Load("f.yaml", src)
		if err == nil && len(Mutate(s.Expect)) == 0 {
			t.Error("a scenario that asserts nothing was accepted")
		}
	})
}
