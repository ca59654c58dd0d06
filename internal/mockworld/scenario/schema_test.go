package scenario

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
	"go.yaml.in/yaml/v3"
)

var update = flag.Bool("update", false, "write scenario.schema.json anew")

// TestSchema holds the file that editors read to the types, and every scenario
// of the repository to the file.
func TestSchema(t *testing.T) {
	t.Parallel()
	got, err := Schema()
	if err != nil {
		t.Fatal(err)
	}
	root := filepath.Join("..", "..", "..")
	path := filepath.Join(root, "scenario.schema.json")
	if *update {
		if err := os.WriteFile(path, got, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s is not what the types say: write it anew with go test ./internal/mockworld/scenario -run TestSchema -update", path)
	}
	var schema jsonschema.Schema
	if err := json.Unmarshal(got, &schema); err != nil {
		t.Fatal(err)
	}
	resolved, err := schema.Resolve(nil)
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(root, "testdata", "scenarios", "*.yaml"))
	if err != nil || len(files) < 20 {
		t.Fatalf("%d scenarios: %v", len(files), err)
	}
	for _, f := range files {
		if err := resolved.Validate(instance(t, f)); err != nil {
			t.Errorf("%s: %v", f, err)
		}
	}
	for name, bad := range map[string]string{
		"unknown key": `{"name":"x","covers":["Labels"],"world":{},"expect":{},"colour":1}`,
		"no name":     `{"covers":["Labels"],"world":{},"expect":{}}`,
		"kind":        `{"name":"x","covers":["Weather"],"world":{},"expect":{}}`,
		"count":       `{"name":"x","covers":["Labels"],"world":{},"expect":{"bot_starts":"about 3"}}`,
		"duration":    `{"name":"x","covers":["Labels"],"world":{},"expect":{},"settle":"soon"}`,
	} {
		var v any
		if err := json.Unmarshal([]byte(bad), &v); err != nil {
			t.Fatal(err)
		}
		if resolved.Validate(v) == nil {
			t.Errorf("%s: the schema takes %s", name, bad)
		}
	}
}

// instance reads a file as JSON has it.
func instance(t *testing.T, path string) any {
	t.Helper()
	src, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var doc, v any
	if err := yaml.Unmarshal(src, &doc); err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, &v); err != nil {
		t.Fatal(err)
	}
	return v
}
