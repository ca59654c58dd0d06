package flows

import (
	"bytes"
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strconv"

	"github.com/expr-lang/expr/ast"
)

// A guard is checked as an expression and then turned into plain functions,
// which take no memory and a fraction of the time. FuzzGuard holds both against
// each other.

type (
	boolFunc func(GuardEnv) (bool, error)
	intFunc  func(GuardEnv) (int, error)
	// textFunc returns bytes that may be part of the state.
	textFunc func(GuardEnv) ([]byte, error)
	anyFunc  func(GuardEnv) (any, error)
)

// guardBuild turns the tree of a guard that was checked into functions.
type guardBuild struct{ scope guardScope }

// errShape can come only from a tree that the check should have refused.
func errShape(n ast.Node) error { return fmt.Errorf("this is no guard: %s", n) }

// typeOf is the static type of a value: a field's, or "" for what is known
// only when it is looked at.
func (g *guardBuild) typeOf(n ast.Node) FieldType {
	switch n := n.(type) {
	case *ast.BoolNode:
		return BoolField
	case *ast.StringNode, *ast.IdentifierNode:
		return StringField
	case *ast.IntegerNode:
		return IntField
	case *ast.UnaryNode:
		if n.Operator == "-" {
			return IntField
		}
		return BoolField
	case *ast.BinaryNode:
		return BoolField
	case *ast.CallNode:
		if id, ok := n.Callee.(*ast.IdentifierNode); ok && id.Value == "has" {
			return BoolField
		}
		return IntField
	case *ast.MemberNode:
		root, key, _ := pathOf(n)
		if f := g.scope.fields[key]; root == "state" && f != nil {
			if f.Type == EnumField {
				return StringField
			}
			return f.Type
		}
	}
	return ""
}

func (g *guardBuild) boolean(n ast.Node) (boolFunc, error) {
	switch n := n.(type) {
	case *ast.BoolNode:
		v := n.Value
		return func(GuardEnv) (bool, error) { return v, nil }, nil
	case *ast.UnaryNode:
		of, err := g.boolean(n.Node)
		if err != nil || n.Operator != "!" {
			return nil, cmp.Or(err, errShape(n))
		}
		return func(env GuardEnv) (bool, error) {
			v, err := of(env)
			return !v && err == nil, err
		}, nil
	case *ast.BinaryNode:
		return g.binary(n)
	case *ast.CallNode:
		return g.has(n)
	case *ast.MemberNode:
		root, key, _ := pathOf(n)
		if root == "event" {
			return func(env GuardEnv) (bool, error) {
				v, err := scalar(env.Event, key)
				if err != nil {
					return false, err
				}
				b, ok := v.(bool)
				if !ok {
					return false, fmt.Errorf("event.%s is %T, not a truth value", key, v)
				}
				return b, nil
			}, nil
		}
		return func(env GuardEnv) (bool, error) {
			switch raw := env.State.Raw(key); string(raw) {
			case "true":
				return true, nil
			case "false":
				return false, nil
			case "", "null":
				return false, notSet(key)
			default:
				return value[bool](env.State, "state", key)
			}
		}, nil
	}
	return nil, errShape(n)
}

func notSet(key string) error { return fmt.Errorf("state.%s is not set", key) }

func (g *guardBuild) has(n *ast.CallNode) (boolFunc, error) {
	name, ok := n.Callee.(*ast.IdentifierNode)
	if !ok || name.Value != "has" || len(n.Arguments) != 1 {
		return nil, errShape(n)
	}
	root, key, _ := pathOf(n.Arguments[0])
	if root == "event" {
		return func(env GuardEnv) (bool, error) { return env.Event.Has(key), nil }, nil
	}
	return func(env GuardEnv) (bool, error) { return env.State.Has(key), nil }, nil
}

func (g *guardBuild) binary(n *ast.BinaryNode) (boolFunc, error) {
	switch n.Operator {
	case "&&", "||":
		left, err := g.boolean(n.Left)
		if err != nil {
			return nil, err
		}
		right, err := g.boolean(n.Right)
		if err != nil {
			return nil, err
		}
		stop := n.Operator == "||"
		return func(env GuardEnv) (bool, error) {
			if v, err := left(env); err != nil || v == stop {
				return v && err == nil, err
			}
			return right(env)
		}, nil
	case "in":
		return g.in(n)
	case "==", "!=":
		return g.equal(n)
	}
	return g.order(n)
}

func (g *guardBuild) equal(n *ast.BinaryNode) (boolFunc, error) {
	want := n.Operator == "=="
	left, right := g.typeOf(n.Left), g.typeOf(n.Right)
	switch {
	case left == IntField && right == IntField:
		return g.ints(n, func(a, b int) bool { return (a == b) == want })
	case left == StringField && right == StringField:
		return g.textsOf(n, func(a, b []byte) bool { return bytes.Equal(a, b) == want })
	case left == BoolField && right == BoolField:
		return pair(g.boolean, n, func(a, b bool) bool { return (a == b) == want })
	}
	return pair(g.any, n, func(a, b any) bool { return same(a, b) == want })
}

// pair builds both sides and compares what they give.
func pair[T any, F ~func(GuardEnv) (T, error)](build func(ast.Node) (F, error), n *ast.BinaryNode, compare func(a, b T) bool) (boolFunc, error) {
	left, err := build(n.Left)
	if err != nil {
		return nil, err
	}
	right, err := build(n.Right)
	if err != nil {
		return nil, err
	}
	return func(env GuardEnv) (bool, error) {
		a, err := left(env)
		if err != nil {
			return false, err
		}
		b, err := right(env)
		if err != nil {
			return false, err
		}
		return compare(a, b), nil
	}, nil
}

func (g *guardBuild) ints(n *ast.BinaryNode, compare func(a, b int) bool) (boolFunc, error) {
	return pair(g.integer, n, compare)
}

func (g *guardBuild) textsOf(n *ast.BinaryNode, compare func(a, b []byte) bool) (boolFunc, error) {
	return pair(g.text, n, compare)
}

// holds tells what an order operator says of a comparison.
func holds(operator string, c int) bool {
	switch operator {
	case "<":
		return c < 0
	case "<=":
		return c <= 0
	case ">":
		return c > 0
	}
	return c >= 0
}

func (g *guardBuild) order(n *ast.BinaryNode) (boolFunc, error) {
	left, right := g.typeOf(n.Left), g.typeOf(n.Right)
	op := n.Operator
	switch {
	case left == IntField && right == IntField:
		return g.ints(n, func(a, b int) bool { return holds(op, cmp.Compare(a, b)) })
	case left == StringField && right == StringField:
		return g.textsOf(n, func(a, b []byte) bool { return holds(op, bytes.Compare(a, b)) })
	}
	a, err := g.any(n.Left)
	if err != nil {
		return nil, err
	}
	b, err := g.any(n.Right)
	if err != nil {
		return nil, err
	}
	return func(env GuardEnv) (bool, error) {
		x, err := a(env)
		if err != nil {
			return false, err
		}
		y, err := b(env)
		if err != nil {
			return false, err
		}
		c, ok := compareAny(x, y)
		if !ok {
			return false, fmt.Errorf("%T and %T have no order", x, y)
		}
		return holds(op, c), nil
	}, nil
}

func number(v any) (float64, bool) {
	switch v := v.(type) {
	case int:
		return float64(v), true
	case float64:
		return v, true
	}
	return 0, false
}

func compareAny(x, y any) (int, bool) {
	a, isInt := x.(int)
	b, both := y.(int)
	if isInt && both {
		return cmp.Compare(a, b), true
	}
	if a, ok := number(x); ok {
		if b, ok := number(y); ok {
			return cmp.Compare(a, b), true
		}
		return 0, false
	}
	s, ok := x.(string)
	t, both := y.(string)
	return cmp.Compare(s, t), ok && both
}

// same compares values whose types are known only now: numbers by their
// value, all else only with its like.
func same(x, y any) bool {
	a, isInt := x.(int)
	b, both := y.(int)
	if isInt && both {
		return a == b
	}
	if a, ok := number(x); ok {
		b, ok := number(y)
		return ok && a == b
	}
	if a, ok := items(x); ok {
		b, ok := items(y)
		return ok && slices.EqualFunc(a, b, same)
	}
	return reflect.DeepEqual(x, y)
}

// items are the elements of a list of any type.
func items(v any) ([]any, bool) {
	var list []any
	switch v := v.(type) {
	case []any:
		return v, true
	case []string:
		for _, item := range v {
			list = append(list, item)
		}
	case []int:
		for _, item := range v {
			list = append(list, item)
		}
	default:
		return nil, false
	}
	return list, true
}

func (g *guardBuild) integer(n ast.Node) (intFunc, error) {
	switch n := n.(type) {
	case *ast.IntegerNode:
		v := n.Value
		return func(GuardEnv) (int, error) { return v, nil }, nil
	case *ast.UnaryNode:
		if i, ok := n.Node.(*ast.IntegerNode); ok && n.Operator == "-" {
			v := -i.Value
			return func(GuardEnv) (int, error) { return v, nil }, nil
		}
	case *ast.CallNode:
		name, ok := n.Callee.(*ast.IdentifierNode)
		switch {
		case ok && name.Value == "visits" && len(n.Arguments) == 1:
			if id, ok := n.Arguments[0].(*ast.IdentifierNode); ok {
				node := id.Value
				return func(env GuardEnv) (int, error) { return env.Visits[node], nil }, nil
			}
		case ok && name.Value == "len" && len(n.Arguments) == 1:
			if _, key, ok := pathOf(n.Arguments[0]); ok {
				return func(env GuardEnv) (int, error) { return length(env.State, key) }, nil
			}
		}
	case *ast.MemberNode:
		if root, key, ok := pathOf(n); ok && root == "state" {
			return func(env GuardEnv) (int, error) {
				raw := env.State.Raw(key)
				if v, err := strconv.Atoi(string(raw)); err == nil {
					return v, nil
				}
				return value[int](env.State, "state", key)
			}, nil
		}
	}
	return nil, errShape(n)
}

func (g *guardBuild) text(n ast.Node) (textFunc, error) {
	switch n := n.(type) {
	case *ast.StringNode:
		v := []byte(n.Value)
		return func(GuardEnv) ([]byte, error) { return v, nil }, nil
	case *ast.IdentifierNode:
		// The words that there are, so that none has to be copied.
		var known [][]byte
		for _, word := range outcomeWords() {
			known = append(known, []byte(word))
		}
		return func(env GuardEnv) ([]byte, error) {
			for _, word := range known {
				if string(word) == string(env.Outcome) {
					return word, nil
				}
			}
			return []byte(env.Outcome), nil
		}, nil
	case *ast.MemberNode:
		if root, key, ok := pathOf(n); ok && root == "state" {
			return func(env GuardEnv) ([]byte, error) {
				raw := env.State.Raw(key)
				if v, ok := plainText(raw); ok {
					return v, nil
				}
				s, err := value[string](env.State, "state", key)
				return []byte(s), err
			}, nil
		}
	}
	return nil, errShape(n)
}

func (g *guardBuild) any(n ast.Node) (anyFunc, error) {
	if root, key, ok := pathOf(n); ok && root == "event" {
		return func(env GuardEnv) (any, error) { return scalar(env.Event, key) }, nil
	}
	switch g.typeOf(n) {
	case IntField:
		of, err := g.integer(n)
		return func(env GuardEnv) (any, error) { return of(env) }, err
	case BoolField:
		of, err := g.boolean(n)
		return func(env GuardEnv) (any, error) { return of(env) }, err
	case StringField:
		of, err := g.text(n)
		return func(env GuardEnv) (any, error) {
			v, err := of(env)
			return string(v), err
		}, err
	case ListField:
		_, key, _ := pathOf(n)
		if g.scope.fields[key].Of == IntField {
			return func(env GuardEnv) (any, error) { return value[[]int](env.State, "state", key) }, nil
		}
		return func(env GuardEnv) (any, error) { return value[[]string](env.State, "state", key) }, nil
	case EnumField, ArtifactField, ObjectField:
	}
	return nil, errShape(n)
}

// in looks for a value in a list of literals or in a list of the state.
func (g *guardBuild) in(n *ast.BinaryNode) (boolFunc, error) {
	left := g.typeOf(n.Left)
	if list, ok := n.Right.(*ast.ArrayNode); ok {
		return g.inLiterals(n.Left, left, list)
	}
	if _, key, ok := pathOf(n.Right); ok && left == StringField && g.typeOf(n.Right) == ListField && g.scope.fields[key].Of == StringField {
		return g.inTexts(n.Left, key)
	}
	of, err := g.any(n.Right)
	if err != nil {
		return nil, err
	}
	item, err := g.any(n.Left)
	if err != nil {
		return nil, err
	}
	return func(env GuardEnv) (bool, error) {
		v, err := item(env)
		if err != nil {
			return false, err
		}
		list, err := of(env)
		if err != nil {
			return false, err
		}
		switch list := list.(type) {
		case []string:
			s, ok := v.(string)
			return ok && slices.Contains(list, s), nil
		case []int:
			return slices.ContainsFunc(list, func(i int) bool { return same(i, v) }), nil
		}
		return false, nil
	}, nil
}

// inTexts looks for a text in a list of texts of the state.
func (g *guardBuild) inTexts(n ast.Node, key string) (boolFunc, error) {
	of, err := g.text(n)
	return func(env GuardEnv) (bool, error) {
		v, err := of(env)
		if err != nil {
			return false, err
		}
		if found, ok := plainListHas(env.State.Raw(key), v); ok {
			return found, nil
		}
		list, err := value[[]string](env.State, "state", key)
		return slices.Contains(list, string(v)), err
	}, err
}

func (g *guardBuild) inLiterals(n ast.Node, t FieldType, list *ast.ArrayNode) (boolFunc, error) {
	var texts [][]byte
	var all []any
	for _, item := range list.Nodes {
		of, err := g.any(item)
		if err != nil {
			return nil, err
		}
		v, err := of(GuardEnv{})
		if err != nil {
			return nil, err
		}
		all = append(all, v)
		if s, ok := v.(string); ok {
			texts = append(texts, []byte(s))
		}
	}
	if t == StringField && len(texts) == len(all) {
		of, err := g.text(n)
		return func(env GuardEnv) (bool, error) {
			v, err := of(env)
			return err == nil && slices.ContainsFunc(texts, func(s []byte) bool { return bytes.Equal(s, v) }), err
		}, err
	}
	of, err := g.any(n)
	return func(env GuardEnv) (bool, error) {
		v, err := of(env)
		return err == nil && slices.ContainsFunc(all, func(x any) bool { return same(x, v) }), err
	}, err
}
