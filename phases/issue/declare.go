package issue

import (
	"maps"

	"github.com/pipelinebot/pipelinebot/flows"
)

// Declare says of actions what the loader of flows checks: with which results
// each may end its flow early, by the action's name, and the types of the state
// keys that all phases share. It returns the actions.
func Declare(actions []flows.Action, ends map[string][]string) []flows.Action {
	types := keyTypes()
	for i := range actions {
		a := &actions[i]
		if results, ok := ends[a.Name]; ok {
			a.Ends = flows.Ends(results...)
		}
		own := map[string]flows.FieldType{}
		for _, keys := range [][]string{a.Reads, a.Writes} {
			for _, key := range keys {
				if t, ok := types[key]; ok {
					own[key] = t
				}
			}
		}
		maps.Copy(own, a.Types)
		a.Types = own
	}
	return actions
}

// keyTypes are the types of the keys that actions hand to each other. `result`
// is the flow's own.
func keyTypes() map[string]flows.FieldType {
	types := map[string]flows.FieldType{}
	for t, keys := range map[flows.FieldType][]string{
		flows.ArtifactField: {
			"issue_ref", "verdict_ref", "notes_ref", "plan_ref", "problems_ref", "findings_ref", "work_ref", "diff_ref", "report_ref",
			"baseline_ref", "evidence_ref", "attempts_ref", "patch_ref", "last_ref", "full_ref", "correctness_ref", "safety_ref", "judged_ref",
		},
		flows.StringField: {
			"text_hash", "kind", "size", "risk", "route", "answered_by", "base_sha", "default_branch", "plan_hash", "comment_hash",
			"approved_by", "approved_hash", "approved_via", "approval", "lapse", "branch", "head_sha", "work_base", "ci", "ci_note",
			"verdict", "why",
		},
		flows.ListField: {"missing", "merged_before", "signatures", "test_argv", "failing", "flaky"},
		flows.IntField:  {"plan_comment", "drafts", "problems", "pr", "attempt", "conflicts"},
		flows.BoolField: {"auto", "blocked", "passed", "green"},
	} {
		for _, key := range keys {
			types[key] = t
		}
	}
	return types
}
