package checkpoints

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// The rules in this file are those that every driver must apply in the same
// way, written once.

// Normalize checks a request to start a run and fills in what may be left
// out: Round 1, State {}.
func (r StartReq) Normalize() (StartReq, error) {
	if r.Key == "" {
		return r, errors.New("checkpoints: a run needs a key")
	}
	if r.Round == 0 {
		r.Round = 1
	}
	if len(r.State) == 0 {
		r.State = json.RawMessage(`{}`)
	}
	if !isObject(r.State) {
		return r, fmt.Errorf("checkpoints: the state of run %s is not a JSON object", r.Key)
	}
	if err := r.related(); err != nil {
		return r, fmt.Errorf("checkpoints: run %s: %w", r.Key, err)
	}
	return r, nil
}

// Begin is the run that a normalized request starts, as every driver stores
// and returns it. It shares nothing with the request.
func (r StartReq) Begin(id string, s Status, replaces string, at time.Time) Run {
	actions := maps.Clone(r.Actions)
	if actions == nil {
		actions = map[string]string{}
	}
	definition := bytes.Clone(r.Definition)
	if len(definition) == 0 {
		definition = nil
	}
	return Run{
		ID: id, Key: r.Key, Trigger: r.Trigger, Lineage: cmp.Or(r.Lineage, id),
		Repo: r.Repo, Issue: r.Issue, Phase: r.Phase, Flow: r.Flow, Round: r.Round,
		Parent: r.Parent, ParentNode: r.ParentNode, Close: r.Close, Counted: r.Counted,
		Forked: r.Forked, ForkedAt: r.ForkedAt, Mode: r.Mode,
		Concurrency: r.Concurrency, OnConflict: r.OnConflict, Replaces: replaces,
		Status: s, Epoch: 1, Next: r.Entry,
		State: bytes.Clone(r.State), Initial: bytes.Clone(r.State), Visits: map[string]int{},
		Definition: definition, DefinitionHash: r.DefinitionHash, Actions: actions,
		Created: at, Updated: at,
	}
}

// related checks how a run stands to others and fills in the defaults.
func (r *StartReq) related() error {
	switch {
	case r.Parent == "" && (r.ParentNode != "" || r.Close != "" || r.Counted):
		return errors.New("a run without a parent has no node of the parent, is not closed with it and not counted for it")
	case r.Parent != "" && r.Close == "":
		r.Close = CloseCancel
	case r.Parent != "" && r.Close != CloseCancel && r.Close != CloseAbandon:
		return fmt.Errorf("close %q is neither %s nor %s", r.Close, CloseCancel, CloseAbandon)
	}
	if r.Mode != "" && r.Mode != ModeShadow {
		return fmt.Errorf("mode %q is not %s", r.Mode, ModeShadow)
	}
	switch {
	case r.Concurrency == "":
		r.OnConflict = ""
	case r.OnConflict == "":
		r.OnConflict = OnConflictQueue
	case r.OnConflict != OnConflictQueue && r.OnConflict != OnConflictReplace && r.OnConflict != OnConflictReject:
		return fmt.Errorf("on_conflict %q is none of %s, %s, %s", r.OnConflict, OnConflictQueue, OnConflictReplace, OnConflictReject)
	}
	return nil
}

// LinesUp reports that a run may be started while another of its Key is open,
// since the concurrency key that they share lets one of them wait.
func (r StartReq) LinesUp(concurrency string) bool {
	return r.Concurrency != "" && r.Concurrency == concurrency && r.OnConflict != OnConflictReject
}

// ReplacedBy is how a queued run ends that a newer one replaces.
func ReplacedBy(id string) Ended {
	return Ended{Result: "cancelled", Code: Replaced, Reason: "replaced by the newer run " + id}
}

// Validate checks that a branch can be kept.
func (b BranchRecord) Validate() error {
	if b.Fanout == "" || b.Branch == "" {
		return fmt.Errorf("checkpoints: a branch needs its fanout and its name (fanout %q, branch %q)", b.Fanout, b.Branch)
	}
	return nil
}

// Drift says how the versions of a run's actions differ from others.
func Drift(from, to map[string]string) string {
	names := slices.Collect(maps.Keys(to))
	for name := range from {
		if _, both := to[name]; !both {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	var changes []string
	for _, name := range names {
		a, b := cmp.Or(from[name], "none"), cmp.Or(to[name], "none")
		if a != b {
			changes = append(changes, fmt.Sprintf("%s: %s → %s", name, a, b))
		}
	}
	if len(changes) == 0 {
		return "nothing differs"
	}
	return strings.Join(changes, ", ")
}

// Validate checks what can be known of a commit without the run.
func (c Commit) Validate() error {
	switch {
	case !isObject(c.State):
		return fmt.Errorf("checkpoints: the state after node %s is not a JSON object", c.Record.Node)
	case c.Park != nil && c.Ending != nil:
		return fmt.Errorf("checkpoints: node %s can't both park and end the run", c.Record.Node)
	case c.Next == "" && c.Ending == nil:
		return fmt.Errorf("checkpoints: node %s has no next node and doesn't end the run", c.Record.Node)
	case c.Next != "" && c.Ending != nil:
		return fmt.Errorf("checkpoints: node %s ends the run and has a next node, %s", c.Record.Node, c.Next)
	}
	return nil
}

// Validate checks that an event can be kept and matched.
func (e Event) Validate() error {
	if e.Key == "" || e.Kind == "" {
		return fmt.Errorf("checkpoints: an event needs a key and a kind (key %q, kind %q)", e.Key, e.Kind)
	}
	return nil
}

// Awaits reports that an event of the given kind resolves the wait.
func (w *Wait) Awaits(kind string) bool {
	return w != nil && w.Event != "" && w.Event == kind
}

// Over reports that the wait's deadline is past.
func (w *Wait) Over(now time.Time) bool {
	return w != nil && !w.Until.IsZero() && !now.Before(w.Until)
}

// Check returns an error that is ErrBudget and names the first scope and
// limit that est would pass, given what each scope has used so far.
func (l Limits) Check(est, run, issue, day Usage) error {
	if err := l.Run.check("run", est, run); err != nil {
		return err
	}
	if err := l.Issue.check("issue", est, issue); err != nil {
		return err
	}
	return l.Day.check("day", est, day)
}

// CheckAncestor is Check for the limit of one ancestor, given what it and all
// that is counted for it has used so far.
func (l Limits) CheckAncestor(id string, est, used Usage) error {
	return l.Ancestors[id].check("run "+id, est, used)
}

func (l Limit) check(scope string, est, used Usage) error {
	for _, c := range []struct {
		unit      string
		limit     *int64
		used, est int64
	}{
		{"tokens", l.Tokens, used.Tokens(), est.Tokens()},
		{"micro-USD", l.MicroUSD, used.MicroUSD, est.MicroUSD},
		{"tool calls", l.ToolCalls, used.ToolCalls, est.ToolCalls},
	} {
		if c.limit != nil && c.used+c.est > *c.limit {
			return fmt.Errorf("%w: %s limit of %d %s: %d used or reserved, %d more asked",
				ErrBudget, scope, *c.limit, c.unit, c.used, c.est)
		}
	}
	return nil
}

// Midnight is the start of the UTC day in which t lies, from which Limits.Day
// counts.
func Midnight(t time.Time) time.Time {
	y, m, d := t.UTC().Date()
	return time.Date(y, m, d, 0, 0, 0, 0, time.UTC)
}

// RepoScope is the scope of a stop of a whole repository, in the one spelling
// in which scopes are compared: GitHub's names don't regard case.
func RepoScope(repo string) string { return FoldScope(repo) }

// IssueScope is the scope of a stop of one issue.
func IssueScope(repo string, issue int) string {
	return FoldScope(fmt.Sprintf("%s#%d", repo, issue))
}

// FoldScope brings a scope or a repository's name into the spelling in which
// they are compared.
func FoldScope(scope string) string { return strings.ToLower(strings.TrimSpace(scope)) }

// isObject reports that b is one valid JSON object.
func isObject(b []byte) bool {
	return bytes.HasPrefix(bytes.TrimLeft(b, " \t\r\n"), []byte("{")) && json.Valid(b)
}
