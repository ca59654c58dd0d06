package flows

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func mustState(t testing.TB, values map[string]any) State {
	t.Helper()
	s, err := StateOf(values)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func compileGuard(src string, scope guardScope) (*Guard, []guardProblem) {
	return newGuards().compile(src, scope)
}

func guardFields() guardScope {
	return guardScope{event: true, nodes: []string{"a", "build"}, fields: map[string]*Field{
		"n":     {Key: "n", Type: IntField},
		"late":  {Key: "late", Type: StringField, MaxLen: 100},
		"kind":  {Key: "kind", Type: EnumField, Values: []string{"bug", "feature"}},
		"flag":  {Key: "flag", Type: BoolField},
		"tags":  {Key: "tags", Type: ListField, Of: StringField},
		"nums":  {Key: "nums", Type: ListField, Of: IntField},
		"patch": {Key: "patch", Type: ArtifactField},
		"facts": {Key: "facts", Type: ObjectField},
	}}
}

// Covers: CN10, HF16.
func TestGuardEval(t *testing.T) {
	t.Parallel()
	env := GuardEnv{
		State: mustState(t, map[string]any{
			"n": 2, "kind": "bug", "flag": false, "tags": []string{"a", "b"}, "nums": []int{1, 2},
			"patch": map[string]any{"path": "x"},
		}),
		Outcome: OK, Visits: map[string]int{"build": 3},
		Event: mustState(t, map[string]any{"by": "ann", "issue": 2}),
	}
	for src, want := range map[string]bool{
		"true": true, "!true": false, "state.n > 1": true, "state.n <= 1": false, "state.n == 2 && state.kind == 'bug'": true,
		"state.n != 2 || state.flag": false, "!state.flag": true, "state.kind in ['feature', 'bug']": true,
		"state.n in [3, 4]": false, "'b' in state.tags": true, "3 in state.nums": false, "state.n in state.nums": true,
		"len(state.tags) == 2": true, "visits(build) >= 3": true, "visits(a) == 0": true,
		"has(state.patch)": true, "has(state.late)": false, "has(state.late) && state.late == 'x'": false,
		"!has(state.late) || state.late == 'x'": true, "outcome == 'ok'": true, "state.n > -1": true,
		"event.by == 'ann'": true, "event.issue == state.n": true, "has(event.by) && !has(event.at)": true, "((state.n) > (1))": true,
	} {
		g, problems := compileGuard(src, guardFields())
		if len(problems) > 0 {
			t.Errorf("%s: %v", src, problems)
			continue
		}
		for range 100 { // the same answer every time
			if got, err := g.Eval(env); err != nil || got != want {
				t.Errorf("%s = %v, %v, want %v", src, got, err, want)
				break
			}
		}
	}
}

// What can't be evaluated is an error, never false.
//
// Covers: AR7.
func TestGuardFailsClosed(t *testing.T) {
	t.Parallel()
	for _, src := range []string{
		"state.late == 'x'", "state.late != 'x'", "!(state.late == 'x')", "len(state.late) > 0", "state.n > 0", "'a' in state.tags",
		"event.at == 'x'", "state.flag", "!state.flag",
	} {
		g, problems := compileGuard(src, guardFields())
		if len(problems) > 0 {
			t.Fatalf("%s: %v", src, problems)
		}
		if got, err := g.Eval(GuardEnv{}); err == nil || !strings.Contains(err.Error(), "is not set") {
			t.Errorf("%s = %v, %v, want an error that says what is not set", src, got, err)
		}
	}
	g, problems := compileGuard("state.n > 0", guardFields())
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	wrong := NewState(map[string]json.RawMessage{"n": json.RawMessage(`"one"`)})
	if got, err := g.Eval(GuardEnv{State: wrong}); err == nil {
		t.Errorf("a guard over a value of another type = %v, want an error", got)
	}
}

// A guard can't say more than the few things it may.
//
// Covers: AR10, VK13, NX13, CN11.
func TestGuardRefusals(t *testing.T) {
	t.Parallel()
	for src, code := range map[string]string{
		"":                                "guard-syntax",
		"state.n +":                       "guard-syntax",
		"state.n + 1 == 2":                "guard-syntax",
		"-state.n == 2":                   "guard-syntax",
		"state['n'] > 0":                  "guard-syntax",
		"state['n'+'x'] > 0":              "guard-syntax",
		"state[state.kind] == 1":          "guard-syntax",
		"state.tags[0] == 'a'":            "guard-syntax",
		"[1][0] == 1":                     "guard-syntax",
		"state.n.x > 0":                   "guard-syntax",
		"state?.n > 0":                    "guard-syntax",
		"state.n ?? 1 == 1":               "guard-syntax",
		"state.kind matches 'b'":          "guard-syntax",
		"state.kind contains 'b'":         "guard-syntax",
		"state.kind startsWith 'b'":       "guard-syntax",
		"state.n > 0 and true":            "guard-syntax",
		"not state.flag":                  "guard-syntax",
		"true ? true : false":             "guard-syntax",
		"let x = true; x":                 "guard-syntax",
		"true; true":                      "guard-syntax",
		"all(state.tags, true)":           "guard-syntax",
		"state.tags | len() > 0":          "guard-syntax",
		"now() > 1":                       "guard-syntax",
		"getattr((), '__class__')":        "guard-syntax",
		"state.kind.upper() == 'BUG'":     "guard-syntax",
		"1 in 1..3":                       "guard-type",
		"state == state":                  "ref-unknown",
		"{'a': 1} == {'a': 1}":            "guard-syntax",
		"nil == nil":                      "guard-syntax",
		"1.5 > 1.0":                       "guard-syntax",
		"$env == $env":                    "ref-unknown",
		"env.HOME == 'x'":                 "guard-syntax",
		"[true] == [true]":                "guard-syntax",
		"state.n in [state.n]":            "guard-syntax",
		"visits('build') > 0":             "guard-syntax",
		"visits(ghost) > 0":               "ref-unknown",
		"int_of('n') > 0":                 "guard-syntax",
		"state.ghost > 0":                 "ref-unknown",
		"ghost > 0":                       "ref-unknown",
		"state.n":                         "guard-type",
		"state.n && true":                 "guard-type",
		"state.kind == 'bgu'":             "guard-type",
		"state.kind in ['bug', 'bgu']":    "guard-type",
		"state.n == '1'":                  "guard-type",
		"state.flag == 1":                 "guard-type",
		"state.n in ['1']":                "guard-type",
		"state.kind > 'a'":                "guard-type",
		"state.patch == 'x'":              "guard-type",
		"state.facts == 'x'":              "guard-type",
		"len(state.n) > 0":                "guard-type",
		"'a' in state.kind":               "guard-type",
		"1 in state.tags":                 "guard-type",
		"outcome == 'okay'":               "guard-type",
		"'x' == state.n":                  "guard-type",
		strings.Repeat("!", 512) + "true": "guard-syntax",
	} {
		g, problems := compileGuard(src, guardFields())
		if g != nil || len(problems) == 0 {
			t.Errorf("%s was accepted, want %s", src, code)
			continue
		}
		if problems[0].code != code || problems[0].msg == "" {
			t.Errorf("%s: %+v, want code %s", src, problems, code)
		}
	}
}

// What people write by habit is refused once, with what to write instead.
func TestGuardHints(t *testing.T) {
	t.Parallel()
	quotes := "a text has quotes: 'bug'"
	for src, want := range map[string]guardProblem{
		"state.n = 1":                       {"guard-syntax", "= is no comparison", "use == to compare"},
		"state.kind = 'a == b'":             {"guard-syntax", "= is no comparison", "use == to compare"},
		"{{state.n}} > 1":                   {"guard-syntax", "a guard is an expression, which stands without braces", "write state.n > 1"},
		"${{ state.n > 1 }}":                {"guard-syntax", "a guard is an expression, which stands without braces", "write state.n > 1"},
		"${state.flag} == true":             {"guard-syntax", "a guard is an expression, which stands without braces", "write state.flag == true"},
		"{{ state.late }}  == 'a  {{b}}'":   {"guard-syntax", "a guard is an expression, which stands without braces", "write state.late == 'a  {{b}}'"},
		"${{state.late}} == \"}\\\" ${c}\"": {"guard-syntax", "a guard is an expression, which stands without braces", "write state.late == \"}\\\" ${c}\""},
		"state.late = '{{b}}'":              {"guard-syntax", "= is no comparison", "use == to compare"},
		"state.late == `\\` || n = 1":       {"guard-syntax", "= is no comparison", "use == to compare"},
		"n > 1":                             {"ref-unknown", "n is not known here", "write state.n"},
		"flag":                              {"ref-unknown", "flag is not known here", "write state.flag"},
		"knd == 'bug'":                      {"ref-unknown", "knd is not known here", "did you mean state.kind?"},
		"outcom == 'ok'":                    {"ref-unknown", "outcom is not known here", "did you mean outcome?"},
		"state.kind == bug":                 {"ref-unknown", "bug is not known here", quotes},
		"bug != state.kind":                 {"ref-unknown", "bug is not known here", quotes},
		"state.kind in [bug]":               {"ref-unknown", "bug is not known here", quotes},
		"outcome == failed":                 {"ref-unknown", "failed is not known here", "a text has quotes: 'failed'"},
		"state.flag and true":               {"guard-syntax", "the operator and is refused", "write &&"},
		"state.flag or true":                {"guard-syntax", "the operator or is refused", "write ||"},
		"not state.flag":                    {"guard-syntax", "the operator not is refused", "write !"},
		"state.kind == 'x = {{y'":           {"guard-type", "state.kind never has the value it is compared with", "known: bug, feature"},
		"state.late == '=' || n":            {"ref-unknown", "n is not known here", "write state.n"},
		"state.kind == \"b\\\"=\"":          {"guard-type", "state.kind never has the value it is compared with", "known: bug, feature"},
	} {
		_, problems := compileGuard(src, guardFields())
		if diff := cmp.Diff([]guardProblem{want}, problems, cmp.AllowUnexported(guardProblem{})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", src, diff)
		}
	}
}

// Braces in a text don't hide what else is wrong.
func TestGuardHintsLeaveTexts(t *testing.T) {
	t.Parallel()
	for _, src := range []string{"state.late == '{{b}}' &&", "(state.late == \"${b}\"", "state.late == `{{`)", "state.late == '{{"} {
		_, problems := compileGuard(src, guardFields())
		if len(problems) != 1 || problems[0].code != "guard-syntax" || strings.Contains(problems[0].msg, "braces") {
			t.Errorf("%s: %+v, want the syntax error alone", src, problems)
		}
	}
	for src, want := range map[string]string{"{{\n state.n\t> 1}}\n": "state.n > 1", "$ {n}": "$ {n", "{{ '": "'"} {
		if got := withoutBraces(src, withoutTexts(src)); got != want {
			t.Errorf("%q without braces = %q, want %q", src, got, want)
		}
	}
}
