package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strconv"

	"github.com/pipelinebot/pipelinebot/checkpoints"
	"github.com/pipelinebot/pipelinebot/checkpoints/sqlite"
	"github.com/pipelinebot/pipelinebot/flows"
	"github.com/pipelinebot/pipelinebot/flows/engine"
	"github.com/pipelinebot/pipelinebot/internal/clock"
	"github.com/pipelinebot/pipelinebot/internal/config"
	"github.com/pipelinebot/pipelinebot/internal/forge"
	"github.com/pipelinebot/pipelinebot/internal/queue/river"
)

// Desk is where an operator acts on the store, beside a daemon or without one.
// What needs the forge is put into the inbox for the daemon; the rest is done
// at once. Everything leaves an audit line.
type Desk struct {
	Reader
	store   *sqlite.Store
	engine  *engine.Engine
	catalog *flows.Catalog
	reg     *flows.Registry
	by      string
	path    string // of the database
}

// OpenDesk opens the store for an operator's commands. Close it afterwards.
func OpenDesk(ctx context.Context, cfg *config.Config) (_ *Desk, err error) {
	return openDesk(ctx, cfg, sqlite.Shared)
}

// OpenAudit opens the store to look at runs as the engine does, without any
// write.
func OpenAudit(ctx context.Context, cfg *config.Config) (*Desk, error) {
	return openDesk(ctx, cfg, sqlite.ReadOnly)
}

func openDesk(ctx context.Context, cfg *config.Config, mode sqlite.Mode) (_ *Desk, err error) {
	reg, err := Registry()
	if err != nil {
		return nil, err
	}
	catalog, err := Catalog(reg, cfg.FlowsDir)
	if err != nil {
		return nil, setup(err)
	}
	path := filepath.Join(cfg.DataDir, databaseFile)
	store, err := sqlite.Open(ctx, sqlite.Options{Path: path, Mode: mode})
	if err != nil {
		return nil, setup(err)
	}
	d := &Desk{Reader: store, store: store, catalog: catalog, reg: reg, by: Operator(), path: path}
	d.engine = engine.New(engine.Options{Store: store, Registry: reg})
	if mode != sqlite.ReadOnly {
		q, err := river.New(ctx, river.Options{DB: store.DB()})
		if err != nil {
			return nil, errors.Join(setup(err), store.Close())
		}
		store.SetEnqueuer(q.Enqueue)
	}
	return d, nil
}

// Operator is the name of whoever runs the program, as operators' actions are
// recorded.
func Operator() string {
	u, err := user.Current()
	if err != nil || u.Username == "" {
		return "uid " + strconv.Itoa(os.Getuid())
	}
	return u.Username
}

// Send puts an operator's event into the inbox and returns the row's id.
func (d *Desk) Send(ctx context.Context, ev forge.Event) (rowID string, err error) {
	order := forge.Order{}
	if ev.Order != nil {
		order = *ev.Order
	}
	order.By = d.by
	ev.Order = &order
	return receive(ctx, d.store, ev)
}

// ErrNotAsked means that neither a run nor a child of it waits for an
// approval.
var ErrNotAsked = errors.New("it does not wait for an approval")

// Asked is the run that waits for an approval: the given one, or the child
// that has waited longest. ErrNotAsked when there is none.
func (d *Desk) Asked(ctx context.Context, run checkpoints.Run) (checkpoints.Run, error) {
	if run.Status == checkpoints.Waiting && run.Wait.Awaits(flows.ApprovalEvent) {
		return run, nil
	}
	children, err := d.store.List(ctx, checkpoints.Filter{Parent: run.ID, Limit: searched, Statuses: open()})
	if err != nil {
		return run, fmt.Errorf("looking for the children of run %s: %w", run.ID, err)
	}
	for i := len(children) - 1; i >= 0; i-- {
		found, err := d.Asked(ctx, children[i])
		if err == nil || !errors.Is(err, ErrNotAsked) {
			return found, err
		}
	}
	return run, fmt.Errorf("run %s is %s: %w", run.ID, run.Status, ErrNotAsked)
}

// Answer gives the run that Asked has found an operator's yes or no.
func (d *Desk) Answer(ctx context.Context, run checkpoints.Run, yes bool, note string) error {
	what, outcome := "approve", flows.OK
	if !yes {
		what, outcome = "deny", flows.Denied
	}
	data := map[string]any{"by": d.by, "role": "operator", "via": "operator", "outcome": string(outcome), "hash": ""}
	if note != "" {
		data["note"] = note
	}
	// A plan's approval is bound to the plan that is shown now.
	state, err := flows.DecodeState(run.State)
	if err != nil {
		return fmt.Errorf("reading the state of run %s, which tells the plan that is answered: %w", run.ID, err)
	}
	data["hash"] = state.Str("plan_hash")
	body, err := json.Marshal(data)
	if err != nil {
		return fmt.Errorf("encoding the answer to run %s: %w", run.ID, err)
	}
	if err := d.note(ctx, run.ID, what, note); err != nil {
		return err
	}
	now := clock.Real{}.Now()
	_, err = d.store.Deliver(ctx, run.ID, checkpoints.Event{Key: "operator/" + checkpoints.NewID(now), Kind: flows.ApprovalEvent, Data: body, At: now})
	if err != nil {
		return fmt.Errorf("handing the answer to run %s: %w", run.ID, err)
	}
	return nil
}

// Live is the flow that has the name of a run's now; nil when there is none
// that is valid.
func (d *Desk) Live(run checkpoints.Run) *flows.Flow {
	f, err := d.catalog.Get(run.Flow)
	if err != nil {
		return nil
	}
	return f
}

// Frozen is the flow that a run walks; it is returned also when its actions
// are of other versions now.
func (d *Desk) Frozen(run checkpoints.Run) (*flows.Flow, error) {
	f, err := flows.Thaw(run.Definition, run.DefinitionHash, run.Actions, d.reg)
	if f != nil && errors.Is(err, flows.ErrDrift) {
		return f, nil
	}
	return f, err
}

// Audit says whether a run can be resumed by this program.
func (d *Desk) Audit(ctx context.Context, run checkpoints.Run) (engine.Audit, error) {
	var live *flows.Flow
	if run.Parent == "" { // a child's definition is its parent's
		live = d.Live(run)
	}
	return d.engine.Audit(ctx, run, live)
}

// AcceptDrift lets a run go on with the actions of this program; its frozen
// definition stays.
func (d *Desk) AcceptDrift(ctx context.Context, run checkpoints.Run) error {
	f, err := d.Frozen(run)
	if err != nil {
		return fmt.Errorf("accepting the drift of run %s: %w", run.ID, err)
	}
	return d.store.Accept(ctx, run.ID, f.Actions(), d.by)
}

// CheckFork says whether a run can be forked as asked, before anything is
// sent.
func (d *Desk) CheckFork(ctx context.Context, run checkpoints.Run, node string, edits map[string]json.RawMessage) error {
	_, err := d.engine.Fork(ctx, run, node, edits)
	return err
}

// EffectParity compares what a shadow run would have done outside with what the
// real one did.
func (d *Desk) EffectParity(ctx context.Context, shadow, real checkpoints.Run) ([]engine.Difference, error) {
	a, err := d.engine.TraceEffects(ctx, shadow)
	if err != nil {
		return nil, err
	}
	b, err := d.engine.TraceEffects(ctx, real)
	if err != nil {
		return nil, err
	}
	return engine.EffectParity(a, b), nil
}

// open are the statuses of runs that are not final.
func open() []checkpoints.Status {
	return []checkpoints.Status{
		checkpoints.Queued, checkpoints.Ready, checkpoints.Running, checkpoints.Waiting, checkpoints.Halted, checkpoints.Ending,
	}
}
