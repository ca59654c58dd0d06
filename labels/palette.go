package labels

import "github.com/pipelinebot/pipelinebot/internal/forge"

// Palette is the labels as they should be in a repository, with colours and
// descriptions (GitHub allows 100 characters).
func Palette(n Names) []forge.Label {
	const work, wait, end, control = "1d76db", "fbca04", "0e8a16", "b60205"
	return []forge.Label{
		{Name: n.Triage, Color: work, Description: "Ask pipelinebot to triage this issue"},
		{Name: n.Plan, Color: work, Description: "pipelinebot plans a change"},
		{Name: n.AwaitingApproval, Color: wait, Description: "A plan waits for a maintainer's approval"},
		{Name: n.Approved, Color: wait, Description: "Approves the plan that waits"},
		{Name: n.Implement, Color: work, Description: "pipelinebot carries out the plan"},
		{Name: n.Review, Color: work, Description: "pipelinebot reviews the pull request"},
		{Name: n.Done, Color: end, Description: "The pipeline is through; the pull request is yours"},
		{Name: n.NeedsHuman, Color: wait, Description: "A person has to look; the status comment says why"},
		{Name: n.Declined, Color: "cccccc", Description: "Not work for the pipeline"},
		{Name: n.Stop, Color: control, Description: "Stops the pipeline on this issue"},
		{Name: n.StopAll, Color: control, Description: "On any issue: stops the pipeline in the whole repository"},
		{Name: n.Auto, Color: "5319e7", Description: "Skips the human approval of the plan"},
	}
}
