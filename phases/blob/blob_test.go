package blob_test

import (
	"strings"
	"testing"

	"github.com/pipelinebot/pipelinebot/checkpoints"
	"github.com/pipelinebot/pipelinebot/checkpoints/memory"
	"github.com/pipelinebot/pipelinebot/phases/blob"
)

func TestRoundTrip(t *testing.T) {
	t.Parallel()
	s := &memory.Artifacts{}
	a, err := blob.PutJSON(t.Context(), s, "thing", map[string]int{"a": 1})
	if err != nil || !blob.Set(a) {
		t.Fatalf("%+v, %v", a, err)
	}
	got, err := blob.GetJSON[map[string]int](t.Context(), s, "thing", a)
	if err != nil || got["a"] != 1 {
		t.Errorf("%v, %v", got, err)
	}
}

// What is not set is nothing; what is missing or broken is an error that says
// what was wanted.
func TestUnsetMissingBroken(t *testing.T) {
	t.Parallel()
	s := &memory.Artifacts{}
	if b, err := blob.Get(t.Context(), s, "thing", checkpoints.Artifact{}); b != nil || err != nil {
		t.Errorf("unset: %q, %v", b, err)
	}
	if v, err := blob.GetJSON[[]string](t.Context(), s, "thing", checkpoints.Artifact{}); v != nil || err != nil {
		t.Errorf("unset: %v, %v", v, err)
	}
	if _, err := blob.Get(t.Context(), s, "thing", checkpoints.Artifact{SHA256: "gone"}); err == nil || !strings.Contains(err.Error(), "opening the thing") {
		t.Errorf("missing: %v", err)
	}
	a, err := blob.Put(t.Context(), s, "thing", []byte("{"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := blob.GetJSON[map[string]int](t.Context(), s, "thing", a); err == nil || !strings.Contains(err.Error(), "decoding the thing") {
		t.Errorf("broken: %v", err)
	}
}
