package driver_test

import (
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pipelinebot/pipelinebot/llm/driver"
)

func TestRetryAfter(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, c := range []struct {
		name, value string
		want        time.Duration
	}{
		{"Retry-After", "17", 17 * time.Second},
		{"Retry-After", "0.5", 500 * time.Millisecond},
		{"Retry-After", "Fri, 02 Jan 2026 03:05:05 GMT", time.Minute},
		{"Retry-After", "Fri, 02 Jan 2026 03:03:05 GMT", 0},
		{"Retry-After", "soon", 0},
		{"Retry-After", "-3", 0},
		{"Retry-After", "1e300", 0},
		{"Retry-After", "NaN", 0},
		{"Retry-After-Ms", "250", 250 * time.Millisecond},
		{"Other", "1", 0},
	} {
		h := driver.Heard{Header: http.Header{}}
		h.Header.Set(c.name, c.value)
		if got := h.RetryAfter(now); got != c.want {
			t.Errorf("%s: %s gives %s, want %s", c.name, c.value, got, c.want)
		}
	}
	if got := new(driver.Heard).RetryAfter(now); got != 0 {
		t.Errorf("no answer gives %s", got)
	}
}

func TestObject(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		` {"a":1} `: `{"a":1}`, "```json\n{\"a\":1}\n```": `{"a":1}`, "```\n{}\n```\n": `{}`, "```": "```", "prose": "prose", "```json {}```": "```json {}```",
	} {
		if got := string(driver.Object(in)); got != want {
			t.Errorf("Object(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestClosed(t *testing.T) {
	t.Parallel()
	const whole = `"properties":{"a":{"type":"string"},"b":{"type":["null","string"]}},"additionalProperties":false`
	for schema, want := range map[string][2]bool{ // without and with all required
		`{"type":"object",` + whole + `,"required":["a","b"]}`: {true, true},
		`{"type":"object",` + whole + `,"required":["a"]}`:     {true, false},
		`{"type":"object"}`: {false, false},
		`{"type":"string"}`: {true, true},
		`{"type":"array","items":{"type":"object","additionalProperties":{}}}`:                     {false, false},
		`{"anyOf":[{"type":"object"}]}`:                                                            {false, false},
		`{"type":"object","properties":{"x":{"type":"object"}},"additionalProperties":{"not":{}}}`: {false, false},
		`{"type":"object","properties":{},"additionalProperties":{"not": {}}}`:                     {true, true},
		`nonsense`: {false, false},
	} {
		got := [2]bool{driver.Closed(json.RawMessage(schema), false), driver.Closed(json.RawMessage(schema), true)}
		if got != want {
			t.Errorf("%s: %v, want %v", schema, got, want)
		}
	}
}

func TestLoosen(t *testing.T) {
	t.Parallel()
	in := `{"type":"object","properties":{"minimum":{"type":"integer","minimum":1},"l":{"type":"array","minItems":2,"items":{"minimum":3}}},` +
		`"anyOf":[{"minimum":1,"type":"integer"}],"additionalProperties":{"not":{}}}`
	want := map[string]any{
		"type": "object", "additionalProperties": false, "anyOf": []any{map[string]any{"type": "integer"}},
		"properties": map[string]any{"minimum": map[string]any{"type": "integer"}, "l": map[string]any{"type": "array", "items": map[string]any{}}},
	}
	got, err := driver.Loosen(json.RawMessage(in), "minimum", "minItems")
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
	if _, err := driver.Loosen(json.RawMessage(`[]`)); err == nil {
		t.Error("a list is no schema here")
	}
}

func FuzzCheck(f *testing.F) {
	f.Add([]byte(`{"type":"object"}`), []byte(`{}`))
	f.Add([]byte(`{"$ref":"#"}`), []byte(`1 2`))
	f.Fuzz(func(_ *testing.T, schema, raw []byte) {
		_ = driver.Check(schema, raw)
		driver.Closed(schema, true)
		_, _ = driver.Loosen(schema, "minimum")
		driver.Object(string(raw))
	})
}
