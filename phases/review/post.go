package review

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/pipelinebot/pipelinebot/flows"
	"github.com/pipelinebot/pipelinebot/internal/forge"
	"github.com/pipelinebot/pipelinebot/phases/blob"
	"github.com/pipelinebot/pipelinebot/phases/gates"
	"github.com/pipelinebot/pipelinebot/phases/issue"
	"github.com/pipelinebot/pipelinebot/phases/markdown"
	"github.com/pipelinebot/pipelinebot/phases/tree"
)

// maxInline is the most inline comments of one review.
const maxInline = 20

// post submits the review, once; a review of this commit and round with the
// bot's marker is adopted. It reads pr, head_sha, full_ref, findings_ref,
// evidence_ref, verdict, why, ci and ci_note.
func (p phase) post() flows.Action {
	return flows.Action{
		Name: "review.post", Version: "1", Effects: true,
		Reads:  []string{"pr", "head_sha", "full_ref", "findings_ref", "evidence_ref", "verdict", "why", "ci", "ci_note"},
		Writes: []string{"result"},
		Run: issue.Guard(func(ctx context.Context, c flows.Call) (flows.Result, error) {
			ref, err := issue.Ref(c)
			if err != nil {
				return flows.Result{}, err
			}
			ref.Number = c.In.Int("pr")
			marker := issue.Marker("review", "sha", c.In.Str("head_sha"), "round", strconv.Itoa(c.Run.Round), "lineage", c.Run.Lineage)
			v, err := p.view(ctx, c)
			if err != nil {
				return flows.Result{}, err
			}
			self, err := p.Forge.Self(ctx)
			if err != nil {
				return flows.Result{}, fmt.Errorf("asking who the bot is: %w", err)
			}
			find := func(ctx context.Context) (json.RawMessage, bool, error) {
				all, err := p.Forge.Reviews(ctx, ref)
				if err != nil {
					return nil, false, fmt.Errorf("reading the reviews of %s: %w", ref, err)
				}
				for _, r := range all {
					if issue.SameActor(r.Author, self) && issue.Marked(r.Body, marker) {
						b, err := json.Marshal(r.ID)
						return b, true, err
					}
				}
				return nil, false, nil
			}
			_, err = c.Effects.Once(ctx, "review", find, func(ctx context.Context) (json.RawMessage, error) {
				pull, err := p.Forge.Pull(ctx, ref)
				if err != nil {
					return nil, fmt.Errorf("reading %s: %w", ref, err)
				}
				r, err := p.submit(ctx, ref, marker, v, issue.SameActor(pull.Author, self))
				if err != nil {
					return nil, err
				}
				return json.Marshal(r.ID)
			})
			if err != nil {
				return flows.Result{}, fmt.Errorf("posting the review of %s: %w", ref, err)
			}
			return flows.Result{Note: fmt.Sprintf("posted the review of #%d: %s", ref.Number, v.verdict)}, nil
		}),
	}
}

// submit sends the review. Comments on lines that the forge does not accept
// after all go into the body.
func (p phase) submit(ctx context.Context, ref forge.Ref, marker string, v view, own bool) (forge.Review, error) {
	inline, rest := place(v.findings, v.lines)
	send := func(inline, rest []Finding) (forge.Review, error) {
		n := forge.NewReview{SHA: v.sha, Event: event(v.verdict, own), Body: issue.Body(p.Scrub, marker, v.body(inline, rest))}
		for _, f := range inline {
			n.Comments = append(n.Comments, forge.LineComment{Path: f.Path, Line: f.Line, Body: p.Scrub.Scrub(lineText(f))})
		}
		return p.Forge.AddReview(ctx, ref, n)
	}
	r, err := send(inline, rest)
	if len(inline) > 0 && forge.IsKind(err, forge.KindInvalid) {
		return send(nil, v.findings)
	}
	return r, err
}

// event is the forge's word for the verdict. An author may only comment on
// their own pull request; the verdict is then in the words and in the label.
func event(verdict string, own bool) string {
	switch {
	case own || verdict == human:
		return "COMMENT"
	case verdict == approve:
		return "APPROVE"
	}
	return "REQUEST_CHANGES"
}

// place says which findings can sit on a line of the diff.
func place(all []Finding, lines map[string]map[int]bool) (inline, rest []Finding) {
	for _, f := range all {
		if f.Line > 0 && lines[f.Path][f.Line] && len(inline) < maxInline {
			inline = append(inline, f)
		} else {
			rest = append(rest, f)
		}
	}
	return inline, rest
}

// view is what the review says.
type view struct {
	verdict, why, sha, summary string
	round                      int
	ci, ciNote                 string
	evidence                   gates.Evidence
	findings                   []Finding
	lines                      map[string]map[int]bool
}

func (p phase) view(ctx context.Context, c flows.Call) (view, error) {
	f, err := loadFindings(ctx, c, "findings_ref")
	if err != nil {
		return view{}, err
	}
	ev, err := blob.GetJSON[gates.Evidence](ctx, c.Artifacts, "test evidence", c.In.Artifact("evidence_ref"))
	if err != nil {
		return view{}, err
	}
	patch, err := blob.Get(ctx, c.Artifacts, "patch", c.In.Artifact("full_ref"))
	if err != nil {
		return view{}, err
	}
	return view{
		verdict: c.In.Str("verdict"), why: c.In.Str("why"), sha: c.In.Str("head_sha"), summary: f.Summary,
		round: c.Run.Round, ci: c.In.Str("ci"), ciNote: c.In.Str("ci_note"), evidence: ev,
		findings: f.Findings, lines: newLines(patch),
	}, nil
}

// body is pure; it is golden-tested.
func (v view) body(inline, rest []Finding) string {
	var b strings.Builder
	title := map[string]string{approve: "Approved", changes: "Changes requested", human: "A person must decide"}[v.verdict]
	fmt.Fprintf(&b, "### %s (round %d)\n\n%s\n\n", title, v.round, markdown.Prose(v.why))
	if v.summary != "" {
		b.WriteString(markdown.Prose(v.summary) + "\n\n")
	}
	if len(rest) > 0 {
		b.WriteString("**Findings**\n\n")
		for _, f := range rest {
			b.WriteString("- " + lineText(f))
			if f.Path != "" {
				b.WriteString(" — " + markdown.Code(position(f)))
			}
			b.WriteString("\n")
		}
		b.WriteString("\n")
	}
	if len(inline) > 0 {
		fmt.Fprintf(&b, "%s on the lines of the diff.\n\n", counted(len(inline), "finding"))
	}
	fmt.Fprintf(&b, "Tests at %s: %s", markdown.Code(tree.Short(v.sha)), markdown.Inline(v.evidence.Reason, 300))
	if len(v.evidence.Argv) > 0 {
		b.WriteString(" — " + markdown.Code(strings.Join(v.evidence.Argv, " ")))
	}
	fmt.Fprintf(&b, "\nCI: %s\n", markdown.Inline(v.ciNote, 300))
	return b.String()
}

func lineText(f Finding) string {
	return "**" + string(f.Severity) + "**: " + markdown.Inline(f.Text, 1500)
}

func position(f Finding) string {
	if f.Line == 0 {
		return f.Path
	}
	return f.Path + ":" + strconv.Itoa(f.Line)
}
