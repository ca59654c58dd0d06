package flows

import (
	"slices"
	"strings"

	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/conf"
	"github.com/expr-lang/expr/file"
	"github.com/expr-lang/expr/parser"
	"github.com/expr-lang/expr/parser/lexer"
)

// guardCheck refuses everything in an expression that guards may not say.
type guardCheck struct {
	scope    guardScope
	reads    []string
	asked    []string // keys within has()
	problems []guardProblem
}

func (c *guardCheck) bad(code, hint, msg string) {
	c.problems = append(c.problems, guardProblem{code, msg, hint})
}

func (c *guardCheck) syntax(msg string) {
	c.bad("guard-syntax", "guards say || && ! == != < <= > >= in, literals, lists, state.x, outcome, visits(node), has(state.x), len(state.x)", msg)
}

func (c *guardCheck) parse(src string, config *conf.Config) *parser.Tree {
	if src == "" || len(src) > maxGuard {
		c.syntax("a guard has 1 to 512 bytes")
		return nil
	}
	if mayIndex(src) && !c.noIndex(src) {
		return nil
	}
	tree, err := parser.ParseWithConfig(src, config)
	if err != nil {
		c.unparsed(src, firstLine(err))
		return nil
	}
	return tree
}

// mayIndex is false for guards in which every bracket surely begins the list
// of an in and every | is part of an ||.
func mayIndex(src string) bool {
	return strings.Count(src, "[") != strings.Count(src, " in [") || strings.Contains(strings.ReplaceAll(src, "||", ""), "|")
}

// noIndex refuses indexing and pipes: state["a"] can't be told from state.a
// once parsed.
func (c *guardCheck) noIndex(src string) bool {
	tokens, err := lexer.Lex(file.NewSource(src))
	if err != nil {
		c.unparsed(src, firstLine(err))
		return false
	}
	for i, t := range tokens[1:] {
		before := tokens[i]
		if t.Is(lexer.Operator, "|") {
			c.syntax("the operator | is refused")
			return false
		}
		if t.Is(lexer.Bracket, "[") && (before.Is(lexer.Identifier) || before.Is(lexer.String) || before.Is(lexer.Bracket, ")", "]")) {
			c.syntax("indexing with [ ] is refused")
			return false
		}
	}
	return true
}

// expression checks a node that stands for a value.
func (c *guardCheck) expression(n ast.Node) {
	switch n := n.(type) {
	case *ast.BoolNode, *ast.StringNode, *ast.IntegerNode:
	case *ast.IdentifierNode:
		if n.Value != varResult {
			c.unknown(n.Value)
		}
	case *ast.MemberNode:
		c.path(n, false)
	case *ast.UnaryNode:
		_, number := n.Node.(*ast.IntegerNode)
		switch {
		case n.Operator == "!":
			c.expression(n.Node)
		case n.Operator == "-" && number:
		default:
			c.refused(n.Operator)
		}
	case *ast.BinaryNode:
		c.binary(n)
	case *ast.CallNode:
		c.call(n)
	case *ast.ArrayNode:
		c.syntax("a list can stand only to the right of in")
	default:
		c.syntax("this is no guard")
	}
}

func (c *guardCheck) binary(n *ast.BinaryNode) {
	if !slices.Contains([]string{"||", "&&", "==", "!=", "<", "<=", ">", ">=", "in"}, n.Operator) {
		c.refused(n.Operator)
		return
	}
	c.operand(n.Left, n.Right)
	list, isList := n.Right.(*ast.ArrayNode)
	switch {
	case n.Operator == "in" && isList:
		for _, item := range list.Nodes {
			word, isWord := item.(*ast.IdentifierNode)
			switch {
			case isWord && slices.Contains(c.wordsOf(n.Left), word.Value):
				c.bare(word.Value)
				continue
			case !literal(item):
				c.syntax("a list holds literals only")
				continue
			}
			c.comparable(n.Left, item)
		}
		return
	case n.Operator == "in":
		if f := c.field(n.Right); f == nil || f.Type != ListField {
			c.bad("guard-type", "", "what stands to the right of in must be a list")
		}
	case n.Operator == "==" || n.Operator == "!=":
		c.comparable(n.Left, n.Right)
		c.comparable(n.Right, n.Left)
	case n.Operator != "||" && n.Operator != "&&":
		for _, side := range []ast.Node{n.Left, n.Right} {
			if f := c.field(side); f != nil && f.Type != IntField {
				c.bad("guard-type", "", "only whole numbers have an order, not state."+f.Key)
			}
		}
	}
	c.operand(n.Right, n.Left)
}

func literal(n ast.Node) bool {
	if u, ok := n.(*ast.UnaryNode); ok && u.Operator == "-" {
		n = u.Node
		_, ok := n.(*ast.IntegerNode)
		return ok
	}
	switch n.(type) {
	case *ast.BoolNode, *ast.StringNode, *ast.IntegerNode:
		return true
	}
	return false
}

// comparable refuses literals that a value can never equal: a misspelt word
// of an enum is a guard that silently never holds.
func (c *guardCheck) comparable(value, other ast.Node) {
	if !literal(other) {
		return
	}
	word, isText := other.(*ast.StringNode)
	_, isBool := other.(*ast.BoolNode)
	if id, ok := value.(*ast.IdentifierNode); ok && id.Value == varResult && isText {
		if !slices.Contains(outcomeWords(), word.Value) {
			c.bad("guard-type", didYouMean(word.Value, outcomeWords()), "no outcome is called "+word.Value)
		}
		return
	}
	f := c.field(value)
	if f == nil {
		return
	}
	switch f.Type {
	case EnumField:
		if !isText || !slices.Contains(f.Values, word.Value) {
			hint := ""
			if isText {
				hint = didYouMean(word.Value, f.Values)
			}
			c.bad("guard-type", hint, "state."+f.Key+" never has the value it is compared with")
		}
	case StringField:
		c.match(isText, f, other)
	case IntField:
		c.match(!isText && !isBool, f, other)
	case BoolField:
		c.match(isBool, f, other)
	case ListField:
		c.match(false, f, other)
	case ArtifactField, ObjectField: // refused by path
	}
}

// literalWord says what kind of literal stands in a guard.
func literalWord(n ast.Node) string {
	switch n.(type) {
	case *ast.BoolNode:
		return "a truth value"
	case *ast.StringNode:
		return "a text"
	}
	return "a number"
}

func (c *guardCheck) match(ok bool, f *Field, other ast.Node) {
	if !ok {
		c.bad("guard-type", "", "state."+f.Key+" is of type "+string(f.Type)+" and can't equal "+literalWord(other))
	}
}

// field is the declared field of state.x, or nil.
func (c *guardCheck) field(n ast.Node) *Field {
	if root, key, ok := pathOf(n); ok && root == "state" {
		return c.scope.fields[key]
	}
	return nil
}

// pathOf splits root.key.
func pathOf(n ast.Node) (root, key string, ok bool) {
	m, isMember := n.(*ast.MemberNode)
	if !isMember || m.Optional {
		return "", "", false
	}
	id, isID := m.Node.(*ast.IdentifierNode)
	prop, isText := m.Property.(*ast.StringNode)
	if !isID || !isText {
		return "", "", false
	}
	return id.Value, prop.Value, true
}

// path checks state.x and event.x; asked means within has().
func (c *guardCheck) path(n ast.Node, asked bool) {
	root, key, ok := pathOf(n)
	switch {
	case ok && root == "event" && c.scope.event:
		return
	case !ok || root != "state":
		c.syntax("only state.x can be read")
		return
	}
	f := c.scope.fields[key]
	switch {
	case f == nil:
		c.bad("ref-unknown", didYouMean(key, fieldKeys(c.scope.fields)), "state has no field "+key)
	case asked:
		c.asked = append(c.asked, key)
	case f.Type == ArtifactField || f.Type == ObjectField:
		c.bad("guard-type", "use has(state."+key+")", "state."+key+" is of type "+string(f.Type)+" and can't be compared")
	default:
		c.reads = append(c.reads, key)
	}
}

func (c *guardCheck) call(n *ast.CallNode) {
	name, ok := n.Callee.(*ast.IdentifierNode)
	if !ok || len(n.Arguments) != 1 || !slices.Contains([]string{"has", "len", "visits"}, name.Value) {
		c.syntax("only has(state.x), len(state.x) and visits(node) can be called")
		return
	}
	arg := n.Arguments[0]
	switch name.Value {
	case "has":
		c.path(arg, true)
	case "len":
		if f := c.field(arg); f != nil && f.Type != ListField && f.Type != StringField {
			c.bad("guard-type", "", "state."+f.Key+" is of type "+string(f.Type)+" and has no length")
			return
		}
		if root, _, ok := pathOf(arg); ok && root == "event" {
			c.syntax("len takes state.x")
			return
		}
		c.path(arg, false)
	case "visits":
		id, ok := arg.(*ast.IdentifierNode)
		if !ok {
			c.syntax("visits takes the id of a node")
		} else if !slices.Contains(c.scope.nodes, id.Value) {
			c.bad("ref-unknown", didYouMean(id.Value, c.scope.nodes), "there is no node "+id.Value)
		}
	}
}

// guardRewrite turns paths and calls into the functions of guardTypes. The
// walk visits children first, so a call finds its argument rewritten already.
type guardRewrite struct{ scope guardScope }

// Visit implements ast.Visitor.
func (g *guardRewrite) Visit(node *ast.Node) {
	if root, key, ok := pathOf(*node); ok {
		ast.Patch(node, called(g.reader(root, key), key))
		return
	}
	call, ok := (*node).(*ast.CallNode)
	if !ok || len(call.Arguments) != 1 {
		return
	}
	name, ok := call.Callee.(*ast.IdentifierNode)
	if !ok {
		return
	}
	switch arg := call.Arguments[0].(type) {
	case *ast.IdentifierNode:
		if name.Value == "visits" {
			ast.Patch(node, called(fnVisits, arg.Value))
		}
	case *ast.CallNode:
		key, ok := arg.Arguments[0].(*ast.StringNode)
		if !ok {
			return
		}
		from, _ := arg.Callee.(*ast.IdentifierNode)
		switch {
		case name.Value == "has" && from != nil && from.Value == fnEvent:
			ast.Patch(node, called(fnHasEv, key.Value))
		case name.Value == "has":
			ast.Patch(node, called(fnHas, key.Value))
		case name.Value == "len":
			ast.Patch(node, called(fnLen, key.Value))
		}
	}
}

func (g *guardRewrite) reader(root, key string) string {
	if root == "event" {
		return fnEvent
	}
	f := g.scope.fields[key]
	switch {
	case f.Type == IntField:
		return fnInt
	case f.Type == BoolField:
		return fnBool
	case f.Type == ListField && f.Of == IntField:
		return fnInts
	case f.Type == ListField:
		return fnTexts
	case f.Type == ArtifactField || f.Type == ObjectField:
		return fnAny
	}
	return fnText
}

func called(fn, arg string) ast.Node {
	return &ast.CallNode{Callee: &ast.IdentifierNode{Value: fn}, Arguments: []ast.Node{&ast.StringNode{Value: arg}}}
}
