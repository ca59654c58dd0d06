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
	code := withoutTexts(src)
	switch {
	case strings.Contains(code, "{{") || strings.Contains(code, "${"):
		c.bad("guard-syntax", "write "+withoutBraces(src, code), "a guard is an expression, which stands without braces")
	case assigns(code):
		c.bad("guard-syntax", "use == to compare", "= is no comparison")
	default:
		c.syntax(msg)
	}
}

// withoutTexts is a guard of the same length in which each letter of a quoted
// text, and its quotes, is a quote.
func withoutTexts(src string) string {
	code := []byte(src)
	quote := byte(0)
	for i := 0; i < len(code); i++ {
		switch at := code[i]; {
		case quote == 0 && at != '\'' && at != '"' && at != '`':
			continue
		case quote == 0:
			quote = at
		case at == quote:
			quote = 0
		case at == '\\' && quote != '`' && i+1 < len(code):
			code[i] = '\''
			i++
		}
		code[i] = '\''
	}
	return string(code)
}

// withoutBraces is what was meant by a guard with the braces of a template.
// Texts stay as they are.
func withoutBraces(src, code string) string {
	var out strings.Builder
	for i := 0; i < len(src); {
		switch {
		case strings.HasPrefix(code[i:], "${") || strings.HasPrefix(code[i:], "{{") || strings.HasPrefix(code[i:], "}}"):
			i += 2
			if code[i-2] == '$' && i < len(code) && code[i] == '{' {
				i++
			}
			continue
		case code[i] == '}':
		case strings.IndexByte(" \t\r\n", code[i]) < 0:
			out.WriteByte(src[i])
		case out.Len() > 0 && !strings.HasSuffix(out.String(), " "):
			out.WriteByte(' ')
		}
		i++
	}
	return strings.TrimSpace(out.String())
}

// assigns finds a single = in a guard without its texts.
func assigns(code string) bool {
	for i := 0; i < len(code); i++ {
		switch {
		case code[i] != '=':
		case i+1 < len(code) && code[i+1] == '=':
			i++
		case i == 0 || strings.IndexByte("!<>", code[i-1]) < 0:
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
