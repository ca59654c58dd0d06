package flows

import (
	"encoding/json"
	"strings"
	"testing"
)

// What is inserted is data: it is never looked at again.
//
// Covers: VK12, VK13, NX13.
func TestExpand(t *testing.T) {
	t.Parallel()
	sum := strings.Repeat("a", 64)
	s := mustState(t, map[string]any{
		"s": `{{state.n}} "; rm -rf / #`, "n": 7, "b": true, "ref": Artifact{Path: "a/b", SHA256: sum, Bytes: 3},
		"tags": []string{"a b", `{{run.id}} "c"`}, "one": []string{"d"}, "nums": []int{1, -2}, "empty": []string{},
	})
	run := RunInfo{ID: "r1", Repo: "acme/widgets", Issue: 7, Round: 2}
	for with, want := range map[string]string{
		``:                        ``,
		`{"a":1,"b":[true,null]}`: `{"a":1,"b":[true,null]}`,
		`{"a":"{{state.s}}"}`:     `{"a":"{{state.n}} \"; rm -rf / #"}`,
		`{"a":"{{state.n}}{{state.b}} {{run.issue}} {{run.repo}}"}`:            `{"a":"7true 7 acme/widgets"}`,
		`{"a":["{{state.ref.path}}",{"b":"x{{run.round}}x}}"}],"n":1.5}`:       `{"a":["a/b",{"b":"x2x}}"}],"n":1.5}`,
		`{"a":"{{state.tags}}|{{state.one}}|{{state.nums}}|{{state.empty}}."}`: `{"a":"a b, {{run.id}} \"c\"|d|1, -2|(none)."}`,
		`{"a":"<b>&{{run.id}}"}`: `{"a":"<b>&r1"}`,
	} {
		got, err := Expand(json.RawMessage(with), s, run)
		if err != nil || string(got) != want {
			t.Errorf("%s = %s, %v, want %s", with, got, err, want)
		}
	}
	for _, with := range []string{
		`{"a":"{{state.late}}"}`, `{"a":"{{ state.n }}"}`, `{"a":"{{state.n"}`, `{"a":"{{}}"}`, `{"a":"{{run.ghost}}"}`, `{"a":"{{state.ref.size}}"}`,
		`{"a":"{{state}}"}`, `{"a":"{{STATE.n}}"}`, `{"a":"{{state.n.}}"}`,
	} {
		if got, err := Expand(json.RawMessage(with), s, run); err == nil {
			t.Errorf("%s = %s, want an error", with, got)
		}
	}
}
