package writer_test

import (
	"testing"

	"github.com/pipelinebot/pipelinebot/phases/writer"
)

// Something must be said: of what was done, or of why nothing was.
func TestReportCheck(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		report writer.Report
		fits   bool
	}{
		"done":     {writer.Report{Summary: "Bumped it."}, true},
		"not done": {writer.Report{Unfinished: "It is right already."}, true},
		"nothing":  {writer.Report{}, false},
		"blank":    {writer.Report{Summary: " \n", Unfinished: "\t"}, false},
	} {
		if err := tc.report.Check(); (err == nil) != tc.fits {
			t.Errorf("%s: %v", name, err)
		}
	}
}
