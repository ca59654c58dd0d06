package flows

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"
)

// The canonical form is the flow file again, as JSON with fixed order, all
// defaults written out.

type docFlow struct {
	API     string    `json:"apiVersion"`
	Name    string    `json:"name"`
	Version int       `json:"version"`
	Phase   string    `json:"phase"`
	Entry   string    `json:"entry"`
	Sink    string    `json:"sink"`
	State   docFields `json:"state"`
	Stop    *docStop  `json:"stop,omitempty"`
	Limits  docLimits `json:"limits"`
	One     *docOne   `json:"concurrency,omitempty"`
	Nodes   []docNode `json:"nodes"`
	Edges   []docEdge `json:"edges"`
	Finally []string  `json:"finally,omitempty"`
	// Flows are the children's canonical forms.
	Flows map[string]json.RawMessage `json:"flows,omitempty"`
}

type docOne struct {
	Key        string `json:"key"`
	OnConflict string `json:"on_conflict"`
}

type docStop struct {
	To string `json:"to"`
}

type docLimits struct {
	MaxSteps  int         `json:"max_steps"`
	Wall      string      `json:"wall,omitempty"`
	Tokens    int64       `json:"tokens,omitempty"`
	ToolCalls int64       `json:"tool_calls,omitempty"`
	CostUSD   json.Number `json:"cost_usd,omitempty"`
	WarnAt    float64     `json:"warn_at"`
}

// docFields keeps the order of the fields.
type docFields []docField

// MarshalJSON implements json.Marshaler.
func (fs docFields) MarshalJSON() ([]byte, error) {
	out := []byte("{")
	for i, f := range fs {
		if i > 0 {
			out = append(out, ',')
		}
		body, err := encode(f)
		if err != nil {
			return nil, fmt.Errorf("encoding state field %s: %w", f.key, err)
		}
		out = fmt.Appendf(out, "%q:%s", f.key, body)
	}
	return append(out, '}'), nil
}

type docField struct {
	key      string
	Type     FieldType       `json:"type"`
	Values   []string        `json:"values,omitempty"`
	Of       FieldType       `json:"of,omitempty"`
	Default  json.RawMessage `json:"default,omitempty"`
	Required bool            `json:"required,omitempty"`
	Input    bool            `json:"input,omitempty"`
	MaxLen   int             `json:"max_len,omitempty"`
	MaxItems int             `json:"max_items,omitempty"`
	MaxBytes int             `json:"max_bytes,omitempty"`
}

type docNode struct {
	ID       string            `json:"id"`
	Kind     Kind              `json:"kind"`
	Uses     string            `json:"uses,omitempty"`
	With     json.RawMessage   `json:"with,omitempty"`
	In       *[]string         `json:"in,omitempty"`
	Writes   *[]string         `json:"writes,omitempty"`
	Budget   *docBudget        `json:"budget,omitempty"`
	Timeout  string            `json:"timeout,omitempty"`
	Idle     string            `json:"idle,omitempty"`
	Retry    *docRetry         `json:"retry,omitempty"`
	BackTo   string            `json:"back_to,omitempty"`
	Max      int               `json:"max,omitempty"`
	Event    string            `json:"event,omitempty"`
	Match    string            `json:"match,omitempty"`
	Take     map[string]string `json:"take,omitempty"`
	Expires  string            `json:"expires,omitempty"`
	OnExpire Outcome           `json:"on_expire,omitempty"`

	Required    *bool             `json:"required,omitempty"`
	Cache       string            `json:"cache,omitempty"`
	Message     *string           `json:"message,omitempty"`
	Approvers   []string          `json:"approvers,omitempty"`
	Argv        []string          `json:"argv,omitempty"`
	Env         map[string]string `json:"env,omitempty"`
	Accept      [][]string        `json:"accept,omitempty"`
	Branches    []string          `json:"branches,omitempty"`
	Join        string            `json:"join,omitempty"`
	MaxParallel int               `json:"max_parallel,omitempty"`
	Of          []string          `json:"of,omitempty"`
	Report      string            `json:"report,omitempty"`
	Child       string            `json:"flow,omitempty"`
	ChildKey    *string           `json:"key,omitempty"`
	Give        map[string]string `json:"give,omitempty"`
	Wait        *bool             `json:"wait,omitempty"`
	Close       string            `json:"close,omitempty"`
}

type docBudget struct {
	Tokens    int64       `json:"tokens,omitempty"`
	CostUSD   json.Number `json:"cost_usd,omitempty"`
	ToolCalls int64       `json:"tool_calls,omitempty"`
	Wall      string      `json:"wall,omitempty"`
}

type docRetry struct {
	Max        int      `json:"max"`
	On         []string `json:"on"`
	Backoff    string   `json:"backoff"`
	Factor     float64  `json:"factor"`
	MaxBackoff string   `json:"max_backoff"`
	Jitter     string   `json:"jitter"`
}

type docEdge struct {
	From string                     `json:"from"`
	To   string                     `json:"to"`
	On   []Outcome                  `json:"on"`
	When string                     `json:"when,omitempty"`
	Set  map[string]json.RawMessage `json:"set,omitempty"`
}

// freeze fills the canonical form and its hash.
func (f *Flow) freeze() error {
	doc := docFlow{
		API: "flows/v1", Name: f.name, Version: f.version, Phase: f.phase, Entry: f.entry, Sink: f.sink, Finally: f.finally,
		Limits: docLimits{
			MaxSteps: f.limits.MaxSteps, Wall: span(f.limits.Wall), Tokens: f.limits.Tokens,
			ToolCalls: f.limits.ToolCalls, CostUSD: usd(f.limits.MicroUSD), WarnAt: f.limits.WarnAt,
		},
	}
	if f.stop {
		doc.Stop = &docStop{f.sink}
	}
	for _, fd := range f.fields {
		doc.State = append(doc.State, docField{fd.Key, fd.Type, fd.Values, fd.Of, fd.Default, fd.Required, fd.Input, fd.MaxLen, fd.MaxItems, fd.MaxBytes})
	}
	doc.Nodes, doc.Edges = make([]docNode, 0, len(f.nodes)), make([]docEdge, 0, len(f.edges))
	for i := range f.nodes {
		doc.Nodes = append(doc.Nodes, f.nodes[i].doc())
	}
	for _, e := range f.edges {
		doc.Edges = append(doc.Edges, docEdge{e.From, e.To, e.On, e.When.String(), e.Set})
	}
	if f.one != (Concurrency{}) {
		doc.One = &docOne{f.one.Key, f.one.OnConflict}
	}
	for name, child := range f.children {
		if doc.Flows == nil {
			doc.Flows = map[string]json.RawMessage{}
		}
		doc.Flows[name] = child.definition
	}
	raw, err := encode(doc)
	if err != nil {
		return fmt.Errorf("encoding flow %s: %w", f.name, err)
	}
	sum := sha256.Sum256(raw)
	f.definition, f.hash = raw, hex.EncodeToString(sum[:])
	return nil
}

func (n *Node) doc() docNode {
	d := docNode{
		ID: n.ID, Kind: n.Kind, Uses: n.Uses, With: n.With, Timeout: span(n.Timeout), Idle: span(n.Idle),
		BackTo: n.BackTo, Max: n.Max, Cache: n.Cache,
		Event: n.Event, Match: n.Match.String(), Take: n.Take, Expires: span(n.Expires), OnExpire: n.OnExpire,
		Approvers: n.Approvers, Argv: n.Argv, Env: n.Env, Accept: n.Accept,
		Branches: n.Branches, Join: n.Join, MaxParallel: n.MaxParallel, Of: n.Of, Report: n.Report,
		Child: n.Child, Give: n.Give, Close: n.Close,
	}
	switch n.Kind {
	case Approval:
		d.Event, d.Message = "", &n.Message
	case Command:
		d.Uses, d.With = "", nil // made of the node itself
	case Subflow:
		d.OnExpire, d.ChildKey, d.Wait = "", &n.ChildKey, &n.Await
	case Step, Gate, Loop, Wait, Merge, Fanout, Sink:
	}
	if n.Optional {
		d.Required = new(bool)
	}
	if d.Uses != "" {
		// Written out even when empty, so that a later version of the action
		// does not change what was frozen.
		d.In, d.Writes = list(n.In), list(n.Writes)
	}
	if n.Budget != (NodeBudget{}) {
		d.Budget = &docBudget{n.Budget.Tokens, usd(n.Budget.MicroUSD), n.Budget.ToolCalls, span(n.Budget.Wall)}
	}
	if r := n.Retry; r.Max > 0 {
		d.Retry = &docRetry{r.Max, r.On, span(r.Backoff), r.Factor, span(r.MaxBackoff), r.Jitter}
	}
	return d
}

func list(items []string) *[]string {
	if items == nil {
		items = []string{}
	}
	return &items
}

func span(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return d.String()
}

func usd(micro int64) json.Number {
	if micro == 0 {
		return ""
	}
	return formatUSD(micro)
}

// Thaw loads a frozen definition again. A definition that does not have the
// given hash is ErrCorrupt. One that this program refuses, or whose actions
// are not of the given versions, is ErrDrift; the flow is returned with it
// where there is one.
func Thaw(definition []byte, hash string, actions map[string]string, reg *Registry) (*Flow, error) {
	f, err := ThawToday(definition, hash, reg)
	if err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(f.actions)) {
		if then, now := actions[name], f.actions[name]; then != now {
			return f, fmt.Errorf("%w: action %s was of version %s and is of version %s now", ErrDrift, name, then, now)
		}
	}
	return f, nil
}

// ThawToday is Thaw with the actions of this program, whatever versions the
// flow was frozen with.
func ThawToday(definition []byte, hash string, reg *Registry) (*Flow, error) {
	sum := sha256.Sum256(definition)
	if got := hex.EncodeToString(sum[:]); got != hash {
		return nil, fmt.Errorf("%w: its sha256 is %s, not %s", ErrCorrupt, got, hash)
	}
	f, problems := LoadWith("definition", definition, LoadOptions{Registry: reg, frozen: true})
	if err := problems.Err(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDrift, err)
	}
	if err := f.keep(definition); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	return f, nil
}

// keep makes the frozen text what the flow and its children are: what this
// program would write may differ in defaults that were added since.
func (f *Flow) keep(definition []byte) error {
	sum := sha256.Sum256(definition)
	f.definition, f.hash = definition, hex.EncodeToString(sum[:])
	if len(f.children) == 0 {
		return nil
	}
	var doc struct {
		Flows map[string]json.RawMessage `json:"flows"`
	}
	if err := json.Unmarshal(definition, &doc); err != nil {
		return fmt.Errorf("reading the flows within %s: %w", f.name, err)
	}
	for name, child := range f.children {
		if err := child.keep(doc.Flows[name]); err != nil {
			return err
		}
	}
	return nil
}
