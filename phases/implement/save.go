package implement

import (
	"github.com/pipelinebot/pipelinebot/flows"
	"github.com/pipelinebot/pipelinebot/phases/delivery"
)

// saveWork runs on every ending. When the work did not become a pull request
// it is kept on the WIP branch, and the worktree is removed in any case. Its
// note says where the work is.
func (p phase) saveWork() flows.Action {
	return delivery.Keeper{Trees: p.Trees, Rules: p.Rules, Identity: p.Identity, Saved: p.Saved}.Action("implement.save_work", "work_base")
}
