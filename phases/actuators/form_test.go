package actuators_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pipelinebot/pipelinebot/llm/llmtest"
	"github.com/pipelinebot/pipelinebot/phases/actuators"
)

// An answer whose form is only known at run time is held to it like any other.
func TestWorkForm(t *testing.T) {
	t.Parallel()
	form := actuators.Form{
		"name": {Type: actuators.Text, About: "the name", Max: 5}, "count": {Type: actuators.Number},
		"found": {Type: actuators.Truth}, "files": {Type: actuators.Texts, Max: 2},
	}
	s := script(t,
		llmtest.Call("finish", args{"name": "much too long", "count": 1, "found": true, "files": []string{}}),
		llmtest.Call("finish", args{"name": "ok", "count": 1, "found": true, "files": []string{"a", "b", "c"}}),
		llmtest.Call("finish", args{"name": "ok", "count": 3, "found": true, "files": []string{"a"}}),
	)
	got, log, err := actuators.WorkForm(t.Context(), call(&meter{}), one(s), prompt(), actuators.Toolbox{Dir: t.TempDir(), ReadOnly: true}, form)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]any{"name": "ok", "count": int64(3), "found": true, "files": []string{"a"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("answer (-want +got):\n%s", diff)
	}
	if log.Turns != 3 {
		t.Errorf("%d turns", log.Turns)
	}
	asked := s.Asked()
	for i, want := range []string{"name: has 13 bytes; at most 5", "files: has 3 items; at most 2"} {
		if text := results(asked[i+1])[0].Text; !strings.Contains(text, want) {
			t.Errorf("told %q, want %q", text, want)
		}
	}
	tools := asked[0].Tools
	schema := string(tools[len(tools)-1].Input)
	var any map[string]any
	if json.Unmarshal([]byte(schema), &any) != nil || any["additionalProperties"] != false {
		t.Errorf("the form is not closed: %s", schema)
	}
	for _, want := range []string{`"integer"`, `"boolean"`, `"the name"`, `"required"`} {
		if !strings.Contains(schema, want) {
			t.Errorf("the schema lacks %s: %s", want, schema)
		}
	}
}

// A form is refused before a model is asked for it.
func TestFormCheck(t *testing.T) {
	t.Parallel()
	many := actuators.Form{}
	for i := range 40 {
		many["f"+strings.Repeat("x", i)] = actuators.Field{Type: actuators.Text}
	}
	for want, form := range map[string]actuators.Form{
		"no fields":            {},
		"more than 32":         many,
		"can't be called":      {"Bad Name": {Type: actuators.Text}},
		"no type is called":    {"a": {Type: "float"}},
		`no type is called ""`: {"a": {}},
	} {
		if err := form.Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
