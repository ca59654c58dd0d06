package engine

import "github.com/pipelinebot/pipelinebot/checkpoints"

// Results that are given to runs which no sink has ended.
const (
	resultError     = "error"
	resultCancelled = "cancelled"
	// resultClosed: the issue or the pull request was closed under the run.
	resultClosed = "closed"
)

// StatusOf is the final status of a run by the result it ended with: Done,
// unless it failed or its work was taken away from it.
func StatusOf(result string) checkpoints.Status {
	switch result {
	case resultError:
		return checkpoints.Failed
	case resultCancelled, resultClosed:
		return checkpoints.Cancelled
	}
	return checkpoints.Done
}
