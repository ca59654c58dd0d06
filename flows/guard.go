package flows

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/checker"
	"github.com/expr-lang/expr/conf"
	"github.com/expr-lang/expr/types"
)

// maxGuard is the most bytes of a guard, maxGuardNodes its most parts.
const (
	maxGuard      = 512
	maxGuardNodes = 200
)

// Guard is a compiled condition. It can say only: || && ! == != < <= > >= in,
// literals, lists of them, parentheses, state.x, outcome, visits(node),
// has(state.x), len(state.x), and in a wait's match event.x.
type Guard struct {
	source string
	eval   boolFunc
	reads  []string // state keys whose absence is an error
}

// String is the guard as written.
func (g *Guard) String() string {
	if g == nil {
		return ""
	}
	return g.source
}

// GuardEnv is what a guard sees.
type GuardEnv struct {
	State   State
	Outcome Outcome
	Visits  map[string]int
	// Event is a delivered event's data, for a wait's match.
	Event State
}

// Eval evaluates the guard; a nil guard is true. What can't be evaluated is
// an error, never false.
func (g *Guard) Eval(env GuardEnv) (bool, error) {
	if g == nil {
		return true, nil
	}
	v, err := g.eval(env)
	if err != nil {
		return false, fmt.Errorf("guard %q: %w", g.source, err)
	}
	return v, nil
}

// The functions into which guards are rewritten before they are compiled, so
// that a value that is not set is an error wherever it is read.
const (
	fnInt     = "int_of"
	fnText    = "text_of"
	fnBool    = "bool_of"
	fnTexts   = "texts_of"
	fnInts    = "ints_of"
	fnAny     = "any_of"
	fnEvent   = "event_of"
	fnHas     = "has_key"
	fnHasEv   = "has_event"
	fnLen     = "length_of"
	fnVisits  = "visits_of"
	varResult = "outcome"
)

// guardTypes is the environment for the type check.
func guardTypes() types.Map {
	return types.Map{
		varResult: types.String,
		fnInt:     types.TypeOf((func(string) (int, error))(nil)),
		fnText:    types.TypeOf((func(string) (string, error))(nil)),
		fnBool:    types.TypeOf((func(string) (bool, error))(nil)),
		fnTexts:   types.TypeOf((func(string) ([]string, error))(nil)),
		fnInts:    types.TypeOf((func(string) ([]int, error))(nil)),
		fnAny:     types.TypeOf((func(string) (any, error))(nil)),
		fnEvent:   types.TypeOf((func(string) (any, error))(nil)),
		fnHas:     types.TypeOf((func(string) bool)(nil)),
		fnHasEv:   types.TypeOf((func(string) bool)(nil)),
		fnLen:     types.TypeOf((func(string) (int, error))(nil)),
		fnVisits:  types.TypeOf((func(string) int)(nil)),
	}
}

func value[T any](s State, root, key string) (T, error) {
	var v T
	if !s.Has(key) {
		return v, fmt.Errorf("%s.%s is not set", root, key)
	}
	return v, s.Decode(key, &v)
}

func scalar(s State, key string) (any, error) {
	v, err := value[any](s, "event", key)
	if n, ok := v.(float64); ok && n == float64(int(n)) {
		return int(n), err
	}
	return v, err
}

// length is a text's in bytes or a list's in items.
func length(s State, key string) (int, error) {
	if v, ok := plainText(s.Raw(key)); ok {
		return len(v), nil
	}
	v, err := value[any](s, "state", key)
	switch v := v.(type) {
	case string:
		return len(v), err
	case []any:
		return len(v), err
	}
	return 0, cmp.Or(err, fmt.Errorf("state.%s has no length", key))
}

// guardScope is what a guard may name.
type guardScope struct {
	fields map[string]*Field
	nodes  []string
	event  bool
}

// guardProblem is one reason why a guard is refused.
type guardProblem struct{ code, msg, hint string }

// guards compiles guards. What is the same for all of them is made once.
type guards struct{ config *conf.Config }

func newGuards() *guards {
	config := conf.CreateNew()
	for _, option := range []expr.Option{
		expr.Env(guardTypes()), expr.AsBool(), expr.DisableAllBuiltins(), expr.DisableIfOperator(), expr.MaxNodes(maxGuardNodes),
	} {
		option(config)
	}
	clear(config.Builtins)
	config.Check()
	return &guards{config}
}

func (g *guards) compile(src string, scope guardScope) (*Guard, []guardProblem) {
	c := &guardCheck{scope: scope}
	tree := c.parse(src, g.config)
	if len(c.problems) > 0 {
		return nil, c.problems
	}
	c.expression(tree.Node)
	if len(c.problems) > 0 {
		return nil, c.problems
	}
	// The rewriting changes the tree, so the functions are built before it.
	eval, shape := (&guardBuild{scope}).boolean(tree.Node)
	ast.Walk(&tree.Node, &guardRewrite{scope})
	_, err := checker.Check(tree, g.config)
	if err = cmp.Or(err, shape); err != nil {
		return nil, []guardProblem{{"guard-type", "the guard does not fit the state: " + firstLine(err), ""}}
	}
	slices.Sort(c.reads)
	reads := slices.DeleteFunc(slices.Compact(c.reads), func(key string) bool { return slices.Contains(c.asked, key) })
	return &Guard{source: src, eval: eval, reads: reads}, nil
}

func firstLine(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}
