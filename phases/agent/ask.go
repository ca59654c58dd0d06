package agent

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/pipelinebot/pipelinebot/flows"
	"github.com/pipelinebot/pipelinebot/phases/actuators"
	"github.com/pipelinebot/pipelinebot/phases/blob"
	"github.com/pipelinebot/pipelinebot/phases/delivery"
	"github.com/pipelinebot/pipelinebot/phases/gates"
	"github.com/pipelinebot/pipelinebot/phases/issue"
)

//go:embed prompts/read@1.md
var readPrompt string

//go:embed prompts/write@1.md
var writePrompt string

// ask is what both kinds of agent are told.
type ask struct {
	// Prompt is the task, in the words of the flow's author. It has no
	// templates: what comes from an issue, a repository or a model is shown as
	// data, by Show.
	Prompt string `json:"prompt"`
	// Show are the state keys whose values the model sees, fenced as data. The
	// node's `in` must have them; those that are not set are left out.
	Show []string `json:"show"`
	// Name tells the nodes apart in configuration and scenarios: the prompt's
	// id is "agent/NAME@1".
	Name string `json:"name"`
	// MaxTurns bounds the model calls.
	MaxTurns int `json:"max_turns"`
}

const (
	maxPrompt = 16 << 10
	maxShown  = 48 << 10 // bytes of one shown value
	maxTurns  = 200
)

var (
	nameForm = regexp.MustCompile(`^[a-z][a-z0-9_-]{0,31}$`)
	keyForm  = regexp.MustCompile(`^[a-z][a-z0-9_]*$`)
)

func (a ask) check() error {
	switch {
	case strings.TrimSpace(a.Prompt) == "":
		return errors.New("prompt is empty: say what to do")
	case len(a.Prompt) > maxPrompt:
		return fmt.Errorf("prompt has %d bytes, more than %d", len(a.Prompt), maxPrompt)
	case strings.Contains(a.Prompt, "{{"):
		return errors.New("prompt has a template: name the state key under show, where its value is fenced as data")
	case a.Name != "" && !nameForm.MatchString(a.Name):
		return fmt.Errorf("name %q: use small letters, digits, _ and -, a letter first, at most 32", a.Name)
	case a.MaxTurns < 0 || a.MaxTurns > maxTurns:
		return fmt.Errorf("max_turns must be 1 to %d", maxTurns)
	}
	for _, key := range a.Show {
		if !keyForm.MatchString(key) {
			return fmt.Errorf("show: %q is no state key", key)
		}
	}
	return nil
}

// request is the prompt. Only the author's text is trusted.
func (a ask) request(ctx context.Context, c flows.Call, kind, system string) (actuators.Prompt, error) {
	name := a.Name
	if name == "" {
		name = kind
	}
	p := actuators.Prompt{ID: "agent/" + name + "@1", System: system, Sections: []actuators.Section{{Title: "The task", Text: a.Prompt}}}
	for _, key := range a.Show {
		if c.Sees != nil && !slices.Contains(c.Sees, key) {
			return p, fmt.Errorf("show names %s, which is not in the node's `in`: the model would not see it", key)
		}
		text, err := shown(ctx, c, key)
		if err != nil {
			return p, err
		}
		if text != "" {
			p.Sections = append(p.Sections, actuators.Section{Title: title(key), Text: text, Untrusted: true})
		}
	}
	if c.Visit > 1 {
		p.Sections = append(p.Sections, actuators.Section{Text: fmt.Sprintf("This is visit %d of this step.", c.Visit)})
	}
	return p, nil
}

func title(key string) string {
	switch key {
	case "issue_ref":
		return "The issue"
	case "evidence_ref":
		return "The last run of the tests"
	case "problems_ref":
		return "What was wrong with the last changes"
	case "diff_ref":
		return "The files changed so far"
	case "work_ref":
		return "The changes so far"
	}
	return "The value of " + key
}

// shown is a state value as text; "" when it is not set or says nothing.
func shown(ctx context.Context, c flows.Call, key string) (string, error) {
	if !c.In.Has(key) {
		return "", nil
	}
	if a := c.In.Artifact(key); blob.Set(a) {
		return content(ctx, c, key, a)
	}
	if list := c.In.Strings(key); list != nil {
		return clip(strings.Join(list, "\n")), nil
	}
	var text string
	if json.Unmarshal(c.In.Raw(key), &text) == nil {
		return clip(text), nil
	}
	return clip(string(c.In.Raw(key))), nil
}

// content is an artifact as text; what our own actions keep as JSON is said in
// words.
func content(ctx context.Context, c flows.Call, key string, a flows.Artifact) (string, error) {
	switch key {
	case "issue_ref":
		s, err := issue.Load(ctx, c)
		return s.Text(), err
	case "evidence_ref":
		ev, err := blob.GetJSON[gates.Evidence](ctx, c.Artifacts, "test evidence", a)
		if err != nil || ev.Code == "" {
			return "", err
		}
		text := ev.Reason
		if len(ev.Failing) > 0 {
			text += "\nFailing: " + strings.Join(ev.Failing, ", ")
		}
		return clip(text + "\n" + ev.Excerpt), nil
	case "problems_ref":
		found, err := blob.GetJSON[[]gates.Finding](ctx, c.Artifacts, "problems", a)
		return clip(delivery.Lines(found)), err
	}
	b, err := blob.Get(ctx, c.Artifacts, key, a)
	return clip(string(b)), err
}

// clip keeps the beginning and the end.
func clip(s string) string {
	if len(s) <= maxShown {
		return s
	}
	half := maxShown / 2
	return strings.ToValidUTF8(s[:half], "") + fmt.Sprintf("\n[%d bytes left out]\n", len(s)-2*half) + strings.ToValidUTF8(s[len(s)-half:], "")
}
