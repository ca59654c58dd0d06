package flows

import (
	"slices"
	"strings"

	"github.com/expr-lang/expr/ast"

	"github.com/pipelinebot/pipelinebot/internal/strictyaml"
)

// What people write in guards that come from elsewhere, and what they mean.

// unparsed explains a guard that is no expression.
func (c *guardCheck) unparsed(src, msg string) {
	switch {
	case strings.Contains(src, "{{") || strings.Contains(src, "${"):
		plain := strings.NewReplacer("${{", "", "{{", "", "}}", "", "${", "", "}", "").Replace(src)
		c.bad("guard-syntax", "write "+strings.Join(strings.Fields(plain), " "), "a guard is an expression, which stands without braces")
	case assigns(src):
		c.bad("guard-syntax", "use == to compare", "= is no comparison")
	default:
		c.syntax(msg)
	}
}

// assigns finds a single = outside of texts.
func assigns(src string) bool {
	quote := byte(0)
	for i := 0; i < len(src); i++ {
		switch at := src[i]; {
		case quote != 0 && at == '\\':
			i++
		case quote != 0:
			if at == quote {
				quote = 0
			}
		case at == '\'' || at == '"' || at == '`':
			quote = at
		case at == '=' && i+1 < len(src) && src[i+1] == '=':
			i++
		case at == '=' && (i == 0 || strings.IndexByte("!<>", src[i-1]) < 0):
			return true
		}
	}
	return false
}

// refused says what to write for an operator that guards don't have.
func (c *guardCheck) refused(operator string) {
	if instead, ok := map[string]string{"and": "&&", "or": "||", "not": "!"}[operator]; ok {
		c.bad("guard-syntax", "write "+instead, "the operator "+operator+" is refused")
		return
	}
	c.syntax("the operator " + operator + " is refused")
}

// operand checks one side of an operator. A bare word that is one of the words
// which the other side may have lacks only its quotes.
func (c *guardCheck) operand(n, other ast.Node) {
	if word, ok := n.(*ast.IdentifierNode); ok && slices.Contains(c.wordsOf(other), word.Value) {
		c.bare(word.Value)
		return
	}
	c.expression(n)
}

func (c *guardCheck) bare(word string) {
	c.bad("ref-unknown", "a text has quotes: '"+word+"'", word+" is not known here")
}

// wordsOf are the words that a value may have: an enum's, with or without
// state. before it, or the outcomes.
func (c *guardCheck) wordsOf(n ast.Node) []string {
	f := c.field(n)
	if id, ok := n.(*ast.IdentifierNode); ok {
		if id.Value == varResult {
			return outcomeWords()
		}
		f = c.scope.fields[id.Value]
	}
	if f == nil {
		return nil
	}
	return f.Values
}

// unknown explains a name that means nothing by itself.
func (c *guardCheck) unknown(name string) {
	hint := didYouMean(name, []string{varResult, "state"})
	if c.scope.fields[name] != nil {
		hint = "write state." + name
	} else if near := strictyaml.Nearest(name, fieldKeys(c.scope.fields)); near != "" {
		hint = "did you mean state." + near + "?"
	}
	c.bad("ref-unknown", hint, name+" is not known here")
}
