package mockworld

import (
	"strings"
)

// Snapshot is the world as it stands.
func (w *World) Snapshot() (Snapshot, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.snapshot()
}

// Requests are all requests so far, oldest first.
func (w *World) Requests() []Request {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]Request(nil), w.requests...)
}

// Violations are the requests that asked for something that the world does
// not know, in words; a test asserts that there are none.
func (w *World) Violations() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]string(nil), w.violations...)
}

func (w *World) snapshot() (Snapshot, error) {
	s := Snapshot{At: w.now(), Repos: map[string]RepoState{}, Requests: len(w.requests), Violations: append([]string{}, w.violations...)}
	for _, d := range w.deliveries {
		if !d.Done {
			s.PendingDeliveries++
		}
	}
	for _, r := range w.repos {
		rs, err := w.repoState(r)
		if err != nil {
			return Snapshot{}, err
		}
		s.Repos[r.full()] = rs
	}
	return s, nil
}

func (w *World) repoState(r *repository) (RepoState, error) {
	s := RepoState{DefaultBranch: r.defaultBranch, Labels: []string{}, Issues: []IssueState{}, Pulls: []PullState{},
		Branches: map[string]BranchState{}, Refs: map[string]string{}, Checks: []CheckState{}, Statuses: []StatusState{}}
	for _, l := range r.labels {
		s.Labels = append(s.Labels, l.name)
	}
	for ref, sha := range r.refs {
		if name, ok := strings.CutPrefix(ref, "refs/heads/"); ok {
			n, err := w.countOf(r, sha)
			if err != nil {
				return RepoState{}, err
			}
			s.Branches[name] = BranchState{SHA: sha, Commits: n}
		} else if !strings.HasPrefix(ref, "refs/pull/") {
			s.Refs[ref] = sha
		}
	}
	for _, n := range issueNumbers(r) {
		i := r.issues[n]
		if i.gone || i.movedTo != nil {
			continue
		}
		if i.pull == nil {
			s.Issues = append(s.Issues, issueState(i))
			continue
		}
		p, err := w.pullState(i)
		if err != nil {
			return RepoState{}, err
		}
		s.Pulls = append(s.Pulls, p)
	}
	seen := map[string]bool{}
	for _, c := range r.checks {
		s.Checks = append(s.Checks, CheckState{ID: c.id, Name: c.name, App: c.app.slug, SHA: c.sha, Status: c.status, Conclusion: c.conclusion, Title: text(c.title)})
	}
	for _, st := range r.statuses {
		if seen[st.sha] {
			continue
		}
		seen[st.sha] = true
		for _, l := range latestStatuses(r, st.sha) {
			s.Statuses = append(s.Statuses, StatusState{SHA: l.sha, Context: l.context, State: l.state, Creator: l.creator.login})
		}
	}
	return s, nil
}

func issueState(i *issue) IssueState {
	s := IssueState{Number: i.number, Title: i.title, Body: text(i.body), Author: login(i.author), State: state(i), StateReason: i.stateReason,
		Locked: i.locked, Labels: []string{}, Comments: []CommentState{}, Events: []EventState{}}
	for _, l := range i.labels {
		s.Labels = append(s.Labels, l.name)
	}
	for _, c := range i.comments {
		s.Comments = append(s.Comments, CommentState{ID: c.id, Author: login(c.author), Body: c.body, Edits: c.edits})
	}
	for _, e := range i.events {
		es := EventState{Event: e.kind, Actor: login(e.actor)}
		if e.label != nil {
			es.Label = e.label.name
		}
		s.Events = append(s.Events, es)
	}
	return s
}

// login is a name for people, "ghost" for a deleted account.
func login(a *account) string {
	if a == nil || a.deleted {
		return "ghost"
	}
	return a.login
}

func (w *World) pullState(i *issue) (PullState, error) {
	p := i.pull
	s := PullState{IssueState: issueState(i), Draft: p.draft, Merged: p.merged, Head: p.head, HeadSHA: p.headSHA, Base: p.base,
		Files: []string{}, Reviews: []ReviewState{}}
	d, err := w.pullDiff(i)
	if err != nil {
		return PullState{}, err
	}
	s.Additions, s.Deletions = d.additions, d.deletions
	for _, f := range d.files {
		s.Files = append(s.Files, f.path)
	}
	if s.Commits, err = w.countOf(i.repo, w.baseOf(i)+".."+p.headSHA); err != nil {
		return PullState{}, err
	}
	for _, rv := range p.reviews {
		rs := ReviewState{Author: login(rv.author), State: rv.state, Body: rv.body, SHA: rv.sha, Comments: []LineComment{}}
		for _, c := range p.lineComments {
			if c.review == rv {
				rs.Comments = append(rs.Comments, LineComment{Path: c.path, Line: c.line, Body: c.body})
			}
		}
		s.Reviews = append(s.Reviews, rs)
	}
	return s, nil
}
