package intake

import (
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/pipelinebot/pipelinebot/internal/forge"
)

// The kinds of deliveries beyond issues and comments. Each says what changed
// around an issue's work: its pull request, its checks, the repository and who
// may act in it.

// side is what is read of their bodies.
type side struct {
	Review *struct {
		CommitID string `json:"commit_id"`
	} `json:"review"`
	CheckRun *struct {
		HeadSHA string     `json:"head_sha"`
		Suite   checkSuite `json:"check_suite"`
		Pulls   []pullOf   `json:"pull_requests"`
	} `json:"check_run"`
	CheckSuite *checkSuite `json:"check_suite"`
	// of a status
	SHA      string `json:"sha"`
	State    string `json:"state"`
	Branches []struct {
		Name string `json:"name"`
	} `json:"branches"`
	// of a push
	Ref     string `json:"ref"`
	After   string `json:"after"`
	Deleted bool   `json:"deleted"`

	Changes *struct {
		Name       *was `json:"name"` // of a label
		Repository *struct {
			Name *was `json:"name"`
		} `json:"repository"`
		Owner *struct {
			From struct {
				User         *account `json:"user"`
				Organization *account `json:"organization"`
			} `json:"from"`
		} `json:"owner"`
	} `json:"changes"`
	Installation *struct {
		ID int64 `json:"id"`
	} `json:"installation"`
}

type was struct {
	From string `json:"from"`
}

type checkSuite struct {
	HeadSHA    string   `json:"head_sha"`
	HeadBranch string   `json:"head_branch"`
	Pulls      []pullOf `json:"pull_requests"`
}

type pullOf struct {
	Number int `json:"number"`
}

// kinds is what reads a delivery of each kind. The others are acknowledged and
// counted. A reader says whether the action means anything.
func kinds() map[string]func(p *payload, h *happened) (bool, error) {
	return map[string]func(p *payload, h *happened) (bool, error){
		"issues":                      (*payload).issues,
		"issue_comment":               (*payload).comment,
		"pull_request":                (*payload).pull,
		"pull_request_review":         actions(forge.Reviewed, (*payload).reviewed, "submitted", "edited", "dismissed"),
		"pull_request_review_comment": actions(forge.Reviewed, (*payload).reviewed, "created", "edited", "deleted"),
		"check_run":                   actions(forge.ChecksChanged, (*payload).checkRun, "created", "completed", "rerequested"),
		"check_suite":                 actions(forge.ChecksChanged, (*payload).checkSuite, "completed", "requested", "rerequested"),
		"status":                      actions(forge.ChecksChanged, (*payload).status),
		"push":                        actions(forge.Pushed, (*payload).push),
		"label":                       actions(forge.LabelChanged, (*payload).label, "created", "edited", "deleted"),
		"repository":                  actions(forge.RepoChanged, (*payload).renamed),
		"member":                      actions(forge.MemberChanged, (*payload).inRepo),
		"installation":                actions(forge.InstallationChanged, (*payload).installation),
		"installation_repositories":   actions(forge.InstallationChanged, (*payload).installation),
	}
}

// actions reads a kind of which only some actions mean something; without
// any, all do.
func actions(kind forge.EventKind, read func(*payload, *happened) error, which ...string) func(*payload, *happened) (bool, error) {
	return func(p *payload, h *happened) (bool, error) {
		if len(which) > 0 && !slices.Contains(which, p.Action) {
			return false, nil
		}
		h.event.Kind, h.event.Action = kind, p.Action
		return true, read(p, h)
	}
}

// inRepo sets the repository.
func (p *payload) inRepo(h *happened) error {
	repo, err := p.repo()
	if err != nil {
		return err
	}
	h.event.Issue.Repo = repo
	return nil
}

// aboutPull sets the pull request.
func (p *payload) aboutPull(h *happened) error {
	if p.Pull == nil || p.Pull.Number <= 0 {
		return errors.New("it holds no pull request")
	}
	h.event.Pull, h.event.Head, h.event.SHA = p.Pull.Number, p.Pull.Head.Ref, p.Pull.Head.SHA
	return p.inRepo(h)
}

func (p *payload) reviewed(h *happened) error {
	if err := p.aboutPull(h); err != nil {
		return err
	}
	if p.Review != nil && p.Review.CommitID != "" {
		h.event.SHA = p.Review.CommitID
	}
	return nil
}

func (p *payload) checkRun(h *happened) error {
	run := p.CheckRun
	if run == nil || run.HeadSHA == "" {
		return errors.New("it holds no check run")
	}
	h.event.SHA, h.event.Head = run.HeadSHA, run.Suite.HeadBranch
	h.event.Pull = first(append(run.Pulls, run.Suite.Pulls...))
	return p.inRepo(h)
}

func (p *payload) checkSuite(h *happened) error {
	suite := p.CheckSuite
	if suite == nil || suite.HeadSHA == "" {
		return errors.New("it holds no check suite")
	}
	h.event.SHA, h.event.Head, h.event.Pull = suite.HeadSHA, suite.HeadBranch, first(suite.Pulls)
	return p.inRepo(h)
}

func first(pulls []pullOf) int {
	if len(pulls) == 0 {
		return 0
	}
	return pulls[0].Number
}

func (p *payload) status(h *happened) error {
	if p.SHA == "" {
		return errors.New("it names no commit")
	}
	h.event.SHA, h.event.Action = p.SHA, p.State
	if len(p.Branches) > 0 {
		h.event.Head = p.Branches[0].Name
	}
	for _, b := range p.Branches { // one commit may be the head of several
		if strings.HasPrefix(b.Name, "pipelinebot/") {
			h.event.Head = b.Name
		}
	}
	return p.inRepo(h)
}

func (p *payload) push(h *happened) error {
	if p.Ref == "" {
		return errors.New("it names no ref")
	}
	branch, ok := strings.CutPrefix(p.Ref, "refs/heads/")
	if ok {
		h.event.Head = branch
	}
	h.event.SHA = p.After
	if p.Deleted {
		h.event.SHA, h.event.Action = "", "deleted"
	}
	return p.inRepo(h)
}

func (p *payload) label(h *happened) error {
	if p.Label == nil || p.Label.Name == "" {
		return errors.New("it names no label")
	}
	h.event.Label = p.Label.Name
	if p.Changes != nil && p.Changes.Name != nil {
		h.event.Was = p.Changes.Name.From
	}
	return p.inRepo(h)
}

// renamed says what the repository was called before, if it was.
func (p *payload) renamed(h *happened) error {
	if err := p.inRepo(h); err != nil {
		return err
	}
	before := h.event.Issue.Repo
	if c := p.Changes; c != nil {
		if c.Repository != nil && c.Repository.Name != nil {
			before.Name = c.Repository.Name.From
		}
		if c.Owner != nil {
			for _, a := range []*account{c.Owner.From.Organization, c.Owner.From.User} {
				if a != nil && a.Login != "" {
					before.Owner = a.Login
				}
			}
		}
	}
	if before != h.event.Issue.Repo {
		h.event.Was = before.String()
	}
	return nil
}

func (p *payload) installation(h *happened) error {
	if p.Installation == nil || p.Installation.ID <= 0 {
		return errors.New("it names no installation")
	}
	return nil // these concern no single repository
}

// Kinds are the kinds of deliveries that are read, as X-GitHub-Event names
// them: those to subscribe to. Others are acknowledged and counted.
func Kinds() []string { return slices.Sorted(maps.Keys(kinds())) }
