package intake

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/pipelinebot/pipelinebot/internal/forge"
)

// payload is what is read of a webhook's body; everything else in it, and any
// of it that is null, is tolerated.
// Source: https://docs.github.com/webhooks/webhook-events-and-payloads
type payload struct {
	Action string `json:"action"`
	Issue  *struct {
		ID      int64     `json:"id"`
		Number  int       `json:"number"`
		Updated time.Time `json:"updated_at"`
	} `json:"issue"`
	Comment *struct {
		ID      int64     `json:"id"`
		User    *account  `json:"user"`
		Body    string    `json:"body"`
		HTMLURL string    `json:"html_url"`
		Created time.Time `json:"created_at"`
		Updated time.Time `json:"updated_at"`
	} `json:"comment"`
	Pull *struct {
		Number int  `json:"number"`
		Merged bool `json:"merged"`
		Head   struct {
			Ref string `json:"ref"`
			SHA string `json:"sha"`
		} `json:"head"`
	} `json:"pull_request"`
	Label *struct {
		Name string `json:"name"`
	} `json:"label"`
	Repository *struct {
		ID       int64  `json:"id"`
		FullName string `json:"full_name"`
	} `json:"repository"`
	Sender *account `json:"sender"`

	side
}

type account struct {
	ID    int64  `json:"id"`
	Login string `json:"login"`
	Type  string `json:"type"`
}

func (a *account) actor() forge.Actor {
	if a == nil || a.Login == "" {
		return forge.Actor{Login: "ghost"}
	}
	return forge.Actor{ID: a.ID, Login: a.Login, Bot: a.Type == "Bot" || strings.HasSuffix(a.Login, "[bot]")}
}

// happened is an event and its semantic key, "" when a webhook can't know it:
// label and state events have an id in the issue's log only.
type happened struct {
	event forge.Event
	key   string
}

// issueAction is what an action of "issues" means, "" for nothing.
func issueAction(action string) forge.EventKind {
	switch action {
	case "opened":
		return forge.IssueOpened
	case "labeled":
		return forge.Labeled
	case "unlabeled":
		return forge.Unlabeled
	case "closed":
		return forge.IssueClosed
	case "reopened":
		return forge.IssueReopened
	case "edited":
		return forge.IssueEdited
	case "locked":
		return forge.IssueLocked
	case "deleted", "transferred":
		return forge.IssueGone
	default:
		return ""
	}
}

// decode reads a delivery. ok is false when the kind or the action means
// nothing to the pipeline; an error means a body that no forge would send.
func decode(kind string, body []byte, now time.Time) (h happened, ok bool, err error) {
	read, known := kinds()[kind]
	if !known {
		if !json.Valid(body) {
			return h, false, errors.New("the body is not JSON")
		}
		return h, false, nil
	}
	var p payload
	if err := json.Unmarshal(body, &p); err != nil {
		return h, false, fmt.Errorf("the body of %s can't be read: %w", kind, err)
	}
	h.event = forge.Event{Actor: p.Sender.actor(), At: now, Source: "webhook"}
	if p.Repository != nil {
		h.event.RepoID = p.Repository.ID
	}
	if p.Installation != nil {
		h.event.Installation = p.Installation.ID
	}
	if ok, err = read(&p, &h); err != nil {
		return happened{}, false, fmt.Errorf("%s %q: %w", kind, p.Action, err)
	}
	return h, ok, nil
}

func (p *payload) issues(h *happened) (bool, error) {
	kind := issueAction(p.Action)
	if kind == "" {
		return false, nil
	}
	if err := p.about(h); err != nil {
		return false, err
	}
	h.event.Kind = kind
	switch kind {
	case forge.Labeled, forge.Unlabeled:
		if p.Label == nil || p.Label.Name == "" {
			return false, errors.New("it names no label")
		}
		h.event.Label = p.Label.Name
	case forge.IssueEdited:
		if p.Issue.ID > 0 && !p.Issue.Updated.IsZero() {
			h.key = issueEditKey(p.Issue.ID, p.Issue.Updated)
		}
	default: // the others say all by their kind
	}
	return true, nil
}

func (p *payload) comment(h *happened) (bool, error) {
	if p.Action != "created" && p.Action != "edited" {
		return false, nil
	}
	if err := p.about(h); err != nil {
		return false, err
	}
	c := p.Comment
	if c == nil || c.ID <= 0 {
		return false, errors.New("it holds no comment")
	}
	h.event.Comment = &forge.Comment{
		ID: c.ID, Author: c.User.actor(), Body: c.Body, HTMLURL: c.HTMLURL,
		Created: c.Created.UTC(), Updated: c.Updated.UTC(),
	}
	h.event.Kind, h.key = forge.Commented, commentKey(c.ID)
	if p.Action == "edited" {
		h.event.Kind, h.key = forge.CommentEdited, commentEditKey(c.ID, c.Updated)
	}
	return true, nil
}

func (p *payload) pull(h *happened) (bool, error) {
	if p.Action != "closed" && p.Action != "synchronize" {
		return false, nil
	}
	if err := p.aboutPull(h); err != nil {
		return false, err
	}
	h.event.Action = p.Action
	if p.Action == "synchronize" {
		h.event.Kind = forge.Pushed
		return true, nil
	}
	h.event.Kind, h.event.Merged, h.event.Issue.Number = forge.PullClosed, p.Pull.Merged, p.Pull.Number
	return true, nil
}

// about sets the issue.
func (p *payload) about(h *happened) error {
	repo, err := p.repo()
	if err != nil {
		return err
	}
	if p.Issue == nil || p.Issue.Number <= 0 {
		return errors.New("it holds no issue")
	}
	h.event.Issue = forge.Ref{Repo: repo, Number: p.Issue.Number}
	return nil
}

func (p *payload) repo() (forge.Repo, error) {
	if p.Repository == nil {
		return forge.Repo{}, errors.New("it names no repository")
	}
	return forge.ParseRepo(p.Repository.FullName)
}
