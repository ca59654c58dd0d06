package flows

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/jsonschema-go/jsonschema"
	"go.yaml.in/yaml/v3"
)

// The schema that is checked in is the one that the loader's tables give; all
// that the loader accepts fits it, and it finds what an editor can find.
func TestJSONSchema(t *testing.T) {
	t.Parallel()
	raw, err := JSONSchema()
	if err != nil {
		t.Fatal(err)
	}
	const golden = "flow.schema.json"
	if *update {
		if err := os.WriteFile(golden, raw, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(string(readFile(t, golden)), string(raw)); diff != "" {
		t.Errorf("%s; run with -update (-want +got):\n%s", golden, diff)
	}
	var schema jsonschema.Schema
	if err := json.Unmarshal(raw, &schema); err != nil {
		t.Fatal(err)
	}
	resolved, err := schema.Resolve(nil)
	if err != nil {
		t.Fatal(err)
	}
	validate := func(src []byte) error {
		var v any
		if err := yaml.Unmarshal(src, &v); err != nil {
			t.Fatal(err)
		}
		b, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(b, &v); err != nil {
			t.Fatal(err)
		}
		return resolved.Validate(v)
	}
	reg := testRegistry(t)
	for _, file := range testFiles(t, "good/*.yaml") {
		src := readFile(t, file)
		if err := validate(src); err != nil {
			t.Errorf("%s: %v", file, err)
		}
		f, problems := Load(file, src, reg)
		if err := problems.Err(); err != nil {
			t.Fatal(err)
		}
		if err := validate(f.Definition()); err != nil {
			t.Errorf("canonical form of %s: %v", file, err)
		}
	}
	for _, file := range testFiles(t, "bad/*.yaml") {
		code, _, _ := strings.Cut(filepath.Base(file), ".")
		switch code {
		case "unknown-key", "unknown-kind", "missing-field", "loop-without-max", "wait-without-expiry":
			if validate(readFile(t, file)) == nil {
				t.Errorf("%s fits the schema", file)
			}
		}
	}
}
