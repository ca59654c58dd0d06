package flowops_test

import (
	"strings"
	"testing"

	"github.com/pipelinebot/pipelinebot/flows"
	"github.com/pipelinebot/pipelinebot/internal/flowops"
)

// What people read is the flow that was frozen: it loads with the same hash.
func TestReadable(t *testing.T) {
	t.Parallel()
	f := walked(t, session, "shipped", "explore").Run
	text, err := flowops.Readable(f.Definition)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), "\n  - id: explore\n    kind: fanout\n") {
		t.Errorf("not as people write it:\n%s", text)
	}
	again, problems := flows.Load("again.yaml", text, registry(t))
	if len(problems) > 0 {
		t.Fatalf("%v\n%s", problems, text)
	}
	if again.Hash() != f.DefinitionHash {
		t.Errorf("the hash is %s, was %s:\n%s", again.Hash(), f.DefinitionHash, text)
	}
}

func TestReadableOfNoFlow(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{"", "[]", "{", `"text"`} {
		if _, err := flowops.Readable([]byte(bad)); err == nil {
			t.Errorf("%q is read", bad)
		}
	}
}
