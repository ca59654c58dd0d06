package main

import (
	"context"
	"encoding/json"
	"path/filepath"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/pipelinebot/pipelinebot/checkpoints"
	"github.com/pipelinebot/pipelinebot/checkpoints/sqlite"
	"github.com/pipelinebot/pipelinebot/flows"
	"github.com/pipelinebot/pipelinebot/flows/engine"
	"github.com/pipelinebot/pipelinebot/internal/app"
)

// seedRuns makes runs of flows in the folder flows in the database of a
// script, by the real engine and store, and puts their ids into variables:
//
//	seedruns A=mini B=mini:ok C=mini:denied D=mini:drift E=mini:shadow:ok
//
// A run waits at its first approval, unless an answer is given; then it is
// over. Drift makes it one of another version of its actions.
func seedRuns(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: seedruns NAME=FLOW[:WORD]...")
	}
	ctx := context.Background()
	reg, err := app.Registry()
	ts.Check(err)
	catalog, err := app.Catalog(reg, ts.MkAbs("flows"))
	ts.Check(err)
	store, err := sqlite.Open(ctx, sqlite.Options{Path: filepath.Join(ts.MkAbs("data"), "pipelinebot.db")})
	ts.Check(err)
	defer func() { ts.Check(store.Close()) }()
	s := seeder{ts, store, engine.New(engine.Options{Store: store, Registry: reg}), 0}
	for _, arg := range args {
		name, what, _ := strings.Cut(arg, "=")
		words := strings.Split(what, ":")
		flow, err := catalog.Get(words[0])
		ts.Check(err)
		ts.Setenv(name, s.run(ctx, flow, words[1:]))
	}
}

type seeder struct {
	ts     *testscript.TestScript
	store  *sqlite.Store
	engine *engine.Engine
	issue  int
}

func (s *seeder) run(ctx context.Context, flow *flows.Flow, words []string) string {
	s.issue++
	req := checkpoints.StartReq{Repo: "acme/widgets", Issue: s.issue}
	drift, answer := false, ""
	for _, w := range words {
		switch w {
		case "drift":
			drift = true
		case "shadow":
			req.Mode = checkpoints.ModeShadow
		default:
			answer = w
		}
	}
	req.Key = "acme/widgets#" + string(rune('0'+s.issue))
	req, err := s.engine.Freeze(flow, req, flows.State{})
	s.ts.Check(err)
	if drift {
		for name := range req.Actions {
			req.Actions[name] = "0"
		}
	}
	run, err := s.store.Start(ctx, req)
	s.ts.Check(err)
	s.walk(ctx, run.ID)
	if answer == "" {
		return run.ID
	}
	data, err := json.Marshal(map[string]string{"by": "ada", "role": "admin", "outcome": answer})
	s.ts.Check(err)
	_, err = s.store.Deliver(ctx, run.ID, checkpoints.Event{Key: "comment/1", Kind: flows.ApprovalEvent, Data: data, At: time.Now()})
	s.ts.Check(err)
	s.walk(ctx, run.ID)
	return run.ID
}

// walk walks a run, and makes it final when it is over.
func (s *seeder) walk(ctx context.Context, id string) {
	run, err := s.store.Get(ctx, id)
	s.ts.Check(err)
	run, lease, err := s.store.Claim(ctx, id, run.Epoch, "seed", time.Minute)
	s.ts.Check(err)
	out, err := s.engine.Walk(ctx, run, lease)
	s.ts.Check(err)
	if out.How == engine.Ended {
		_, err = s.store.Finish(ctx, lease, checkpoints.Done, nil)
		s.ts.Check(err)
	}
	children, err := s.store.List(ctx, checkpoints.Filter{Parent: id, Statuses: []checkpoints.Status{checkpoints.Ready}})
	s.ts.Check(err)
	for _, child := range children {
		s.walk(ctx, child.ID)
	}
}
