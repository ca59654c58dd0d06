package scenario

import "context"

// Launcher starts the program under test. The usual one writes a config.yaml
// into Bot.Dir and starts `pipelinebot serve` as a child process.
type Launcher interface {
	// Start returns once the program is ready: it listens for webhooks (if it
	// has any) and has begun to poll. A program that refuses to start is an
	// error that holds what it wrote to stderr.
	Start(ctx context.Context, b Bot) (Process, error)
}

// Bot is what the program is told.
type Bot struct {
	// APIURL is the REST base, "http://127.0.0.1:PORT/gh/api/v3/".
	APIURL string
	// Token or App says as whom it acts; the account is Login.
	Token string
	App   *AppKey
	Login string
	// Repos are the repositories to serve, "owner/name".
	Repos []string
	// WebhookSecret signs deliveries. With PollOnly there are none.
	WebhookSecret string
	PollOnly      bool
	// ModelURL is the scripted model's address without a path: the base URL
	// for an Anthropic client; an OpenAI client takes ModelURL + "/v1".
	// ModelKey is the key for both.
	ModelURL string
	ModelKey string
	// MomentsURL, when set, is told of each commit and each command by a POST
	// of {kind, stage, name}; the program goes on when it is answered.
	MomentsURL string
	// Dir is the data folder; it is kept over restarts.
	Dir string
	// Overrides is merged into config.yaml last: mappings key by key,
	// everything else is replaced. See Merge.
	Overrides map[string]any
	// Files are put into Dir by path; Templates are names of flow templates by
	// the name of the project flow to make of each. See BotSpec.
	Files     map[string]string
	Templates map[string]string
}

// AppKey is a GitHub App's identity.
type AppKey struct {
	ID             int64
	InstallationID int64
	// PEM is the RSA private key.
	PEM string
}

// Process is one running program.
type Process interface {
	// Kill ends it at once (SIGKILL), Terminate asks it to end (SIGTERM).
	Kill()
	Terminate()
	// Wait returns when it is gone: nil for exit code 0.
	Wait(ctx context.Context) error
	// WebhookURL is where deliveries go, "" when it takes none.
	WebhookURL() string
	// Runs reads the program's books. It must work while it runs and after it
	// has ended.
	Runs(ctx context.Context) ([]RunView, error)
}

// Merge puts over into base, mapping by mapping; anything but a mapping is
// replaced. Both are left as they are.
func Merge(base, over map[string]any) map[string]any {
	out := make(map[string]any, len(base)+len(over))
	for k, v := range base {
		out[k] = v
	}
	for k, v := range over {
		b, okB := out[k].(map[string]any)
		o, okO := v.(map[string]any)
		if okB && okO {
			v = Merge(b, o)
		}
		out[k] = v
	}
	return out
}
