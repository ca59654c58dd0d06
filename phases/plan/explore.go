package plan

import (
	"context"
	"fmt"
	"slices"

	"github.com/pipelinebot/pipelinebot/flows"
	"github.com/pipelinebot/pipelinebot/internal/forge"
	"github.com/pipelinebot/pipelinebot/phases/actuators"
	"github.com/pipelinebot/pipelinebot/phases/blob"
	"github.com/pipelinebot/pipelinebot/phases/issue"
	"github.com/pipelinebot/pipelinebot/phases/markdown"
	"github.com/pipelinebot/pipelinebot/phases/plandoc"
	"github.com/pipelinebot/pipelinebot/phases/tree"
)

// base pins the head of the default branch: everything that follows is about
// that commit. It writes base_sha and default_branch and starts the counting of
// drafts anew. On the first visit it writes merged_before, the pull requests
// that were merged when the work began; it reads it later.
func (p phase) base() flows.Action {
	return flows.Action{
		Name: "plan.base", Version: "1", ReadOnly: true,
		Reads:  []string{"merged_before"},
		Writes: []string{"base_sha", "default_branch", "merged_before", "drafts", "problems", "problems_ref", "result"},
		Run: issue.Guard(func(ctx context.Context, c flows.Call) (flows.Result, error) {
			ref, err := issue.Ref(c)
			if err != nil {
				return flows.Result{}, err
			}
			repo, err := p.Repos.Repository(ctx, ref.Repo)
			if err != nil {
				return flows.Result{}, fmt.Errorf("reading repository %s: %w", ref.Repo, err)
			}
			if repo.Archived {
				return issue.End(issue.Closed, "repository-archived", "The repository is archived."), nil
			}
			merged := []int{}
			if err := c.In.Decode("merged_before", &merged); err != nil {
				return flows.Result{}, err
			}
			if c.Visit == 1 {
				if merged, err = p.merged(ctx, ref); err != nil {
					return flows.Result{}, err
				}
			}
			sha, err := p.Trees.Resolve(ctx, c, repo.DefaultBranch)
			if err != nil {
				return flows.Result{}, err
			}
			none, err := blob.PutJSON(ctx, c.Artifacts, "list of problems", []string{})
			if err != nil {
				return flows.Result{}, err
			}
			return flows.Result{
				Delta: flows.Delta{
					"base_sha": sha, "default_branch": repo.DefaultBranch, "merged_before": merged,
					"drafts": 0, "problems": 0, "problems_ref": none,
				},
				Note: fmt.Sprintf("planning at %s of %s", tree.Short(sha), repo.DefaultBranch),
			}, nil
		}),
	}
}

// merged are the pull requests for the issue that are merged, the newest 50.
func (p phase) merged(ctx context.Context, ref forge.Ref) ([]int, error) {
	pulls, err := p.Repos.LinkedPulls(ctx, ref)
	if err != nil {
		return nil, fmt.Errorf("looking for linked pull requests: %w", err)
	}
	merged := []int{}
	for _, pull := range pulls {
		if pull.Merged {
			merged = append(merged, pull.Ref.Number)
		}
	}
	slices.Sort(merged)
	return merged[max(0, len(merged)-50):], nil
}

// explore lets the model look around, read-only. It reads issue_ref, base_sha
// and verdict_ref; it writes notes_ref (plandoc.Notes).
func (p phase) explore() flows.Action {
	return flows.Action{
		Name: "plan.explore", Version: "1", Spends: true,
		Reads: []string{"issue_ref", "base_sha", "verdict_ref"}, Writes: []string{"notes_ref", "result"},
		Run: issue.Guard(func(ctx context.Context, c flows.Call) (flows.Result, error) {
			s, err := issue.Load(ctx, c)
			if err != nil {
				return flows.Result{}, err
			}
			verdict, err := blob.Get(ctx, c.Artifacts, "verdict", c.In.Artifact("verdict_ref"))
			if err != nil {
				return flows.Result{}, err
			}
			w, err := p.Trees.Open(ctx, c, tree.At{Base: c.In.Str("base_sha")})
			if err != nil {
				return flows.Result{}, err
			}
			advice, err := actuators.Instructions(w.Dir())
			if err != nil {
				return flows.Result{}, err
			}
			request := exploreRequest(s, string(verdict))
			request.Sections = append(request.Sections, advice...)
			notes, log, err := actuators.Work[plandoc.Notes](ctx, c, p.Models, request,
				actuators.Toolbox{Dir: w.Dir(), ReadOnly: true, MaxTurns: p.MaxTurns})
			if r, ended := issue.NoVerdict(err, actuators.Code(err)); ended {
				return r, nil
			}
			if err != nil {
				return flows.Result{}, fmt.Errorf("exploring the repository: %w", err)
			}
			a, err := blob.PutJSON(ctx, c.Artifacts, "notes", notes)
			if err != nil {
				return flows.Result{}, err
			}
			return flows.Result{
				Delta: flows.Delta{"notes_ref": a},
				Note:  fmt.Sprintf("%s in %s", markdown.Count(len(notes.Findings), "finding"), markdown.Count(log.Turns, "turn")),
			}, nil
		}),
	}
}

func exploreRequest(s issue.Snapshot, verdict string) actuators.Prompt {
	sections := []actuators.Section{{Title: "The issue", Text: s.Text(), Untrusted: true}}
	if verdict != "" {
		sections = append(sections, actuators.Section{Title: "Classification", Text: verdict, Untrusted: true})
	}
	return actuators.Prompt{ID: "plan/explore@1", System: explorePrompt, Sections: sections}
}
