package flows

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/vm"
)

func (env GuardEnv) vars() map[string]any {
	return map[string]any{
		varResult: string(env.Outcome),
		fnInt:     func(key string) (int, error) { return value[int](env.State, "state", key) },
		fnText:    func(key string) (string, error) { return value[string](env.State, "state", key) },
		fnBool:    func(key string) (bool, error) { return value[bool](env.State, "state", key) },
		fnTexts:   func(key string) ([]string, error) { return value[[]string](env.State, "state", key) },
		fnInts:    func(key string) ([]int, error) { return value[[]int](env.State, "state", key) },
		fnAny:     func(key string) (any, error) { return nil, fmt.Errorf("state.%s can't be compared", key) },
		fnEvent:   func(key string) (any, error) { return scalar(env.Event, key) },
		fnHas:     func(key string) bool { return env.State.Has(key) },
		fnHasEv:   func(key string) bool { return env.Event.Has(key) },
		fnLen:     func(key string) (int, error) { return length(env.State, key) },
		fnVisits:  func(node string) int { return env.Visits[node] },
	}
}

// compileExpr compiles a guard with the expression library. It is not
// optimised, which would leave out the reading of values that are not set.
func compileExpr(src string, scope guardScope) (*vm.Program, error) {
	return expr.Compile(src,
		expr.Env(guardTypes()), expr.AsBool(), expr.DisableAllBuiltins(), expr.DisableIfOperator(),
		expr.MaxNodes(maxGuardNodes), expr.Optimize(false), expr.Patch(&guardRewrite{scope}))
}

// evalExpr evaluates a guard as the expression library would.
func evalExpr(src string, scope guardScope, env GuardEnv) (bool, error) {
	program, err := compileExpr(src, scope)
	if err != nil {
		return false, err
	}
	return runExpr(program, env)
}

func runExpr(program *vm.Program, env GuardEnv) (bool, error) {
	v, err := expr.Run(program, env.vars())
	if err != nil {
		return false, err
	}
	b, ok := v.(bool)
	if !ok {
		return false, fmt.Errorf("%T is no truth value", v)
	}
	return b, nil
}

// randomGuard writes a condition of which about half pass the check.
func randomGuard(r *rand.Rand, depth int) string {
	pick := func(words ...string) string { return words[r.IntN(len(words))] }
	value := func() string {
		return pick("state.n", "state.late", "state.kind", "state.flag", "state.tags", "state.nums", "event.x", "event.y", "outcome", "visits(a)",
			"len(state.late)", "len(state.tags)", "len(state.nums)", "has(state.late)", "has(event.x)", "1", "-2", "0", "'a'", "'bug'", "'ok'", "true", "false", "''")
	}
	list := func() string {
		return pick("state.tags", "state.nums", "['a', 'bug', 'ok']", "[1, -2]", "[true]", "[]", "['a', 1]")
	}
	if depth <= 0 {
		return pick("state.flag", "!state.flag", "event.x", "has(state.late)", "true", value()+" == "+value())
	}
	switch r.IntN(5) {
	case 0:
		return "(" + randomGuard(r, depth-1) + " && " + randomGuard(r, depth-1) + ")"
	case 1:
		return randomGuard(r, depth-1) + " || " + randomGuard(r, depth-1)
	case 2:
		return "!(" + randomGuard(r, depth-1) + ")"
	case 3:
		return value() + " in " + list()
	}
	return value() + " " + pick("==", "!=", "<", "<=", ">", ">=") + " " + value()
}

// Guards made of the grammar give what the expression library gives.
//
// Covers: CN10, AR7.
func TestGuardAgainstLibrary(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // the same guards each time
	scope := guardFields()
	var envs []GuardEnv
	for _, s := range []string{
		`{"n":1,"kind":"bug","flag":true,"tags":["a","\u00e4"],"nums":[1,-2],"late":"b\u0061"}`,
		`{"n":-2,"kind":"feature","flag":false,"tags":[],"nums":[],"late":""}`, `{}`,
	} {
		for _, e := range []string{`{"x":"a","y":1}`, `{"x":true,"y":2.5}`, `{"x":[1,-2],"y":{"a":1}}`, `{"x":null,"y":"ok"}`, `{"x":-2,"y":-2}`, `{"x":false,"y":true}`} {
			envs = append(envs, GuardEnv{State: decodeState(t, s), Event: decodeState(t, e), Outcome: OK, Visits: map[string]int{"a": 1}})
		}
	}
	accepted := 0
	for range 4000 {
		src := randomGuard(r, 2)
		g, problems := compileGuard(src, scope)
		if len(problems) > 0 {
			continue
		}
		accepted++
		program, err := compileExpr(src, scope)
		if err != nil {
			t.Fatal(err)
		}
		for _, env := range envs {
			got, gotErr := g.Eval(env)
			want, wantErr := runExpr(program, env)
			if got != want || (gotErr == nil) != (wantErr == nil) {
				t.Fatalf("%s over %v and %v = %v, %v; the library says %v, %v", src, env.State, env.Event, got, gotErr, want, wantErr)
			}
		}
	}
	if accepted < 500 {
		t.Errorf("only %d guards were accepted", accepted)
	}
}

func decodeState(t testing.TB, src string) State {
	t.Helper()
	s, err := DecodeState([]byte(src))
	if err != nil {
		t.Fatal(err)
	}
	return s
}
