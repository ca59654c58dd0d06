// Package phasetest is the world in which the phases are tested: a forge kept
// in memory, a repository with real git, artifacts in memory, and a walk of a
// phase's flow by the real engine over the store in memory.
//
// Only tests import it. It must not know any one phase. It may import the
// contracts, flows/engine, checkpoints/memory and phases/tree.
package phasetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pipelinebot/pipelinebot/internal/forge"
	"github.com/pipelinebot/pipelinebot/labels"
)

// Repo and Ref are the one repository and issue of the tests.
func Repo() forge.Repo { return forge.Repo{Owner: "acme", Name: "widgets"} }

// Ref is issue 7.
func Ref() forge.Ref { return forge.Ref{Repo: Repo(), Number: 7} }

// The people of the tests.
func Bot() forge.Actor { return forge.Actor{ID: 1, Login: "pipelinebot[bot]", Bot: true} }

// Ann maintains the repository.
func Ann() forge.Actor { return forge.Actor{ID: 10, Login: "ann"} }

// Rob reports issues and may read.
func Rob() forge.Actor { return forge.Actor{ID: 11, Login: "rob"} }

// Forge is a forge.Forge in memory. Fields may be set before it is used.
type Forge struct {
	mu     sync.Mutex
	Me     forge.Actor
	Meta   forge.Repository
	Issues map[int]*forge.Issue
	Said   map[int][]forge.Comment
	Log    []forge.IssueEvent
	Perms  map[string]forge.Permission
	Opened []*forge.Pull
	Linked []int // numbers of pull requests
	Posted []forge.Review
	// Sent are the reviews as they were asked for.
	Sent []forge.NewReview
	CI   map[string][]forge.Check
	// Fail makes the next call of an operation ("AddComment") fail, once an
	// entry; nil entries let it through.
	Fail map[string][]error
	// Calls counts calls by operation.
	Calls map[string]int
	// Head tells a branch's commit, for pull requests.
	Head func(branch string) string
	next int64
}

var _ forge.Forge = (*Forge)(nil)

// NewForge has an open issue 7 by Rob.
func NewForge() *Forge {
	return &Forge{
		Me:   Bot(),
		Meta: forge.Repository{Repo: Repo(), ID: 5, DefaultBranch: "trunk", CloneURL: "file:///nowhere"},
		Issues: map[int]*forge.Issue{7: {
			Ref: Ref(), ID: 70, Title: "Sum is wrong for negative numbers", Author: Rob(), Open: true,
			Body: "Calling `Sum(-1, -2)` gives 3, I expect -3.", HTMLURL: "https://example.com/acme/widgets/issues/7",
		}},
		Said: map[int][]forge.Comment{}, Perms: map[string]forge.Permission{"ann": forge.Maintain, "rob": forge.Read},
		CI: map[string][]forge.Check{}, Fail: map[string][]error{}, Calls: map[string]int{}, next: 100,
	}
}

// enter counts a call and gives the failure that is due. The caller holds no
// lock; the returned function releases it.
func (f *Forge) enter(op string) (func(), error) {
	f.mu.Lock()
	f.Calls[op]++
	if due := f.Fail[op]; len(due) > 0 {
		f.Fail[op] = due[1:]
		if due[0] != nil {
			f.mu.Unlock()
			return func() {}, due[0]
		}
	}
	return f.mu.Unlock, nil
}

func (f *Forge) id() int64 { f.next++; return f.next }

func missing(op string) error {
	return &forge.Error{Kind: forge.KindNotFound, Op: op, Status: 404, Err: errors.New("not found")}
}

// Repository implements forge.Reader.
func (f *Forge) Repository(context.Context, forge.Repo) (forge.Repository, error) {
	done, err := f.enter("Repository")
	defer done()
	return f.Meta, err
}

// Issue implements forge.Reader.
func (f *Forge) Issue(_ context.Context, ref forge.Ref) (forge.Issue, error) {
	done, err := f.enter("Issue")
	defer done()
	if err != nil {
		return forge.Issue{}, err
	}
	i, ok := f.Issues[ref.Number]
	if !ok {
		return forge.Issue{}, missing("reading issue")
	}
	c := *i
	c.Labels = slices.Clone(i.Labels)
	return c, nil
}

// Events implements forge.Reader.
func (f *Forge) Events(context.Context, forge.Ref) ([]forge.IssueEvent, error) {
	done, err := f.enter("Events")
	defer done()
	return slices.Clone(f.Log), err
}

// Permission implements forge.Reader.
func (f *Forge) Permission(_ context.Context, _ forge.Repo, login string) (forge.Permission, error) {
	done, err := f.enter("Permission")
	defer done()
	return f.Perms[login], err
}

// Self implements forge.Reader.
func (f *Forge) Self(context.Context) (forge.Actor, error) {
	done, err := f.enter("Self")
	defer done()
	return f.Me, err
}

// Comments implements forge.Comments.
func (f *Forge) Comments(_ context.Context, ref forge.Ref) ([]forge.Comment, error) {
	done, err := f.enter("Comments")
	defer done()
	return slices.Clone(f.Said[ref.Number]), err
}

// AddComment implements forge.Comments.
func (f *Forge) AddComment(_ context.Context, ref forge.Ref, body string) (forge.Comment, error) {
	done, err := f.enter("AddComment")
	defer done()
	if err != nil {
		return forge.Comment{}, err
	}
	return f.say(ref.Number, f.Me, body), nil
}

func (f *Forge) say(issue int, by forge.Actor, body string) forge.Comment {
	// GitHub gives line ends and trailing space back in its own way.
	c := forge.Comment{ID: f.id(), Author: by, Body: strings.TrimSpace(body), HTMLURL: fmt.Sprintf("https://example.com/c/%d", f.next)}
	f.Said[issue] = append(f.Said[issue], c)
	return c
}

// Comment is a person's comment on issue 7.
func (f *Forge) Comment(by forge.Actor, body string) forge.Comment {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.say(7, by, body)
}

// EditComment implements forge.Comments.
func (f *Forge) EditComment(_ context.Context, _ forge.Repo, id int64, body string) (forge.Comment, error) {
	done, err := f.enter("EditComment")
	defer done()
	if err != nil {
		return forge.Comment{}, err
	}
	for _, list := range f.Said {
		for i := range list {
			if list[i].ID == id {
				list[i].Body = body
				return list[i], nil
			}
		}
	}
	return forge.Comment{}, missing("editing comment")
}

// Label is a person's change of a label of issue 7.
func (f *Forge) Label(by forge.Actor, name string, there bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.label(7, by, name, there)
}

func (f *Forge) label(issue int, by forge.Actor, name string, there bool) {
	i := f.Issues[issue]
	if labels.Has(i.Labels, name) == there {
		return
	}
	kind := string(forge.Labeled)
	if there {
		i.Labels = append(i.Labels, name)
	} else {
		kind = string(forge.Unlabeled)
		i.Labels = slices.DeleteFunc(i.Labels, func(l string) bool { return labels.Same(l, name) })
	}
	f.Log = append(f.Log, forge.IssueEvent{ID: f.id(), Kind: kind, Label: name, Actor: by, At: time.Unix(f.next, 0).UTC()})
}

// AddLabel implements forge.Labels.
func (f *Forge) AddLabel(_ context.Context, ref forge.Ref, name string) error {
	done, err := f.enter("AddLabel")
	defer done()
	if err == nil {
		f.label(ref.Number, f.Me, name, true)
	}
	return err
}

// RemoveLabel implements forge.Labels.
func (f *Forge) RemoveLabel(_ context.Context, ref forge.Ref, name string) error {
	done, err := f.enter("RemoveLabel")
	defer done()
	if err == nil {
		f.label(ref.Number, f.Me, name, false)
	}
	return err
}

// RepoLabels implements forge.Labels.
func (f *Forge) RepoLabels(context.Context, forge.Repo) ([]forge.Label, error) { return nil, nil }

// PutLabel implements forge.Labels.
func (f *Forge) PutLabel(context.Context, forge.Repo, forge.Label) error { return nil }

func (f *Forge) pull(p *forge.Pull) forge.Pull {
	c := *p
	if f.Head != nil && p.Open {
		c.HeadSHA = f.Head(p.Head)
	}
	return c
}

// PullsByHead implements forge.Pulls.
func (f *Forge) PullsByHead(_ context.Context, _ forge.Repo, branch string) ([]forge.Pull, error) {
	done, err := f.enter("PullsByHead")
	defer done()
	var out []forge.Pull
	for _, p := range f.Opened {
		if p.Head == branch {
			out = append(out, f.pull(p))
		}
	}
	return out, err
}

// Pull implements forge.Pulls.
func (f *Forge) Pull(_ context.Context, ref forge.Ref) (forge.Pull, error) {
	done, err := f.enter("Pull")
	defer done()
	if err != nil {
		return forge.Pull{}, err
	}
	for _, p := range f.Opened {
		if p.Ref.Number == ref.Number {
			return f.pull(p), nil
		}
	}
	return forge.Pull{}, missing("reading pull request")
}

// OpenPull implements forge.Pulls.
func (f *Forge) OpenPull(_ context.Context, r forge.Repo, n forge.NewPull) (forge.Pull, error) {
	done, err := f.enter("OpenPull")
	defer done()
	if err != nil {
		return forge.Pull{}, err
	}
	for _, p := range f.Opened {
		if p.Head == n.Head && p.Open {
			return forge.Pull{}, &forge.Error{Kind: forge.KindConflict, Op: "opening pull request", Status: 422}
		}
	}
	p := &forge.Pull{
		Ref: forge.Ref{Repo: r, Number: int(f.id())}, Title: n.Title, Body: n.Body, Head: n.Head, Base: n.Base,
		Author: f.Me, Open: true,
	}
	f.Opened = append(f.Opened, p)
	return f.pull(p), nil
}

// LinkedPulls implements forge.Pulls.
func (f *Forge) LinkedPulls(context.Context, forge.Ref) ([]forge.Pull, error) {
	done, err := f.enter("LinkedPulls")
	defer done()
	var out []forge.Pull
	for _, p := range f.Opened {
		if slices.Contains(f.Linked, p.Ref.Number) {
			out = append(out, f.pull(p))
		}
	}
	return out, err
}

// Reviews implements forge.Reviews.
func (f *Forge) Reviews(context.Context, forge.Ref) ([]forge.Review, error) {
	done, err := f.enter("Reviews")
	defer done()
	return slices.Clone(f.Posted), err
}

// AddReview implements forge.Reviews, with the rule that authors can't judge
// their own pull requests.
func (f *Forge) AddReview(_ context.Context, ref forge.Ref, n forge.NewReview) (forge.Review, error) {
	done, err := f.enter("AddReview")
	defer done()
	if err != nil {
		return forge.Review{}, err
	}
	for _, p := range f.Opened {
		if p.Ref.Number == ref.Number && p.Author.ID == f.Me.ID && n.Event != "COMMENT" {
			return forge.Review{}, &forge.Error{Kind: forge.KindInvalid, Op: "adding review", Status: 422}
		}
	}
	state := map[string]string{"APPROVE": "APPROVED", "REQUEST_CHANGES": "CHANGES_REQUESTED", "COMMENT": "COMMENTED"}[n.Event]
	r := forge.Review{ID: f.id(), Author: f.Me, State: state, Body: n.Body, SHA: n.SHA}
	f.Posted, f.Sent = append(f.Posted, r), append(f.Sent, n)
	return r, nil
}

// Checks implements forge.Reviews.
func (f *Forge) Checks(_ context.Context, _ forge.Repo, sha string) ([]forge.Check, error) {
	done, err := f.enter("Checks")
	defer done()
	return slices.Clone(f.CI[sha]), err
}
