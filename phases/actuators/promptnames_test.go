package actuators_test

import (
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/pipelinebot/pipelinebot/phases/actuators"
)

func TestPromptNames(t *testing.T) {
	t.Parallel()
	files := fstest.MapFS{}
	for _, name := range []string{"prompts/draft@2.md", "prompts/draft@1.md", "prompts/critique@1.md", "prompts/README.md", "prompts/old/x@1.md", "x@1.md"} {
		files[name] = &fstest.MapFile{}
	}
	if diff := cmp.Diff([]string{"plan/critique", "plan/draft"}, actuators.PromptNames("plan", files)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
