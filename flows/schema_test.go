package flows

import (
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const schemaFlow = `
apiVersion: flows/v1
name: schema
phase: test
entry: a
sink: done
state:
  issue: {type: int, required: true}
  size: {type: enum, values: [s, m], default: s, input: true}
  title: {type: string, max_len: 10, input: true, default: ""}
  tags: {type: list, of: string, max_items: 2, max_len: 3, default: []}
  nums: {type: list, of: int}
  flag: {type: bool}
  ref: {type: artifact, input: true}
  facts: {type: object, max_bytes: 20}
  big: {type: list, of: string, max_items: 1000, max_len: 4000}
  result: {type: enum, values: [none, ok], default: none}
nodes:
  - {id: a, kind: step, uses: test.step}
  - {id: done, kind: sink}
edges:
  - {from: a, to: done}
`

func mustLoad(t testing.TB, src string) *Flow {
	t.Helper()
	f, problems := Load("test.yaml", []byte(src), testRegistry(t))
	if err := problems.Err(); err != nil {
		t.Fatal(err)
	}
	return f
}

// Covers: CN2.
func TestInitial(t *testing.T) {
	t.Parallel()
	f := mustLoad(t, schemaFlow)
	s, err := f.Initial(mustState(t, map[string]any{"issue": 7, "title": "a title"}))
	if err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(`{"issue":7,"result":"none","size":"s","tags":[],"title":"a title"}`, string(raw)); diff != "" {
		t.Errorf("state (-want +got):\n%s", diff)
	}
	for name, input := range map[string]map[string]any{
		"required is missing": {"title": "x"},
		"required is null":    {"issue": nil},
		"wrong type":          {"issue": "7"},
		"not an input":        {"issue": 7, "flag": true},
		"not declared":        {"issue": 7, "ghost": 1},
		"reserved":            {"issue": 7, "_stop": map[string]string{"code": "x"}},
		"too long":            {"issue": 7, "title": "eleven more"},
	} {
		if _, err := f.Initial(mustState(t, input)); !errors.Is(err, ErrInvalidState) {
			t.Errorf("%s: error = %v, want ErrInvalidState", name, err)
		}
	}
	got := f.InputOf(mustState(t, map[string]any{"issue": 7, "title": "eleven more", "flag": true, "ghost": 1, "size": "m"}))
	if diff := cmp.Diff([]string{"issue", "size"}, got.Keys()); diff != "" {
		t.Errorf("InputOf (-want +got):\n%s", diff)
	}
}

// Covers: CN3, CN4, CN9, CN33.
func TestApply(t *testing.T) {
	t.Parallel()
	f := mustLoad(t, schemaFlow)
	before, err := f.Initial(mustState(t, map[string]any{"issue": 7}))
	if err != nil {
		t.Fatal(err)
	}
	writes := []string{"issue", "size", "title", "tags", "nums", "flag", "ref", "facts", "big"}
	sum := strings.Repeat("a", 64)
	for name, tc := range map[string]struct {
		delta Delta
		good  bool
	}{
		"nothing":           {Delta{}, true},
		"all":               {Delta{"issue": int64(8), "size": "m", "title": "x", "tags": []string{"a"}, "nums": []int{1}, "flag": true, "facts": map[string]any{"a": 1}}, true},
		"artifact":          {Delta{"ref": Artifact{Path: "p", SHA256: sum, Bytes: 3}}, true},
		"whole float":       {Delta{"issue": 8.0}, true},
		"taken away":        {Delta{"flag": nil}, true},
		"nil list":          {Delta{"nums": []int(nil)}, true},
		"fraction":          {Delta{"issue": 8.5}, false},
		"exponent":          {Delta{"issue": json.RawMessage("1e3")}, false},
		"NaN":               {Delta{"issue": math.NaN()}, false},
		"function":          {Delta{"title": func() {}}, false},
		"bad raw":           {Delta{"title": json.RawMessage(`"x`)}, false},
		"bad UTF-8":         {Delta{"title": "\xff"}, false},
		"bad UTF-8 in list": {Delta{"tags": []string{"\xff"}}, false},
		"enum":              {Delta{"size": "xl"}, false},
		"bool as text":      {Delta{"flag": "true"}, false},
		"long":              {Delta{"title": "eleven more"}, false},
		"long item":         {Delta{"tags": []string{"long"}}, false},
		"many items":        {Delta{"tags": []string{"a", "b", "c"}}, false},
		"wrong items":       {Delta{"nums": []string{"a"}}, false},
		"empty artifact":    {Delta{"ref": Artifact{}}, false},
		"artifact and more": {Delta{"ref": json.RawMessage(`{"path":"p","sha256":"` + sum + `","bytes":1,"text":"x"}`)}, false},
		"artifact's hash":   {Delta{"ref": Artifact{Path: "p", SHA256: "x", Bytes: 3}}, false},
		"object size":       {Delta{"facts": map[string]any{"a": strings.Repeat("x", 30)}}, false},
		"object is list":    {Delta{"facts": []int{1}}, false},
		"not written":       {Delta{"result": "ok"}, false},
		"not declared":      {Delta{"ghost": 1}, false},
		"reserved":          {Delta{"_stop": map[string]string{}}, false},
		"required away":     {Delta{"issue": nil}, false},
		"default away":      {Delta{"size": nil}, false},
		"whole state": {Delta{"big": func() (s []string) {
			for range 20 {
				s = append(s, strings.Repeat("x", 4000))
			}
			return s
		}()}, false},
	} {
		var after State
		delta, err := tc.delta.Encode()
		if err == nil {
			after, err = f.Apply(before, writes, delta)
		}
		switch {
		case tc.good && err != nil:
			t.Errorf("%s: %v", name, err)
		case !tc.good && !errors.Is(err, ErrInvalidState):
			t.Errorf("%s: error = %v, want ErrInvalidState", name, err)
		case tc.good:
			if err := f.Check(after); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	if before.Int("issue") != 7 || before.Has("flag") {
		t.Error("the state before was changed")
	}
}

// Covers: HF18.
func TestStopIsSetOnce(t *testing.T) {
	t.Parallel()
	s, err := State{}.WithStop(Stop{Code: "first"})
	if err != nil {
		t.Fatal(err)
	}
	if s, err = s.WithStop(Stop{Code: "second"}); err != nil {
		t.Fatal(err)
	}
	if st, ok := s.Stop(); !ok || st.Code != "first" {
		t.Errorf("stop = %+v, %v", st, ok)
	}
	if _, ok := s.Public().Stop(); ok {
		t.Error("the public state has the stop")
	}
}
