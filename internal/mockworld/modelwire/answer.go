package modelwire

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"regexp"
)

// finishTool ends a tool loop with the final answer.
const finishTool = "finish"

// asked is a request of either vendor, as far as a script cares.
type asked struct {
	vendor, model, prompt string
	// turns counts the assistant's messages so far.
	turns int
	// last is the text of the last message, all the whole request's.
	last, all string
	// tools are the schemas by name, in no order.
	tools map[string]json.RawMessage
	// schema is set when the answer must be JSON text of that schema.
	schema json.RawMessage
	// force is the tool that must be called.
	force     string
	maxTokens int
	stream    bool
	// streamUsage says that a stream ends with the usage (OpenAI).
	streamUsage bool
	hash        string
	bytes       int
	unknown     []string
}

// answer is what is said, before it takes a vendor's shape.
type answer struct {
	id    string
	text  string
	calls []answerCall
	usage Usage
	cut   bool
	// truncated says that max_tokens was reached.
	truncated bool
}

type answerCall struct {
	id, name string
	// input is JSON, or broken JSON when malformed.
	input     string
	malformed bool
}

var promptMark = regexp.MustCompile(`^\s*\[prompt ([A-Za-z0-9_./-]+(?:@[A-Za-z0-9_.-]+)?)\]`)

func promptOf(system string) string {
	if m := promptMark.FindStringSubmatch(system); m != nil {
		return m[1]
	}
	return ""
}

func hashOf(parts ...string) string {
	h := sha256.New()
	for _, p := range parts {
		fmt.Fprintf(h, "%d:%s", len(p), p)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// compose shapes a reply for what was asked; an error is a mistake in the
// script, told in its terms.
func (s *Server) compose(q asked, r Reply) (answer, error) {
	a := answer{id: s.nextID("msg"), text: r.Text, cut: r.Cut, truncated: r.Truncated}
	calls := r.Calls
	if r.JSON != nil {
		raw, err := json.Marshal(r.JSON)
		if err != nil {
			return a, err
		}
		tool := q.force
		if _, ok := q.tools[finishTool]; tool == "" && q.schema == nil && ok {
			tool = finishTool
		}
		if tool == "" {
			if q.schema != nil && !r.OffSchema {
				if err := conforms(q.schema, raw); err != nil {
					return a, fmt.Errorf("the scripted json is not what the request's schema allows: %w", err)
				}
			}
			a.text = string(raw)
			if r.Malformed {
				a.text = a.text[:len(a.text)-1]
			}
		} else {
			var in map[string]any
			if err := json.Unmarshal(raw, &in); err != nil {
				return a, fmt.Errorf("the scripted json must be an object to be the input of %s", tool)
			}
			calls = []Call{{Name: tool, Input: in}}
		}
	}
	for _, c := range calls {
		schema, ok := q.tools[c.Name]
		if !ok && !r.OffSchema {
			return a, fmt.Errorf("the scripted call of %s: the request offers no such tool", c.Name)
		}
		in := c.Input
		if in == nil {
			in = map[string]any{}
		}
		raw, err := json.Marshal(in)
		if err != nil {
			return a, err
		}
		if !r.OffSchema && !r.Malformed {
			if err := conforms(schema, raw); err != nil {
				return a, fmt.Errorf("the scripted input of %s is not what its schema allows: %w", c.Name, err)
			}
		}
		call := answerCall{id: s.nextID("call"), name: c.Name, input: string(raw)}
		if r.Malformed {
			call.input, call.malformed = string(raw[:len(raw)-1]), true
		}
		a.calls = append(a.calls, call)
	}
	a.usage = r.usage(q, a)
	return a, nil
}

func (r Reply) usage(q asked, a answer) Usage {
	if r.Usage != nil {
		return *r.Usage
	}
	out := len(a.text)
	for _, c := range a.calls {
		out += len(c.name) + len(c.input)
	}
	return Usage{Input: int64(q.bytes/4 + 1), Output: int64(out/4 + 1)}
}
