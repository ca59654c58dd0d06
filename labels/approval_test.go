package labels_test

import (
	"testing"

	"github.com/pipelinebot/pipelinebot/internal/forge"
	"github.com/pipelinebot/pipelinebot/labels"
)

// Who may answer an approval node is what the node says, and not what the
// policy says of plans. Bots stay denied.
//
// Covers: VK5, NX11.
func TestApprovalNode(t *testing.T) {
	t.Parallel()
	waits := func(approvers ...string) func(*labels.Input) {
		return func(in *labels.Input) {
			in.Run = &labels.Run{ID: "root", Phase: labels.Implement, Status: "waiting", Awaits: "child/c"}
			in.Approval = &labels.Approval{Run: "c", Flow: "release", Approvers: approvers}
		}
	}
	as := func(a labels.Actor) func(*labels.Input) { return func(in *labels.Input) { in.Actor = a } }
	bot := person(forge.Admin)
	bot.Bot = true
	tests := []struct {
		name    string
		comment string
		waits   func(*labels.Input)
		as      labels.Actor
		action  labels.Action
		outcome any
	}{
		{"a role that is enough", "/pipeline approve", waits("role:write"), person(forge.Write), labels.Deliver, "ok"},
		{"a higher role", "/pipeline approve", waits("role:triage"), person(forge.Admin), labels.Deliver, "ok"},
		{"a lower role", "/pipeline approve", waits("role:maintain"), person(forge.Write), labels.Refuse, nil},
		{"a lower role than plans need", "/pipeline approve", waits("role:triage"), person(forge.Triage), labels.Deliver, "ok"},
		{"by name, in another case", "/pipeline approve", waits("role:admin", "user:ADA"), person(forge.Read), labels.Deliver, "ok"},
		{"another name", "/pipeline approve", waits("user:bob"), person(forge.Admin), labels.Refuse, nil},
		{"a role that nobody knows", "/pipeline approve", waits("role:owner"), person(forge.Admin), labels.Refuse, nil},
		{"a role that everybody has", "/pipeline approve", waits("role:read"), person(forge.Admin), labels.Refuse, nil},
		{"deny", "/pipeline deny too risky", waits("role:write"), person(forge.Write), labels.Deliver, "denied"},
		{"reject", "/pipeline reject", waits("role:write"), person(forge.Write), labels.Deliver, "denied"},
		{"a bot", "/pipeline approve", waits("role:write"), bot, labels.Ignore, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := machine().Decide(with(with(said(tt.comment), tt.waits), as(tt.as)))
			if got.Action != tt.action || got.Data["outcome"] != tt.outcome {
				t.Fatalf("decision = %+v", got)
			}
			if tt.action != labels.Deliver {
				return
			}
			if got.Run != "c" || got.Deliver != "approval" || got.Data["by"] != "ada" || got.Data["role"] != tt.as.Permission.String() {
				t.Errorf("decision = %+v", got)
			}
			if note := got.Data["note"]; tt.name == "deny" && note != "too risky" {
				t.Errorf("note = %v", note)
			}
		})
	}
}
