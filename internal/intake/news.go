package intake

import (
	"slices"
	"strings"
	"time"

	"github.com/pipelinebot/pipelinebot/internal/forge"
)

// seen is everything that was read of an issue in one look.
type seen struct {
	issue    forge.Issue
	log      []forge.IssueEvent
	comments []forge.Comment
}

// news compares what was read with the place, and returns the events to emit,
// oldest first, and the place after them. At the first sight of an issue only
// what its present pipeline labels mean is news, not its history.
func (s seen) news(was place, known bool, pipeline []string, skip func(forge.Comment) bool) ([]happened, place) {
	now := snapshot(s.issue)
	now.Log, now.Talk = was.Log.through(ids(s.log, func(e forge.IssueEvent) int64 { return e.ID })), was.Talk.through(ids(s.comments, func(c forge.Comment) int64 { return c.ID }))
	now.Edited = map[int64]time.Time{}
	now.Behind = s.behind(pipeline)
	var out []happened
	for _, e := range s.log {
		if h, ok := s.fromLog(e); ok && (known && was.Log.fresh(e.ID) || !known && s.stands(e, pipeline)) {
			out = append(out, h)
		}
	}
	for _, c := range s.comments {
		edited := c.Updated.After(c.Created)
		if edited {
			now.Edited[c.ID] = c.Updated
		}
		switch {
		case !known || skip(c):
		case was.Talk.fresh(c.ID):
			out = append(out, s.said(c, forge.Commented, c.Author, c.Created, commentKey(c.ID)))
		case edited && !was.Edited[c.ID].Equal(c.Updated):
			out = append(out, s.said(c, forge.CommentEdited, forge.Actor{}, c.Updated, commentEditKey(c.ID, c.Updated)))
		}
	}
	if known && was.Body != now.Body {
		out = append(out, happened{s.event(forge.IssueEdited, forge.Actor{}, s.issue.Updated), issueEditKey(s.issue.ID, s.issue.Updated)})
	}
	slices.SortStableFunc(out, func(a, b happened) int { return a.event.At.Compare(b.event.At) })
	return out, now
}

func ids[T any](in []T, id func(T) int64) []int64 {
	out := make([]int64, len(in))
	for i, x := range in {
		out[i] = id(x)
	}
	return out
}

func (s seen) event(kind forge.EventKind, by forge.Actor, at time.Time) forge.Event {
	return forge.Event{Kind: kind, Issue: s.issue.Ref, Actor: by, At: at, Source: "poll"}
}

// said is news of a comment. Who edited one is not told by the API, so an
// edit has no actor, and thus no permission.
func (s seen) said(c forge.Comment, kind forge.EventKind, by forge.Actor, at time.Time, key string) happened {
	ev := s.event(kind, by, at)
	ev.Comment = &c
	return happened{ev, key}
}

// fromLog translates an entry of the log; ok is false for what means nothing.
func (s seen) fromLog(e forge.IssueEvent) (happened, bool) {
	var kind forge.EventKind
	switch e.Kind {
	case "labeled":
		kind = forge.Labeled
	case "unlabeled":
		kind = forge.Unlabeled
	case "closed":
		kind = forge.IssueClosed
		if s.issue.Pull {
			kind = forge.PullClosed
		}
	case "reopened":
		kind = forge.IssueReopened
	case "renamed":
		kind = forge.IssueEdited
	case "locked":
		kind = forge.IssueLocked
	case "transferred", "converted_to_discussion":
		kind = forge.IssueGone
	default:
		return happened{}, false
	}
	ev := s.event(kind, e.Actor, e.At)
	ev.Label, ev.LogID = e.Label, e.ID
	ev.Merged = kind == forge.PullClosed && slices.ContainsFunc(s.log, func(o forge.IssueEvent) bool { return o.Kind == "merged" })
	return happened{ev, logKey(kind, e.ID)}, true
}

// last is the newest entry of the log that put a label on or took it off.
func (s seen) last(label string) (forge.IssueEvent, bool) {
	for _, e := range slices.Backward(s.log) {
		if (e.Kind == "labeled" || e.Kind == "unlabeled") && strings.EqualFold(e.Label, label) {
			return e, true
		}
	}
	return forge.IssueEvent{}, false
}

func has(list []string, label string) bool {
	return slices.ContainsFunc(list, func(l string) bool { return strings.EqualFold(l, label) })
}

// stands reports that e is why a pipeline label is on the issue now.
func (s seen) stands(e forge.IssueEvent, pipeline []string) bool {
	if e.Kind != "labeled" || !has(pipeline, e.Label) || !has(s.issue.Labels, e.Label) {
		return false
	}
	last, ok := s.last(e.Label)
	return ok && last.ID == e.ID
}

// behind reports that the log does not agree with the labels: one of the two
// is older, so the issue must be read again.
func (s seen) behind(pipeline []string) bool {
	for _, label := range pipeline {
		last, ok := s.last(label)
		if on := has(s.issue.Labels, label); on && (!ok || last.Kind != "labeled") || !on && ok && last.Kind != "unlabeled" {
			return true
		}
	}
	return false
}
