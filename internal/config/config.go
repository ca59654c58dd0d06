// Package config reads config.yaml: strictly, all problems at once with their
// places, secrets only by reference to an environment variable or a file.
//
// It must not know how the settings are used. It may import checkpoints,
// labels, internal/{forge,secret,strictyaml} and the JSON Schema library.
package config

import (
	"time"

	"github.com/pipelinebot/pipelinebot/checkpoints"
	"github.com/pipelinebot/pipelinebot/internal/forge"
	"github.com/pipelinebot/pipelinebot/internal/secret"
	"github.com/pipelinebot/pipelinebot/labels"
)

// Config is a valid configuration with all defaults filled in.
type Config struct {
	// Path is the file it came from.
	Path              string
	DataDir, FlowsDir string
	Workers           int
	Listen            string
	GitHub            GitHub
	Repositories      []Repository
	// Discover is nil when only Repositories are served.
	Discover *Discover
	Labels   labels.Names
	Policy   labels.Policy
	// AllowedBots are account ids.
	AllowedBots []int64
	Breaker     Breaker
	Models      Models
	Limits      checkpoints.Limits
	Triage      Triage
	Implement   Implement
	Review      Review
	Sandbox     Sandbox
	Git         Git
	Store       Store
	Log         Log

	raw Raw
}

// GitHub is how to reach GitHub and as whom: Token or App is set.
type GitHub struct {
	BaseURL         string
	Token           secret.Value
	App             *App
	Webhooks        bool
	WebhookSecrets  []secret.Value
	PollInterval    time.Duration
	CAFile          string
	WritesPerMinute int
}

// App is a GitHub App.
type App struct {
	ID, InstallationID int64
	Key                secret.Value // PEM
}

// Repository is a repository to serve.
type Repository struct {
	Repo  forge.Repo
	Tests *Tests
}

// Breaker is when work that comes to nothing is stopped.
type Breaker struct {
	// Window is how far back starts are counted, Starts how many of one phase
	// of an issue may end alike, Comments how many refusals and answers an
	// issue gets an hour.
	Window           time.Duration
	Starts, Comments int
}

// Tests is how to run a repository's tests; an empty Command is detected.
type Tests struct {
	Command           []string
	Timeout           time.Duration
	Network           bool
	AllowUnknownCount bool
	// Reruns is how often a failing run is repeated, at most MaxReruns.
	Reruns int
}

// MaxReruns bounds Tests.Reruns.
const MaxReruns = 5

// Models maps prompts to models.
type Models struct {
	Backends          map[string]Backend
	Default           Model
	Prompts           map[string]Model
	Prices            map[string]Price
	AllowUnknownPrice bool
}

// Backend is a model server.
type Backend struct {
	Driver   string // anthropic or openai
	BaseURL  string
	Key      secret.Value
	JSONMode string
	Timeout  time.Duration
}

// Model is a model of a backend.
type Model struct {
	Backend, Name string
	MaxOutput     int
}

// Price is in micro US dollars a million tokens.
type Price struct{ Input, Cached, Output int64 }

// Triage is phases.triage.
type Triage struct {
	MinText   int
	Outsiders Outsiders
}

// Outsiders is phases.triage.outsiders: the look at new issues of people who
// may not start triage.
type Outsiders struct {
	Enabled bool
	// PerDay is the most looks a day in a repository, Budget bounds each.
	PerDay int
	Budget checkpoints.Limit
}

// Implement is phases.implement.
type Implement struct {
	MaxFiles, MaxLines int
	Protected          []string
	AllowWorkflows     bool
	Tests              Tests
	Commands           [][]string
}

// Review is phases.review.
type Review struct{ MaxRounds int }

// Sandbox is where commands run.
type Sandbox struct {
	Mode     string
	ReadOnly []string
}

// Git is the identity of commits.
type Git struct {
	Name, Email string
	SignOff     bool
}

// Store is the database.
type Store struct{ Synchronous string }

// Log is the logging.
type Log struct{ Level, Format string }

// TestsFor returns how to run a repository's tests.
func (c *Config) TestsFor(repo string) Tests {
	for _, r := range c.Repositories {
		if labels.Same(r.Repo.String(), repo) && r.Tests != nil {
			return *r.Tests
		}
	}
	return c.Implement.Tests
}
