package review

import (
	"embed"

	"github.com/pipelinebot/pipelinebot/phases/actuators"
)

//go:embed prompts
var promptFiles embed.FS

// PromptNames are the ids of the phase's prompts without their versions, as
// models.prompts of the configuration names them.
func PromptNames() []string { return actuators.PromptNames("review", promptFiles) }
