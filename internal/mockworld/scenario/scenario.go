// Package scenario replays a story against the real program: a small world
// (mockworld), a scripted model (modelwire), people and faults by a timeline,
// and claims about the world at the end. A scenario is one YAML file; the
// format is documented by example in docs/scenarios.md.
//
// The package starts nothing by itself: whoever runs it gives a Launcher that
// starts the program as a process of its own, so that a kill is a real kill.
//
//	s, err := scenario.Load("01.yaml", src)         // Problems, with places
//	rep, err := scenario.Run(ctx, s, launcher, scenario.Options{Dir: dir})
//	fmt.Print(rep)                                   // what held, what did not
//
// `pipelinebot replay` does that for each file; `pipelinebot demo` does it for
// one file and passes Options.Observe to draw its timeline, and Options.Hold
// to keep the world up afterwards.
//
// It must not know our clients (internal/gh, gitws, llm), phases or stores,
// nor package testing. It may import mockworld, modelwire, internal/clock and
// internal/strictyaml.
package scenario

import (
	"fmt"
	"time"

	"github.com/pipelinebot/pipelinebot/internal/mockworld/modelwire"
	"github.com/pipelinebot/pipelinebot/internal/strictyaml"
)

// Kinds are the kinds of the catalogue that a scenario may cover.
func Kinds() []string {
	return []string{"Delivery", "Labels", "Actors", "Phases", "Durability", "Bounds", "Git", "GitHub errors", "Gates", "Injection"}
}

// BotLogin is the bot's account with a token; with an app it is BotLogin +
// "[bot]".
const BotLogin = "pipelinebot"

// StatusMarker opens the bot's status comment; it is what tells the status
// comment from others.
const StatusMarker = "<!-- pipelinebot:status -->"

// Scenario is one file.
type Scenario struct {
	// Name is a sentence for people.
	Name string `json:"name"`
	// Covers names kinds of the catalogue, at least one; see Kinds.
	Covers []string `json:"covers"`
	// About says more, for people.
	About string           `json:"about"`
	World World            `json:"world"`
	Bot   BotSpec          `json:"bot"`
	Model modelwire.Script `json:"model"`
	// Timeline is what people and operators do, in order.
	Timeline []Step  `json:"timeline"`
	Faults   []Fault `json:"faults"`
	Expect   Expect  `json:"expect"`
	// Settle is how long the expectations must hold without a write or a
	// model call before they count; 300 ms when zero.
	Settle time.Duration `json:"settle"`
	// Timeout ends a scenario whose expectations never hold; 2 minutes when zero.
	Timeout time.Duration `json:"timeout"`

	// File is where it came from.
	File string `json:"-"`

	doc *strictyaml.Document
}

// Place is "file:line:column" of a path such as "expect.issues[0].labels".
func (s *Scenario) Place(path string) string {
	if s.doc == nil {
		return s.File
	}
	p := s.doc.Problem(path, "", "")
	return fmt.Sprintf("%s:%d:%d", p.File, p.Line, p.Column)
}

// World is what exists before the bot starts.
type World struct {
	// Users gives the type of accounts that are not plain people: "bot" or
	// "organization", by login. People need not be listed.
	Users  map[string]string `json:"users"`
	Repos  []Repo            `json:"repos"`
	Issues []Issue           `json:"issues"`
	// Auth is "token" (default) or "app".
	Auth string `json:"auth"`
	// Permissions makes the token fine-grained, or replaces the app's usual
	// ones (issues, contents, pull_requests, checks: write).
	Permissions map[string]string `json:"permissions"`
	// PollOnly leaves the bot without webhooks.
	PollOnly bool `json:"poll_only"`
	// LabelBumpsUpdated makes labelling move updated_at; sources disagree
	// whether GitHub does.
	LabelBumpsUpdated bool `json:"label_bumps_updated"`
}

// Repo is a repository with its first commit.
type Repo struct {
	Name          string `json:"name"` // owner/name
	Private       bool   `json:"private"`
	DefaultBranch string `json:"default_branch"`
	// Roles by login: none, read, triage, write, maintain, admin. The bot has
	// write unless it is listed.
	Roles map[string]string `json:"roles"`
	// Files of the first commit by path; Executable ones have mode 755.
	Files      map[string]string `json:"files"`
	Executable map[string]string `json:"executable"`
	// Symlinks maps a path to its target, Submodules a path to a commit.
	Symlinks   map[string]string `json:"symlinks"`
	Submodules map[string]string `json:"submodules"`
	// Labels are made beforehand; Fill adds that many more of no meaning.
	Labels []string `json:"labels"`
	Fill   int      `json:"fill_labels"`
}

// Issue is an issue that is open when the bot starts; its number follows from
// its place in the list, from 1, within its repository.
type Issue struct {
	// Repo is the first repository when empty.
	Repo   string `json:"repo"`
	Author string `json:"author"`
	Title  string `json:"title"`
	Body   string `json:"body"`
	NoBody bool   `json:"no_body"`
	// Labels are put on by the author, or by the first account that may.
	Labels []string `json:"labels"`
	// Fill appends that many further unimportant labels.
	Fill int `json:"fill_labels"`
}

// BotSpec is how the program is configured.
type BotSpec struct {
	// Config is merged into the config.yaml that the launcher writes, key by
	// key; lists are replaced.
	Config map[string]any `json:"config"`
	// Files are written beside config.yaml by path, e.g. flows of the
	// project's own.
	Files map[string]string `json:"files"`
	// Templates are project flows made from a template, by the name they get:
	// {implement: dependency-bump} runs that in place of the phase's flow.
	Templates map[string]string `json:"templates"`
	// Manual leaves starting it to a start_bot step.
	Manual bool `json:"manual_start"`
}
