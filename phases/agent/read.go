package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/pipelinebot/pipelinebot/flows"
	"github.com/pipelinebot/pipelinebot/phases/actuators"
	"github.com/pipelinebot/pipelinebot/phases/blob"
	"github.com/pipelinebot/pipelinebot/phases/issue"
	"github.com/pipelinebot/pipelinebot/phases/markdown"
	"github.com/pipelinebot/pipelinebot/phases/tree"
)

type readWith struct {
	ask
	// Out are the state keys that the answer fills, with their types.
	Out map[string]outField `json:"out"`
}

// outField is "string", or {type: string, about: …, max: 200}.
type outField struct {
	Type  string `json:"type"`
	About string `json:"about"`
	Max   int    `json:"max"`
}

// artifactType is an answer too large for the state: the model writes a text,
// the state gets a reference.
const artifactType = "artifact"

// outTypes are the types that an answer's field may have.
func outTypes() []string {
	types := []string{artifactType}
	for _, t := range actuators.FieldTypes() {
		types = append(types, string(t))
	}
	return types
}

// UnmarshalJSON implements json.Unmarshaler.
func (f *outField) UnmarshalJSON(raw []byte) error {
	if len(raw) > 0 && raw[0] == '"' {
		return json.Unmarshal(raw, &f.Type)
	}
	type plain outField
	p, err := flows.With[plain](raw)
	*f = outField(p)
	return err
}

func (w readWith) form() actuators.Form {
	form := actuators.Form{}
	for key, f := range w.Out {
		t := actuators.FieldType(f.Type)
		if f.Type == artifactType {
			t = actuators.Text
		}
		form[key] = actuators.Field{Type: t, About: f.About, Max: f.Max}
	}
	return form
}

func checkRead(raw json.RawMessage) error {
	w, err := flows.With[readWith](raw)
	if err != nil {
		return err
	}
	if len(w.Out) == 0 {
		return errors.New("out is empty: name the state keys that the answer fills, e.g. out: {found: bool}")
	}
	for _, key := range slices.Sorted(maps.Keys(w.Out)) {
		f := w.Out[key]
		if f.Max < 0 {
			return fmt.Errorf("out.%s: max can't be negative", key)
		}
		if !slices.Contains(outTypes(), f.Type) {
			return &flows.WithError{Key: key, Msg: fmt.Sprintf("has no type %q for %s", f.Type, key), Hint: flows.Nearest(f.Type, outTypes())}
		}
	}
	if err := w.form().Check(); err != nil {
		return fmt.Errorf("out: %w", err)
	}
	return w.check()
}

// read lets a model look around in the repository, and nothing else, and puts
// its answers into the state. It reads base_sha, work_ref (the changes so far,
// when the node has it) and the keys to show; it writes the keys of out. A
// model that gives no answer fails the node, whose edges say what then.
func (k kit) read() flows.Action {
	return flows.Action{
		Name: "agent.read", Version: "1", ReadOnly: true, Spends: true, CheckWith: checkRead,
		CheckNode: readNode, Types: baseTypes(),
		Run: func(ctx context.Context, c flows.Call) (flows.Result, error) {
			with, err := flows.With[readWith](c.With)
			if err != nil {
				return flows.Result{}, err
			}
			request, err := with.request(ctx, c, "read", readPrompt)
			if err != nil {
				return flows.Result{}, err
			}
			at, err := position(c)
			if err != nil {
				return flows.Result{}, err
			}
			w, done, err := k.Trees.OpenCopy(ctx, c, at)
			if err != nil {
				return flows.Result{}, issue.Retryable(err)
			}
			answer, log, err := actuators.WorkForm(ctx, c, k.Models, request, actuators.Toolbox{
				Dir: w.Dir(), ReadOnly: true, MaxTurns: with.MaxTurns,
			}, with.form())
			if err := errors.Join(err, done(ctx)); err != nil {
				return flows.Result{}, fmt.Errorf("reading: %w", err)
			}
			delta, err := keep(ctx, c, with.Out, answer)
			if err != nil {
				return flows.Result{}, err
			}
			return flows.Result{Delta: delta, Note: "answered in " + markdown.Count(log.Turns, "turn")}, nil
		},
	}
}

func keep(ctx context.Context, c flows.Call, out map[string]outField, answer map[string]any) (flows.Delta, error) {
	delta := flows.Delta{}
	for _, key := range slices.Sorted(maps.Keys(answer)) {
		delta[key] = answer[key]
		if text, ok := answer[key].(string); ok && out[key].Type == artifactType {
			a, err := blob.Put(ctx, c.Artifacts, key, []byte(text))
			if err != nil {
				return nil, err
			}
			delta[key] = a
		}
	}
	return delta, nil
}

// position is where the run's work stands.
func position(c flows.Call) (tree.At, error) {
	base := c.In.Str("base_sha")
	if base == "" {
		return tree.At{}, errors.New("there is no base_sha: let workspace.pin run before, and name base_sha in the node's `in`")
	}
	return tree.At{Base: base, Patch: c.In.Artifact("work_ref")}, nil
}
