package config

import "time"

// Raw is the file as written. Field names are the keys; the JSON Schema is
// made from this type.
type Raw struct {
	DataDir      string            `json:"data_dir,omitempty" jsonschema:"folder for the database, artifacts, worktrees and caches"`
	FlowsDir     string            `json:"flows_dir,omitempty" jsonschema:"folder with your own flows; they override or add to the built-in ones"`
	Workers      *int              `json:"workers,omitempty" jsonschema:"runs worked on at the same time"`
	Server       RawServer         `json:"server,omitempty" jsonschema:"the HTTP server for webhooks"`
	GitHub       RawGitHub         `json:"github,omitempty" jsonschema:"how to reach GitHub and as whom"`
	Repositories []RawRepository   `json:"repositories,omitempty" jsonschema:"the repositories to serve"`
	Discover     *RawDiscover      `json:"discover,omitempty" jsonschema:"serve what the credential can reach, beside the repositories listed"`
	Labels       RawLabels         `json:"labels,omitempty" jsonschema:"label names"`
	Permissions  map[string]string `json:"permissions,omitempty" jsonschema:"least permission for triage, plan, implement, review, approve, stop, lift, answer"`
	Bots         RawBots           `json:"bots,omitempty" jsonschema:"bots that are listened to"`
	Breaker      RawBreaker        `json:"breaker,omitempty" jsonschema:"when work that comes to nothing again and again is stopped"`
	Models       RawModels         `json:"models,omitempty" jsonschema:"model backends and which prompt uses which"`
	Budgets      RawBudgets        `json:"budgets,omitempty" jsonschema:"spend limits; a number or the word unlimited"`
	Phases       RawPhases         `json:"phases,omitempty" jsonschema:"settings of the phases"`
	Sandbox      RawSandbox        `json:"sandbox,omitempty" jsonschema:"where repository commands run"`
	Git          RawGit            `json:"git,omitempty" jsonschema:"identity of commits"`
	Store        RawStore          `json:"store,omitempty" jsonschema:"the database"`
	Log          RawLog            `json:"log,omitempty" jsonschema:"logging"`
}

// RawServer is `server`.
type RawServer struct {
	Listen string `json:"listen,omitempty" jsonschema:"address, e.g. 127.0.0.1:8080"`
}

// RawGitHub is `github`.
type RawGitHub struct {
	BaseURL         string        `json:"base_url,omitempty" jsonschema:"REST API address; for GHES https://HOST/api/v3/"`
	TokenEnv        string        `json:"token_env,omitempty" jsonschema:"environment variable with a token"`
	TokenFile       string        `json:"token_file,omitempty" jsonschema:"file with a token"`
	App             *RawApp       `json:"app,omitempty" jsonschema:"GitHub App instead of a token"`
	Webhooks        *bool         `json:"webhooks,omitempty" jsonschema:"accept webhooks"`
	WebhookEnv      []string      `json:"webhook_secret_env,omitempty" jsonschema:"environment variables with webhook secrets; several while rotating"`
	WebhookFile     []string      `json:"webhook_secret_file,omitempty" jsonschema:"files with webhook secrets"`
	PollInterval    time.Duration `json:"poll_interval,omitempty" jsonschema:"time between polls, e.g. 30s"`
	CAFile          string        `json:"ca_file,omitempty" jsonschema:"PEM file with further certificate authorities"`
	WritesPerMinute *int          `json:"writes_per_minute,omitempty" jsonschema:"content writes a minute an installation"`
}

// RawApp is `github.app`.
type RawApp struct {
	ID             int64  `json:"id" jsonschema:"App id"`
	InstallationID int64  `json:"installation_id,omitempty" jsonschema:"installation id; found by repository when absent"`
	KeyEnv         string `json:"private_key_env,omitempty" jsonschema:"environment variable with the PEM key"`
	KeyFile        string `json:"private_key_file,omitempty" jsonschema:"file with the PEM key"`
}

// RawRepository is one entry of `repositories`.
type RawRepository struct {
	Name  string    `json:"name" jsonschema:"owner/name"`
	Tests *RawTests `json:"tests,omitempty" jsonschema:"how to run the tests of this repository"`
}

// RawDiscover is `discover`.
type RawDiscover struct {
	Allow []string      `json:"allow" jsonschema:"patterns of owner/name to serve, e.g. acme/*"`
	Deny  []string      `json:"deny,omitempty" jsonschema:"patterns of owner/name that are never served by discovery"`
	Every time.Duration `json:"every,omitempty" jsonschema:"time between looks, e.g. 10m"`
}

// RawTests is `phases.implement.tests` and `repositories[].tests`.
type RawTests struct {
	Command           []string      `json:"command,omitempty" jsonschema:"argv of the test command; found by its files when absent"`
	Timeout           time.Duration `json:"timeout,omitempty" jsonschema:"time for one test run"`
	Network           bool          `json:"network,omitempty" jsonschema:"allow network to the tests"`
	AllowUnknownCount bool          `json:"allow_unknown_count,omitempty" jsonschema:"accept exit code 0 from a runner that does not say how many tests ran"`
	Reruns            int           `json:"reruns,omitempty" jsonschema:"how often a failing run is repeated; a pass on a repeat counts and is recorded as flaky"`
}

// RawLabels is `labels`; an empty name keeps the default.
type RawLabels struct {
	Triage           string `json:"triage,omitempty"`
	Plan             string `json:"plan,omitempty"`
	AwaitingApproval string `json:"awaiting_approval,omitempty"`
	Approved         string `json:"approved,omitempty"`
	Implement        string `json:"implement,omitempty"`
	Review           string `json:"review,omitempty"`
	Done             string `json:"done,omitempty"`
	NeedsHuman       string `json:"needs_human,omitempty"`
	Declined         string `json:"declined,omitempty"`
	Stop             string `json:"stop,omitempty"`
	StopAll          string `json:"stop_all,omitempty"`
	Auto             string `json:"auto,omitempty"`
}

// RawBots is `bots`.
type RawBots struct {
	Allow []int64 `json:"allow,omitempty" jsonschema:"account ids of bots that may act like people"`
}

// RawBreaker is `breaker`.
type RawBreaker struct {
	Window   time.Duration `json:"window,omitempty" jsonschema:"how far back is counted"`
	Starts   *int          `json:"starts,omitempty" jsonschema:"starts of one phase of an issue that may end alike before the issue is stopped"`
	Comments *int          `json:"comments,omitempty" jsonschema:"refusals and answers that an issue gets as comments within an hour"`
}

// RawModels is `models`.
type RawModels struct {
	Backends          map[string]RawBackend `json:"backends,omitempty" jsonschema:"model servers by name"`
	Default           RawModel              `json:"default,omitempty" jsonschema:"the model for every prompt that is not listed"`
	Prompts           map[string]RawModel   `json:"prompts,omitempty" jsonschema:"models by phase (plan) or prompt (plan/draft)"`
	Prices            map[string]RawPrice   `json:"prices,omitempty" jsonschema:"prices by model name, US dollars a million tokens"`
	AllowUnknownPrice bool                  `json:"allow_unknown_price,omitempty" jsonschema:"use models without a price although money limits cannot hold"`
}

// RawBackend is one entry of `models.backends`.
type RawBackend struct {
	Driver    string        `json:"driver" jsonschema:"anthropic or openai"`
	BaseURL   string        `json:"base_url,omitempty" jsonschema:"address of the server; the vendor's when absent"`
	APIKeyEnv string        `json:"api_key_env,omitempty" jsonschema:"environment variable with the key"`
	KeyFile   string        `json:"api_key_file,omitempty" jsonschema:"file with the key"`
	JSONMode  string        `json:"json_mode,omitempty" jsonschema:"openai only: schema, tool or object"`
	Timeout   time.Duration `json:"timeout,omitempty" jsonschema:"longest time for one call"`
}

// RawModel names a model of a backend.
type RawModel struct {
	Backend   string `json:"backend,omitempty" jsonschema:"name of the backend"`
	Model     string `json:"model,omitempty" jsonschema:"name of the model"`
	MaxOutput int    `json:"max_output,omitempty" jsonschema:"most output tokens a call"`
}

// RawPrice is one entry of `models.prices`.
type RawPrice struct {
	Input  float64 `json:"input" jsonschema:"US dollars a million input tokens"`
	Cached float64 `json:"cached,omitempty" jsonschema:"US dollars a million cached input tokens"`
	Output float64 `json:"output" jsonschema:"US dollars a million output tokens"`
}

// RawBudgets is `budgets`.
type RawBudgets struct {
	Run   RawLimit `json:"run,omitempty" jsonschema:"one phase run"`
	Issue RawLimit `json:"issue,omitempty" jsonschema:"all runs of an issue, ever"`
	Day   RawLimit `json:"day,omitempty" jsonschema:"all runs since 00:00 UTC"`
}

// RawLimit bounds spend.
type RawLimit struct {
	Tokens    Amount `json:"tokens,omitempty"`
	CostUSD   Amount `json:"cost_usd,omitempty"`
	ToolCalls Amount `json:"tool_calls,omitempty"`
}

// RawPhases is `phases`.
type RawPhases struct {
	Triage    RawTriage    `json:"triage,omitempty"`
	Implement RawImplement `json:"implement,omitempty"`
	Review    RawReview    `json:"review,omitempty"`
}

// RawTriage is `phases.triage`.
type RawTriage struct {
	MinText   *int         `json:"min_text,omitempty" jsonschema:"issues with fewer visible characters are asked about before a model is paid"`
	Outsiders RawOutsiders `json:"outsiders,omitempty" jsonschema:"a look at new issues of people who may not start triage; it changes nothing but the status comment"`
}

// RawOutsiders is `phases.triage.outsiders`.
type RawOutsiders struct {
	Enabled bool     `json:"enabled,omitempty" jsonschema:"look at them"`
	PerDay  *int     `json:"per_day,omitempty" jsonschema:"most issues a day in a repository"`
	Budget  RawLimit `json:"budget,omitempty" jsonschema:"spend limit for one look"`
}

// RawImplement is `phases.implement`.
type RawImplement struct {
	MaxFiles  *int     `json:"max_files,omitempty" jsonschema:"most files in a change"`
	MaxLines  *int     `json:"max_lines,omitempty" jsonschema:"most added and deleted lines in a change"`
	Protected []string `json:"protected,omitempty" jsonschema:"path patterns that only people change"`
	Workflows bool     `json:"allow_workflows,omitempty" jsonschema:"let changes touch .github/workflows"`
	Tests     RawTests `json:"tests,omitempty" jsonschema:"how to run tests where a repository does not say"`
	// Commands are argv prefixes that the actuator may run itself.
	Commands [][]string `json:"commands,omitempty" jsonschema:"argv prefixes that the model may run in the sandbox"`
}

// RawReview is `phases.review`.
type RawReview struct {
	MaxRounds *int `json:"max_rounds,omitempty" jsonschema:"review rounds before a person is asked"`
}

// RawSandbox is `sandbox`.
type RawSandbox struct {
	Mode     string   `json:"mode,omitempty" jsonschema:"auto, bubblewrap, landlock or none"`
	ReadOnly []string `json:"read_only_paths,omitempty" jsonschema:"further folders that commands may read"`
}

// RawGit is `git`.
type RawGit struct {
	Name    string `json:"name,omitempty"`
	Email   string `json:"email,omitempty"`
	SignOff bool   `json:"sign_off,omitempty" jsonschema:"add a Signed-off-by line (DCO)"`
}

// RawStore is `store`.
type RawStore struct {
	Synchronous string `json:"synchronous,omitempty" jsonschema:"full or normal"`
}

// RawLog is `log`.
type RawLog struct {
	Level  string `json:"level,omitempty" jsonschema:"debug, info, warn or error"`
	Format string `json:"format,omitempty" jsonschema:"text or json"`
}
