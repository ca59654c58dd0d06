// Package flowops is the pure logic behind the commands on flows and runs:
// what differs between two runs, whether a shadow run agrees with the real
// one, and a flow made of a run. Nothing in it reads or writes anything, and no
// model is asked.
//
// It must not know stores, files or the forge. It may import checkpoints,
// flows and the YAML library, by which an adopted flow is written.
package flowops

import (
	"github.com/pipelinebot/pipelinebot/checkpoints"
)

// Record is a run with what it did.
type Record struct {
	Run checkpoints.Run
	// History is the completed nodes, in order.
	History []checkpoints.NodeRecord
}
