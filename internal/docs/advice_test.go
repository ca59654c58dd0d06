package docs_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// What comments tell people to set must be a key of the configuration.
func TestAdviceNamesKeysOfTheConfiguration(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("../../config.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	var schema any
	if err := json.Unmarshal(raw, &schema); err != nil {
		t.Fatal(err)
	}
	var files []string
	for _, dir := range []string{"phases/*", "labels", "internal/report", "internal/worker", "internal/dispatch", "internal/breaker"} {
		found, err := filepath.Glob("../../" + dir + "/*.go")
		if err != nil || len(found) == 0 {
			t.Fatalf("%s: no files (%v)", dir, err)
		}
		files = append(files, found...)
	}
	keys := 0
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		src, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile("\"[^\"\n]*`([a-z_]+(?:\\.[a-z_]+)+)`").FindAllSubmatch(src, -1) {
			keys++
			if key := string(m[1]); !isKey(schema, strings.Split(key, ".")) {
				t.Errorf("%s names %s, which is no key of the configuration", file, key)
			}
		}
	}
	if keys < 3 {
		t.Errorf("%d keys found in the texts; does the test still look at them?", keys)
	}
}

// isKey follows a path through a JSON schema's properties.
func isKey(schema any, path []string) bool {
	for _, name := range path {
		of, _ := schema.(map[string]any)
		properties, _ := of["properties"].(map[string]any)
		if schema = properties[name]; schema == nil {
			return false
		}
	}
	return true
}
