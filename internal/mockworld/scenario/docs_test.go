package scenario

import (
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
)

// TestDocumentation loads the whole example of docs/scenarios.md and sees that
// every key of the format is explained there.
func TestDocumentation(t *testing.T) {
	t.Parallel()
	b, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "scenarios.md"))
	if err != nil {
		t.Fatal(err)
	}
	doc := string(b)
	blocks := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(doc, -1)
	if len(blocks) != 2 {
		t.Fatalf("%d examples, want 2", len(blocks))
	}
	whole := blocks[0][1]
	if _, err := Load("whole", []byte(whole)); err != nil {
		t.Errorf("the whole example: %v", err)
	}
	if _, err := Load("faults", []byte(whole+blocks[1][1])); err != nil {
		t.Errorf("the example with faults: %v", err)
	}
	for key := range keys(reflect.TypeFor[Scenario](), map[reflect.Type]bool{}) {
		if !strings.Contains(doc, key) {
			t.Errorf("the key %s is not explained", key)
		}
	}
}

// keys are all json names below a type.
func keys(typ reflect.Type, seen map[reflect.Type]bool) map[string]bool {
	out := map[string]bool{}
	switch typ.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map:
		return keys(typ.Elem(), seen)
	case reflect.Struct:
	default:
		return out
	}
	if seen[typ] {
		return out
	}
	seen[typ] = true
	for i := range typ.NumField() {
		f := typ.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "" || name == "-" {
			continue
		}
		out[name] = true
		for k := range keys(f.Type, seen) {
			out[k] = true
		}
	}
	return out
}
