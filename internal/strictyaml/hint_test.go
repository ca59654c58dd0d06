package strictyaml_test

import (
	"strings"
	"testing"

	"github.com/pipelinebot/pipelinebot/internal/strictyaml"
)

func TestNearest(t *testing.T) {
	t.Parallel()
	known := []string{"workers", "base_url", "repositories"}
	for word, want := range map[string]string{
		"wrokers": "workers", "Workers": "workers", "worker": "workers", "base-url": "base_url",
		"zzzz": "", "": "", strings.Repeat("w", 1000): "",
	} {
		if got := strictyaml.Nearest(word, known); got != want {
			t.Errorf("Nearest(%.20q) = %q, want %q", word, got, want)
		}
	}
}
