package flows

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Templates stand in text values of `with`, in messages, keys and the
// environment of commands, in the strict form {{path}}, and are replaced in one pass: what is inserted is never looked at again.

var templatePath = regexp.MustCompile(`^[a-z_][a-z0-9_]*(\.[a-z_][a-z0-9_]*)*$`)

// runPaths are what {{run.x}} can be.
func runPaths(r RunInfo) map[string]string {
	return map[string]string{
		"id": r.ID, "key": r.Key, "lineage": r.Lineage, "repo": r.Repo, "phase": r.Phase, "flow": r.Flow,
		"issue": strconv.Itoa(r.Issue), "round": strconv.Itoa(r.Round),
	}
}

// splitTemplate cuts a text into literals (even places) and paths (odd).
func splitTemplate(s string) ([]string, error) {
	var parts []string
	for {
		before, rest, open := strings.Cut(s, "{{")
		parts = append(parts, before)
		if !open {
			return parts, nil
		}
		path, after, closed := strings.Cut(rest, "}}")
		if !closed {
			return nil, fmt.Errorf("{{ is not closed")
		}
		if !templatePath.MatchString(path) {
			return nil, fmt.Errorf("{{%s}} is not of the form {{state.x}} without blanks", short([]byte(path)))
		}
		parts = append(parts, path)
		s = after
	}
}

// Expand replaces the templates in a node's `with`.
func Expand(with json.RawMessage, s State, run RunInfo) (json.RawMessage, error) {
	if !strings.Contains(string(with), "{{") {
		return with, nil
	}
	var v any
	d := json.NewDecoder(strings.NewReader(string(with)))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		return nil, fmt.Errorf("reading `with`: %w", err)
	}
	v, err := expand(v, s, runPaths(run))
	if err != nil {
		return nil, fmt.Errorf("expanding `with`: %w", err)
	}
	return encode(v)
}

// ExpandText replaces the templates in a text that programs read: a key, a
// command's environment. An empty list is an empty text there.
func ExpandText(template string, s State, run RunInfo) (string, error) {
	parts, err := fill(template, s, runPaths(run))
	if err != nil {
		return "", fmt.Errorf("expanding %s: %w", short([]byte(template)), err)
	}
	return joined(parts, ""), nil
}

// ExpandMessage replaces the templates in a text that people read. Where it
// would have more than most letters, its lists are shortened, the one that takes
// most room first, and say how many items are left out.
func ExpandMessage(template string, s State, run RunInfo, most int) (string, error) {
	parts, err := fill(template, s, runPaths(run))
	if err != nil {
		return "", fmt.Errorf("expanding %s: %w", short([]byte(template)), err)
	}
	shorten(parts, most)
	return joined(parts, emptyList), nil
}

func expand(v any, s State, run map[string]string) (any, error) {
	var err error
	switch v := v.(type) {
	case map[string]any:
		for key, item := range v {
			if v[key], err = expand(item, s, run); err != nil {
				return nil, err
			}
		}
	case []any:
		for i, item := range v {
			if v[i], err = expand(item, s, run); err != nil {
				return nil, err
			}
		}
	case string:
		parts, err := fill(v, s, run)
		if err != nil {
			return nil, err
		}
		return joined(parts, emptyList), nil
	}
	return v, nil
}

// fill cuts a text into what stands in it and what is inserted.
func fill(template string, s State, run map[string]string) ([]inserted, error) {
	parts, err := splitTemplate(template)
	if err != nil {
		return nil, err
	}
	out := make([]inserted, len(parts))
	for i, part := range parts {
		if i%2 == 0 {
			out[i] = inserted{text: part}
		} else if out[i], err = lookUp(part, s, run); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func lookUp(path string, s State, run map[string]string) (inserted, error) {
	names := strings.Split(path, ".")
	if names[0] == "run" && len(names) == 2 {
		if v, ok := run[names[1]]; ok {
			return inserted{text: v}, nil
		}
		return inserted{}, fmt.Errorf("{{%s}} is not known", path)
	}
	if names[0] != "state" || len(names) < 2 || !s.Has(names[1]) {
		return inserted{}, fmt.Errorf("{{%s}} is not set", path)
	}
	raw := s.Raw(names[1])
	if len(names) == 3 {
		var fields map[string]json.RawMessage
		if err := json.Unmarshal(raw, &fields); err != nil || fields[names[2]] == nil {
			return inserted{}, fmt.Errorf("{{%s}} is not set", path)
		}
		raw = fields[names[2]]
	}
	return insertedOf(raw), nil
}

// templates checks every template in a node's `with` and returns the state
// keys that they read.
func (l *loader) templates(p place, v any) (reads []string) {
	switch v := v.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			reads = append(reads, l.templates(p, v[key])...)
		}
	case []any:
		for _, item := range v {
			reads = append(reads, l.templates(p, item)...)
		}
	case string:
		parts, err := splitTemplate(v)
		if err != nil {
			l.add(p, "template-form", "write {{state.x}} or {{run.id}}", "%v", err)
			return nil
		}
		for i := 1; i < len(parts); i += 2 {
			if key := l.template(p, parts[i]); key != "" {
				reads = append(reads, key)
			}
		}
	}
	return reads
}

func (l *loader) template(p place, path string) (key string) {
	names := strings.Split(path, ".")
	switch {
	case names[0] == "run" && len(names) == 2:
		if _, ok := runPaths(RunInfo{})[names[1]]; !ok {
			l.add(p, "ref-unknown", "run has id, key, lineage, repo, issue, phase, flow, round", "{{%s}} is not known", path)
		}
	case names[0] == "state" && (len(names) == 2 || len(names) == 3):
		return l.stateTemplate(p, path, names)
	case names[0] == p.node && p.node != "":
		l.add(p, "ref-self", "", "{{%s}} refers to the node itself", path)
	case l.ids[names[0]] != nil:
		l.add(p, "ref-unknown", "nodes hand over through the state: {{state.x}}", "{{%s}} names a node, which has no output", path)
	default:
		l.add(p, "ref-unknown", "write {{state.x}} or {{run.id}}", "{{%s}} is not known", path)
	}
	return ""
}

func (l *loader) stateTemplate(p place, path string, names []string) string {
	f := l.flow.byKey[names[1]]
	switch {
	case f == nil:
		l.add(p, "ref-unknown", didYouMean(names[1], fieldKeys(l.flow.byKey)), "{{%s}}: state has no field %s", path, names[1])
		return ""
	case f.Type == ArtifactField && (len(names) != 3 || names[2] != "path" && names[2] != "sha256" && names[2] != "bytes"):
		l.add(p, "template-form", "write .path, .sha256 or .bytes", "{{%s}} is an artifact", path)
		return ""
	case f.Type != ArtifactField && len(names) == 3, f.Type == ObjectField:
		l.add(p, "template-form", "only texts, numbers, truth values, lists and artifacts' fields can be inserted", "{{%s}} can't be inserted: %s is of type %s", path, f.Key, f.Type)
		return ""
	}
	return f.Key
}
