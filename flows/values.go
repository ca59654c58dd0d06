package flows

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/pipelinebot/pipelinebot/internal/strictyaml"
)

var (
	// An id can stand in a guard, so it has no dash.
	idForm   = regexp.MustCompile(`^[a-z][a-z0-9_]{0,63}$`)
	nameForm = regexp.MustCompile(`^[a-z][a-z0-9_-]{0,63}$`)
)

// What both are made of, in words.
const (
	idLetters   = "small letters, digits and _, a letter first, at most 64"
	nameLetters = "small letters, digits, _ and -, a letter first, at most 64"
)

// mapping is a YAML mapping whose keys are known to be unique.
type mapping struct {
	*reader
	at    *yaml.Node
	id    string   // the flow node it belongs to
	what  string   // for people, e.g. "the edge"
	order []string // of its keys, where any may stand
	// meant are the allowed keys that misspelt ones are near to: that they are
	// absent needs no mention.
	meant []string
}

// mapping reads n; allowed nil lets every key pass.
func (r *reader) mapping(n *yaml.Node, id, what string, allowed []string) (mapping, bool) {
	m := mapping{reader: r, at: n, id: id, what: what}
	if n.Kind != yaml.MappingNode {
		r.add(at(n, id), "bad-value", "", "%s must be a mapping", what)
		return m, false
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		switch key := n.Content[i]; {
		case allowed == nil:
			m.order = append(m.order, key.Value)
		case !slices.Contains(allowed, key.Value):
			hint := didYouMean(key.Value, allowed)
			switch near := strictyaml.Nearest(key.Value, allowed); {
			case key.Value == "idempotency" || key.Value == "effects":
				hint = "leave it out: the engine gives every effect its key"
			case comma(n, i):
				hint = putIntoQuotes
			case near != "":
				m.meant = append(m.meant, near)
			}
			r.add(at(key, id), "unknown-key", hint, "%s has no key %s", what, key.Value)
		}
	}
	return m, true
}

// putIntoQuotes is for a text that was cut in two.
const putIntoQuotes = "a comma ends a text within {…}: put the text before it into quotes"

// comma tells that a key of a mapping in braces is likely what stands after the
// comma of a text without quotes: it has no value, and what is before it is a
// text.
func comma(n *yaml.Node, i int) bool {
	if n.Style&yaml.FlowStyle == 0 || i == 0 || i+1 >= len(n.Content) {
		return false
	}
	before, value := n.Content[i-1], n.Content[i+1]
	return value.Kind == yaml.ScalarNode && value.Value == "" && value.ShortTag() == "!!null" &&
		before.Kind == yaml.ScalarNode && before.Style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle) == 0
}

// misspelt tells that an absent key stands there under a name that is near.
func (m mapping) misspelt(key string) bool { return slices.Contains(m.meant, key) }

// find is the place of a key among the content. Mappings are small, so that
// looking is cheaper than an index.
func (m mapping) find(key string) int {
	if m.at == nil || m.at.Kind != yaml.MappingNode {
		return -1
	}
	for i := 0; i+1 < len(m.at.Content); i += 2 {
		if m.at.Content[i].Value == key {
			return i
		}
	}
	return -1
}

// key is the node of a key, value that of its value; nil when it is absent.
func (m mapping) key(key string) *yaml.Node {
	if i := m.find(key); i >= 0 {
		return m.at.Content[i]
	}
	return nil
}

func (m mapping) value(key string) *yaml.Node {
	if i := m.find(key); i >= 0 {
		return m.at.Content[i+1]
	}
	return nil
}

func (m mapping) has(key string) bool { return m.value(key) != nil }

// valueOr is a key's value, or an empty mapping where the key is.
func (m mapping) valueOr(key string) *yaml.Node {
	if v := m.value(key); v != nil && v.Kind == yaml.MappingNode {
		return v
	}
	return &yaml.Node{Kind: yaml.MappingNode, Line: m.at.Line, Column: m.at.Column}
}

// where is the place of a key's value, or of the mapping when it is absent.
func (m mapping) where(key string) place {
	if v := m.value(key); v != nil {
		return at(v, m.id)
	}
	return at(m.at, m.id)
}

func (m mapping) bad(key, format string, args ...any) {
	m.add(m.where(key), "bad-value", "", "%s of %s %s", key, m.what, fmt.Sprintf(format, args...))
}

func (m mapping) need(keys ...string) {
	for _, key := range keys {
		if !m.has(key) && !m.misspelt(key) {
			m.add(m.where(key), "missing-field", "add "+key+":", "%s needs %s", m.what, key)
		}
	}
}

func (m mapping) str(key string) string {
	n := m.value(key)
	if n == nil {
		return ""
	}
	if n.Kind != yaml.ScalarNode || !isText(n) {
		m.bad(key, "must be a text")
		return ""
	}
	return n.Value
}

// isText tells texts from numbers, truth values and null.
func isText(n *yaml.Node) bool {
	switch n.ShortTag() {
	case "!!str", "!!timestamp":
		return true
	}
	return false
}

// name reads an id or name; reserved ones are refused by the caller.
func (m mapping) name(key string, form *regexp.Regexp) string {
	s := m.str(key)
	if m.has(key) && isText(m.value(key)) && !form.MatchString(s) {
		letters := idLetters
		if form == nameForm {
			letters = nameLetters
		}
		m.add(m.where(key), "bad-name", letters, "%s %q of %s is no name", key, s, m.what)
		return ""
	}
	return s
}

func (m mapping) integer(key string, least int64) int64 {
	n := m.value(key)
	if n == nil {
		return 0
	}
	v, err := strconv.ParseInt(n.Value, 10, 64)
	if !decimal(n) || err != nil || v > math.MaxInt32*1000 {
		m.bad(key, "must be a whole number")
		return 0
	}
	if v < least {
		m.bad(key, "must be at least %d", least)
		return 0
	}
	return v
}

// decimal tells whole numbers written as people write them. YAML reads 010 as
// eight and 0x10 as sixteen.
func decimal(n *yaml.Node) bool {
	digits := strings.TrimLeft(n.Value, "+-")
	return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!int" && strings.Trim(digits, "0123456789") == "" &&
		(digits == "0" || !strings.HasPrefix(digits, "0"))
}

// positive reads a limit: zero is not "unlimited" and not useful.
func (m mapping) positive(key string) int64 {
	v := m.integer(key, math.MinInt64)
	if n := m.value(key); n != nil && v <= 0 && decimal(n) {
		m.add(m.where(key), "budget-not-positive", "leave it out for no limit", "%s of %s is %s", key, m.what, n.Value)
		return 0
	}
	return v
}

// money reads US dollars with at most six decimals as micro-USD.
func (m mapping) money(key string) int64 {
	n := m.value(key)
	if n == nil {
		return 0
	}
	v, ok := microUSD(n.Value)
	if n.Kind != yaml.ScalarNode || isText(n) || !ok {
		m.bad(key, "must be US dollars with at most six decimals")
		return 0
	}
	if v <= 0 {
		m.add(m.where(key), "budget-not-positive", "leave it out for no limit", "%s of %s is %s", key, m.what, n.Value)
		return 0
	}
	return v
}

func microUSD(s string) (int64, bool) {
	sign := int64(1)
	if rest, ok := strings.CutPrefix(s, "-"); ok {
		s, sign = rest, -1
	}
	whole, part, _ := strings.Cut(s, ".")
	if len(whole) == 0 || len(whole) > 9 || len(part) > 6 {
		return 0, false
	}
	v, err := strconv.ParseUint(whole+part+strings.Repeat("0", 6-len(part)), 10, 63)
	return sign * int64(v), err == nil //nolint:gosec // 63 bits
}

func formatUSD(micro int64) json.Number {
	s := fmt.Sprintf("%d.%06d", micro/1e6, micro%1e6)
	return json.Number(strings.TrimSuffix(strings.TrimRight(s, "0"), "."))
}

func (m mapping) decimal(key string, above, most float64) float64 {
	n := m.value(key)
	if n == nil {
		return 0
	}
	v, err := strconv.ParseFloat(n.Value, 64)
	if n.Kind != yaml.ScalarNode || isText(n) || err != nil || !(v > above && v <= most) {
		m.bad(key, "must be a number above %g and at most %g", above, most)
		return 0
	}
	return v
}

func (m mapping) duration(key string) time.Duration {
	n := m.value(key)
	if n == nil {
		return 0
	}
	d, err := time.ParseDuration(n.Value)
	switch {
	case n.Kind != yaml.ScalarNode || err != nil || d > 365*24*time.Hour:
		m.bad(key, "must be a duration such as 30s, 10m or 72h")
		return 0
	case d <= 0:
		m.add(m.where(key), "budget-not-positive", "leave it out for no limit", "%s of %s is %s", key, m.what, n.Value)
		return 0
	}
	return d
}

func (m mapping) boolean(key string) bool {
	n := m.value(key)
	if n == nil {
		return false
	}
	if n.Kind != yaml.ScalarNode || n.ShortTag() != "!!bool" || n.Value != "true" && n.Value != "false" {
		m.bad(key, "must be true or false")
		return false
	}
	return n.Value == "true"
}

// items are the elements of a list.
func (m mapping) items(key string) []*yaml.Node {
	n := m.value(key)
	if n == nil {
		return nil
	}
	if n.Kind == yaml.SequenceNode {
		return n.Content
	}
	hint := ""
	if n.Kind == yaml.ScalarNode && n.Value != "" {
		hint = "write [" + short([]byte(n.Value)) + "]"
	}
	m.add(m.where(key), "bad-value", hint, "%s of %s must be a list", key, m.what)
	return nil
}

// texts reads a list of distinct texts.
func (m mapping) texts(key string) []string {
	var out []string
	for _, n := range m.items(key) {
		switch {
		case n.Kind != yaml.ScalarNode || !isText(n):
			m.add(at(n, m.id), "bad-value", "", "%s of %s must be a list of texts", key, m.what)
		case slices.Contains(out, n.Value):
			m.add(at(n, m.id), "bad-value", "remove one of the two", "%s of %s has %s twice", key, m.what, n.Value)
		default:
			out = append(out, n.Value)
		}
	}
	return out
}

// json turns any YAML value into JSON with sorted keys.
func (r *reader) json(n *yaml.Node, id string) json.RawMessage {
	return r.encoded(r.plain(n, id), n, id)
}

// encoded is what plain made of n as JSON.
func (r *reader) encoded(v any, n *yaml.Node, id string) json.RawMessage {
	raw, err := encode(v)
	if err != nil {
		r.add(at(n, id), "bad-value", "", "not JSON: %v", err)
		return nil
	}
	return raw
}

func (r *reader) plain(n *yaml.Node, id string) any {
	switch n.Kind {
	case yaml.MappingNode:
		m := map[string]any{}
		for i := 0; i+1 < len(n.Content); i += 2 {
			m[n.Content[i].Value] = r.plain(n.Content[i+1], id)
		}
		return m
	case yaml.SequenceNode:
		list := []any{}
		for _, c := range n.Content {
			list = append(list, r.plain(c, id))
		}
		return list
	default:
		return r.scalar(n, id)
	}
}

func (r *reader) scalar(n *yaml.Node, id string) any {
	switch n.ShortTag() {
	case "!!null":
		return nil
	case "!!bool":
		return n.Value == "true"
	case "!!int", "!!float":
		if !json.Valid([]byte(n.Value)) {
			r.add(at(n, id), "bad-value", "write it in plain decimal digits, or quote it", "the number %s is not plain", n.Value)
			return nil
		}
		return json.Number(n.Value)
	}
	return n.Value
}

// encode is JSON without HTML escapes that is YAML as well.
func encode(v any) (json.RawMessage, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return yamlSafe(bytes.TrimRight(b.Bytes(), "\n")), nil
}

// yamlSafe escapes the characters that JSON allows in a text and YAML does
// not; they can stand only within texts.
func yamlSafe(b []byte) []byte {
	if !bytes.ContainsFunc(b, notYAML) {
		return b
	}
	var out bytes.Buffer
	for _, c := range string(b) {
		if notYAML(c) {
			fmt.Fprintf(&out, `\u%04x`, c)
			continue
		}
		out.WriteRune(c)
	}
	return out.Bytes()
}

func notYAML(c rune) bool {
	return c >= 0x7f && c <= 0x9f || c == 0xfeff || c >= 0xfffe && c <= 0xffff
}
