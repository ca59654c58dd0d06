package issue

import (
	"context"

	"github.com/pipelinebot/pipelinebot/flows"
	"github.com/pipelinebot/pipelinebot/phases/blob"
	"github.com/pipelinebot/pipelinebot/phases/markdown"
)

// SnapshotAction is the first node of a phase: it reads the issue as it is
// now. It writes issue_ref (a Snapshot) and text_hash, and ends the flow when
// the issue is not open to work.
func SnapshotAction(name string, r Reader) flows.Action {
	return flows.Action{
		Name: name, Version: "1",
		Reads: []string{}, Writes: []string{"issue_ref", "text_hash", "result"},
		Run: Guard(func(ctx context.Context, c flows.Call) (flows.Result, error) {
			ref, err := Ref(c)
			if err != nil {
				return flows.Result{}, err
			}
			i, end, stop, err := Read(ctx, r, ref)
			if err != nil || stop {
				return end, err
			}
			s, err := Take(ctx, r, i)
			if err != nil {
				return flows.Result{}, err
			}
			a, err := blob.PutJSON(ctx, c.Artifacts, "issue snapshot", s)
			if err != nil {
				return flows.Result{}, err
			}
			return flows.Result{
				Delta: flows.Delta{"issue_ref": a, "text_hash": s.TextHash},
				Note:  "read the issue and " + markdown.Count(len(s.Comments), "comment"),
			}, nil
		}),
	}
}

// Load reads the snapshot that a state refers to by issue_ref.
func Load(ctx context.Context, c flows.Call) (Snapshot, error) {
	return blob.GetJSON[Snapshot](ctx, c.Artifacts, "issue snapshot", c.In.Artifact("issue_ref"))
}
