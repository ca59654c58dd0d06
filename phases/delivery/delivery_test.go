package delivery_test

import (
	"testing"

	"github.com/pipelinebot/pipelinebot/flows"
	"github.com/pipelinebot/pipelinebot/phases/delivery"
	"github.com/pipelinebot/pipelinebot/phases/gates"
)

func TestWorthSaving(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		ended *flows.Ended
		pr    int
		want  bool
	}{
		{nil, 0, false},
		{&flows.Ended{How: "halted"}, 0, true},
		{&flows.Ended{How: "cancelled"}, 0, true},
		{&flows.Ended{How: "error"}, 0, true},
		{&flows.Ended{How: "sink", Result: "needs_human"}, 0, true},
		{&flows.Ended{How: "sink", Result: "no_progress"}, 0, true},
		{&flows.Ended{How: "sink", Result: "pr_opened"}, 0, false},
		{&flows.Ended{How: "sink", Result: "merged"}, 0, false},
		{&flows.Ended{How: "sink", Result: "empty"}, 0, false},
		{&flows.Ended{How: "sink", Result: "changed"}, 0, true},
		{&flows.Ended{How: "sink", Result: "changed"}, 9, false},
		{&flows.Ended{How: "sink", Result: "needs_human"}, 9, true},
	} {
		if got := delivery.WorthSaving(tc.ended, tc.pr); got != tc.want {
			t.Errorf("delivery.WorthSaving(%+v) = %t", tc.ended, got)
		}
	}
}

func TestEnding(t *testing.T) {
	t.Parallel()
	fatal := func(code string) []gates.Finding { return []gates.Finding{{Code: code, Path: "x", Fatal: true}} }
	for code, want := range map[string]string{
		gates.CodeEmpty: "empty", gates.CodeSecret: "needs_human", gates.CodeWorkflow: "needs_human", gates.CodeSubmodule: "needs_human",
		gates.CodeProtected: "needs_human", gates.CodeTooBig: "needs_human", gates.CodeScope: "", gates.CodeSymlink: "",
	} {
		r, stop := delivery.Ending(fatal(code), "")
		if stop != (want != "") || stop && r.Delta["result"] != want {
			t.Errorf("%s: %+v, stop %t; want %q", code, r, stop, want)
		}
	}
	if _, stop := delivery.Ending([]gates.Finding{{Code: gates.CodeBinary}}, ""); stop {
		t.Error("a finding that is not fatal ends the flow")
	}
}
