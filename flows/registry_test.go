package flows

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Covers: AR14, HF21.
func TestRegistry(t *testing.T) {
	t.Parallel()
	run := func(context.Context, Call) (Result, error) { return Result{}, nil }
	reg := &Registry{}
	if err := reg.Add(Action{Name: "b.x", Version: "1", Run: run}, Action{Name: "a.x", Version: "1", Run: run}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"a.x", "b.x"}, reg.Names()); diff != "" {
		t.Errorf("names (-want +got):\n%s", diff)
	}
	for name, a := range map[string]Action{
		"duplicate":   {Name: "a.x", Version: "2", Run: run},
		"no name":     {Version: "1", Run: run},
		"no version":  {Name: "c.x", Run: run},
		"no function": {Name: "c.x", Version: "1"},
	} {
		if err := reg.Add(a); err == nil {
			t.Errorf("%s was accepted", name)
		}
	}
	if a, ok := reg.Get("a.x"); !ok || a.Version != "1" {
		t.Errorf("a.x = %+v, %v", a, ok)
	}
}

func TestWith(t *testing.T) {
	t.Parallel()
	type with struct {
		Aim string `json:"aim"`
	}
	if v, err := With[with](json.RawMessage(`{"aim":"code"}`)); err != nil || v.Aim != "code" {
		t.Errorf("with = %+v, %v", v, err)
	}
	if v, err := With[with](nil); err != nil || v.Aim != "" {
		t.Errorf("absent with = %+v, %v", v, err)
	}
	for _, bad := range []string{`{"iam":"code"}`, `{"aim":1}`, `[]`, `{} {}`, `{`} {
		if err := CheckWith[with](json.RawMessage(bad)); err == nil || !strings.Contains(err.Error(), "with") {
			t.Errorf("%s: error = %v", bad, err)
		}
	}
}

func TestState(t *testing.T) {
	t.Parallel()
	s := mustState(t, map[string]any{"s": "x", "n": 7, "b": true, "l": []string{"a"}, "none": nil})
	if s.Str("s") != "x" || s.Int("n") != 7 || !s.Bool("b") || s.Strings("l")[0] != "a" || s.Has("none") || s.Int("s") != 0 || s.Str("ghost") != "" {
		t.Errorf("state reads wrong: %v", s.Keys())
	}
	after := s.With(map[string]json.RawMessage{"n": json.RawMessage("8")})
	if s.Int("n") != 7 || after.Int("n") != 8 {
		t.Error("With changed the original")
	}
	values := s.Values()
	values["n"] = json.RawMessage("9")
	if s.Int("n") != 7 {
		t.Error("Values is no copy")
	}
	if diff := cmp.Diff([]string{"n", "s"}, s.Only([]string{"s", "n", "ghost"}).Keys()); diff != "" {
		t.Errorf("Only (-want +got):\n%s", diff)
	}
	if _, err := DecodeState(json.RawMessage(`[]`)); err == nil {
		t.Error("a list was read as a state")
	}
	raw, err := State{}.MarshalJSON()
	if err != nil || string(raw) != "{}" {
		t.Errorf("empty state = %s, %v", raw, err)
	}
}
