package strictyaml

import (
	"encoding"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// maxDepth bounds nesting.
const maxDepth = 64

type walker struct {
	doc      *Document
	problems Problems
	depth    int
}

func (w *walker) add(n *yaml.Node, path, hint, format string, args ...any) {
	w.problems = append(w.problems, Problem{
		File: w.doc.File, Line: n.Line, Column: n.Column, Path: path,
		Msg: fmt.Sprintf(format, args...), Hint: hint,
	})
}

var (
	durationType = reflect.TypeFor[time.Duration]()
	textType     = reflect.TypeFor[encoding.TextUnmarshaler]()
)

func (w *walker) value(path string, n *yaml.Node, v reflect.Value) {
	w.doc.nodes[path] = n
	if w.depth++; w.depth > maxDepth {
		w.add(n, path, "", "nested deeper than %d levels", maxDepth)
		w.depth--
		return
	}
	defer func() { w.depth-- }()
	if n.Kind == yaml.AliasNode || n.Anchor != "" {
		w.add(n, path, "write the value out", "anchors and aliases are not allowed")
		return
	}
	if n.Kind == yaml.ScalarNode && n.Tag == "!!null" {
		return // an empty value is the default
	}
	if v.Kind() == reflect.Pointer {
		if v.IsNil() {
			v.Set(reflect.New(v.Type().Elem()))
		}
		w.value(path, n, v.Elem())
		return
	}
	switch {
	case v.Type() == durationType:
		w.duration(path, n, v)
	case v.CanAddr() && v.Addr().Type().Implements(textType):
		w.text(path, n, v)
	default:
		w.plain(path, n, v)
	}
}

func (w *walker) plain(path string, n *yaml.Node, v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		w.object(path, n, v)
	case reflect.Map:
		w.dictionary(path, n, v)
	case reflect.Slice:
		w.list(path, n, v)
	case reflect.Interface:
		w.free(path, n, v)
	default:
		w.scalar(path, n, v)
	}
}

func (w *walker) duration(path string, n *yaml.Node, v reflect.Value) {
	d, err := time.ParseDuration(n.Value)
	if n.Kind != yaml.ScalarNode || err != nil {
		w.add(n, path, `write it like "90s", "10m" or "24h"`, "want a duration, got %s", describe(n))
		return
	}
	v.SetInt(int64(d))
}

func (w *walker) text(path string, n *yaml.Node, v reflect.Value) {
	if n.Kind != yaml.ScalarNode {
		w.add(n, path, "", "want a single value, got %s", describe(n))
		return
	}
	if err := v.Addr().Interface().(encoding.TextUnmarshaler).UnmarshalText([]byte(n.Value)); err != nil {
		w.add(n, path, "", "%v", err)
	}
}

func (w *walker) scalar(path string, n *yaml.Node, v reflect.Value) {
	want := map[reflect.Kind]string{
		reflect.String: "!!str", reflect.Bool: "!!bool",
		reflect.Int: "!!int", reflect.Int64: "!!int", reflect.Float64: "!!float",
	}[v.Kind()]
	ok := n.Kind == yaml.ScalarNode && (n.Tag == want || (want == "!!float" && n.Tag == "!!int"))
	if ok {
		ok = n.Decode(v.Addr().Interface()) == nil
	}
	if !ok {
		w.add(n, path, "", "want %s, got %s", kindWords(v.Kind()), describe(n))
	}
}

func (w *walker) list(path string, n *yaml.Node, v reflect.Value) {
	if n.Kind != yaml.SequenceNode {
		w.add(n, path, "", "want a list, got %s", describe(n))
		return
	}
	v.Set(reflect.MakeSlice(v.Type(), len(n.Content), len(n.Content)))
	for i, c := range n.Content {
		w.value(fmt.Sprintf("%s[%d]", path, i), c, v.Index(i))
	}
}

func (w *walker) dictionary(path string, n *yaml.Node, v reflect.Value) {
	v.Set(reflect.MakeMap(v.Type()))
	w.pairs(path, n, func(key string, _, value *yaml.Node) {
		elem := reflect.New(v.Type().Elem()).Elem()
		w.value(join(path, key), value, elem)
		v.SetMapIndex(reflect.ValueOf(key).Convert(v.Type().Key()), elem)
	})
}

func (w *walker) object(path string, n *yaml.Node, v reflect.Value) {
	fields := map[string]int{}
	for i := range v.NumField() {
		name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
		if name != "" && name != "-" {
			fields[name] = i
		}
	}
	w.pairs(path, n, func(key string, k, value *yaml.Node) {
		i, known := fields[key]
		if !known {
			w.add(k, join(path, key), DidYouMean(key, slices.Sorted(maps.Keys(fields))), "unknown key")
			return
		}
		w.value(join(path, key), value, v.Field(i))
	})
}

// pairs walks a mapping and refuses duplicate and non-text keys.
func (w *walker) pairs(path string, n *yaml.Node, f func(key string, k, v *yaml.Node)) {
	if n.Kind != yaml.MappingNode {
		w.add(n, path, "", "want a mapping (key: value), got %s", describe(n))
		return
	}
	seen := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		k := n.Content[i]
		switch first, dup := seen[k.Value]; {
		case k.Kind != yaml.ScalarNode || k.Tag == "!!merge":
			w.add(k, path, "", "want a plain key, got %s", describe(k))
		case dup:
			w.add(k, join(path, k.Value), "", "the key is set twice, first in line %d", first)
		default:
			seen[k.Value] = k.Line
			f(k.Value, k, n.Content[i+1])
		}
	}
}

// free decodes into an interface value: nested maps, lists and scalars.
func (w *walker) free(path string, n *yaml.Node, v reflect.Value) {
	switch n.Kind {
	case yaml.MappingNode:
		m := map[string]any{}
		w.dictionary(path, n, reflect.ValueOf(&m).Elem())
		v.Set(reflect.ValueOf(m))
	case yaml.SequenceNode:
		var l []any
		w.list(path, n, reflect.ValueOf(&l).Elem())
		v.Set(reflect.ValueOf(l))
	default:
		var x any
		if err := n.Decode(&x); err != nil {
			w.add(n, path, "", "cannot read the value: %v", err)
			return
		}
		if x != nil {
			v.Set(reflect.ValueOf(x))
		}
	}
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

func kindWords(k reflect.Kind) string {
	switch k {
	case reflect.String:
		return "text"
	case reflect.Bool:
		return "true or false"
	case reflect.Float64:
		return "a number"
	default:
		return "a whole number"
	}
}

func describe(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	case yaml.AliasNode:
		return "an alias"
	default:
		return describeScalar(n)
	}
}

func describeScalar(n *yaml.Node) string {
	value := n.Value
	if len(value) > 40 {
		value = value[:40] + "…"
	}
	switch n.Tag {
	case "!!int", "!!float":
		return "the number " + value
	case "!!bool":
		return "the truth value " + value
	}
	return "the text " + strconv.Quote(value)
}
