package memory_test

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/pipelinebot/pipelinebot/checkpoints"
	"github.com/pipelinebot/pipelinebot/checkpoints/memory"
	"github.com/pipelinebot/pipelinebot/internal/queue"
)

// The life of a run of one node: started, claimed by the token that the start
// gave out, committed and finished.
func Example() {
	ctx := context.Background()
	var tokens []queue.Token
	s := memory.New(memory.Options{Enqueue: func(t queue.Token) { tokens = append(tokens, t) }})

	_, err := s.Start(ctx, checkpoints.StartReq{Key: "acme/widgets#7", Repo: "acme/widgets", Issue: 7, Phase: "triage", Entry: "classify"})
	if err != nil {
		panic(err)
	}
	run, lease, err := s.Claim(ctx, tokens[0].ID, tokens[0].Epoch, "worker-1", time.Minute)
	if err != nil {
		panic(err)
	}
	fmt.Println(run.Status, "at", run.Next)

	err = s.Commit(ctx, lease, checkpoints.Commit{
		Record: checkpoints.NodeRecord{Node: "classify", Kind: "step", Outcome: "ok"},
		Seq:    run.Seq + 1,
		State:  json.RawMessage(`{"kind":"bug"}`),
		Ending: &checkpoints.Ended{Result: "ready", Code: "ok", Reason: "a clear bug report"},
	})
	if err != nil {
		panic(err)
	}
	if _, err := s.Finish(ctx, lease, checkpoints.Done, nil); err != nil {
		panic(err)
	}
	run, err = s.Get(ctx, run.ID)
	if err != nil {
		panic(err)
	}
	fmt.Println(run.Status, "with", run.Result, string(run.State))
	// Output:
	// running at classify
	// done with ready {"kind":"bug"}
}
