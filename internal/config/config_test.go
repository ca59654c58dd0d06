package config_test

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pipelinebot/pipelinebot/internal/config"
	"github.com/pipelinebot/pipelinebot/internal/forge"
	"github.com/pipelinebot/pipelinebot/internal/strictyaml"
	"github.com/pipelinebot/pipelinebot/labels"
)

var update = flag.Bool("update", false, "rewrite config.schema.json")

const minimal = `github: {token_env: TOKEN, webhooks: false}
repositories: [{name: acme/widgets}]
models: {backends: {main: {driver: openai, base_url: "http://127.0.0.1:1/v1"}}, default: {model: m}}
`

func env(name string) (string, bool) {
	v, ok := map[string]string{
		"TOKEN": "s3cr3t-token", "GITHUB_TOKEN": "s3cr3t-token", "WEBHOOK_SECRET": "s3cr3t-hook", "ANTHROPIC_API_KEY": "s3cr3t-key",
		"BADKEY": "not pem",
	}[name]
	return v, ok
}

func TestShippedFile(t *testing.T) {
	t.Parallel()
	cfg, err := config.Load(filepath.Join("..", "..", "config.yaml"), env)
	if err != nil {
		t.Fatal(err)
	}
	out, err := cfg.YAML()
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(out), "s3cr3t") || !strings.Contains(string(out), "token: '****'") {
		t.Errorf("secrets are not stars:\n%s", out)
	}
	// The comments promise that the file shows the defaults.
	def, err := config.Parse("config.yaml", []byte(minimal), env)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(def.Limits, cfg.Limits); diff != "" {
		t.Errorf("budgets in config.yaml are not the defaults (-default +file):\n%s", diff)
	}
	if diff := cmp.Diff(def.Implement.Commands, cfg.Implement.Commands); diff != "" {
		t.Errorf("commands in config.yaml are not the defaults (-default +file):\n%s", diff)
	}
	if diff := cmp.Diff(def.Labels, cfg.Labels); diff != "" {
		t.Errorf("labels in config.yaml are not the defaults (-default +file):\n%s", diff)
	}
	if diff := cmp.Diff(def.Breaker, cfg.Breaker); diff != "" {
		t.Errorf("breaker in config.yaml is not the default (-default +file):\n%s", diff)
	}
	if diff := cmp.Diff(def.Triage, cfg.Triage); diff != "" {
		t.Errorf("triage in config.yaml is not the default (-default +file):\n%s", diff)
	}
	if diff := cmp.Diff(def.Policy, cfg.Policy); diff != "" {
		t.Errorf("permissions in config.yaml are not the defaults (-default +file):\n%s", diff)
	}
}

func TestProblems(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, src, want string }{
		{"unknown key", minimal + "wrokers: 3\n", `config.yaml:4:1: wrokers: unknown key (did you mean "workers"?)`},
		{"wrong type", minimal + "workers: many\n", `config.yaml:4:10: workers: want a whole number, got the text "many"`},
		{"below one", minimal + "workers: 0\n", `config.yaml:4:10: workers: want a number above 0, got 0`},
		{"missing variable", strings.Replace(minimal, "TOKEN", "NOPE", 1), "config.yaml:1:21: github.token_env: the environment variable NOPE is not set (export NOPE before starting)"},
		{"inline token", strings.Replace(minimal, "token_env: TOKEN", "token: abc", 1), "github.token: a secret must not stand in the file (name an environment variable with token_env"},
		{"pasted token", strings.Replace(minimal, "TOKEN", "ghp_0123456789abcdefghijABCDEFGHIJ012345", 1), "github.token_env: this is not a variable's name"},
		{"credentials in address", strings.Replace(minimal, "http://", "http://u:p@", 1), "models.backends.main.base_url: a secret must not stand in the address"},
		{"unreadable key", strings.Replace(minimal, "token_env: TOKEN", "app: {id: 1, private_key_file: none.pem}", 1), "github.app.private_key_file: cannot read the secret: no such file"},
		{"bad key", strings.Replace(minimal, "token_env: TOKEN", "app: {id: 1, private_key_env: BADKEY}", 1), "github.app.private_key_env: the private key is not PEM (download a new private key"},
		{"no webhook secret", strings.Replace(minimal, ", webhooks: false", "", 1), "github.webhooks: webhooks are on and no webhook secret is named"},
		{"unknown backend", strings.Replace(minimal, "{model: m}", "{model: m, backend: mian}", 1), `there is no backend "mian" (did you mean "main"?)`},
		{"bad repository", strings.Replace(minimal, "acme/widgets", "acme", 1), `repositories[0].name: repository "acme": want owner/name`},
		{"same label twice", minimal + "labels: {plan: Pipeline:Triage}\n", "two labels have the name"},
		{"bad limit", minimal + "budgets: {run: {cost_usd: -1}}\n", `budgets.run.cost_usd: want a number not below 0 or the word "unlimited", got "-1"`},
		{"not a number", minimal + "budgets: {run: {cost_usd: .nan}}\n", `budgets.run.cost_usd: want a number not below 0`},
		{"open to strangers", minimal + "permissions: {implement: none}\n", "would let strangers spend your money"},
		{"empty file", "", "no credential is named"},
		{"too many workers", minimal + "workers: 100000\n", "config.yaml:4:10: workers: want at most 256, got 100000"},
		{"broken pattern", minimal + "phases: {implement: {protected: [LICENSE, \"[a\"]}}\n", `phases.implement.protected[1]: this pattern matches nothing: "[a"`},
		{"pattern outside", minimal + "phases: {implement: {protected: [../**]}}\n", "phases.implement.protected[0]: this pattern matches nothing"},
		{"command that allows all", minimal + "phases: {implement: {commands: [[]]}}\n", "phases.implement.commands[0]: the command is empty"},
		{"author of two lines", minimal + "git: {name: \"a\\nb\"}\n", "git.name: git takes no empty text, line break"},
		{"no flows", minimal + "flows_dir: nowhere\n", "flows_dir: there is no folder"},
		{"nothing to discover", minimal + "discover: {}\n", "discover.allow: no pattern allows anything"},
		{"pattern of no repository", minimal + "discover: {allow: [acme]}\n", `discover.allow[0]: this pattern matches no owner/name: "acme"`},
		{"broken repository pattern", minimal + "discover: {allow: [acme/*], deny: [\"acme/[\"]}\n", "discover.deny[0]: this pattern matches no owner/name"},
		{"no breaker", minimal + "breaker: {starts: 0}\n", "breaker.starts: want a number above 0, got 0"},
		{"window of no time", minimal + "breaker: {window: -1s}\n", "breaker.window: want a time above 0"},
		{"no outsiders a day", minimal + "phases: {triage: {outsiders: {per_day: 0}}}\n", "phases.triage.outsiders.per_day: want a number above 0"},
		{"too many reruns", minimal + "phases: {implement: {tests: {reruns: 6}}}\n", "phases.implement.tests.reruns: want 0 to 5"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := config.Parse("config.yaml", []byte(tt.src), env)
			var problems strictyaml.Problems
			if !errors.As(err, &problems) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v\nwant %s", err, tt.want)
			}
			if err != nil && strings.Contains(err.Error(), "ghp_") {
				t.Errorf("the error shows the secret: %v", err)
			}
		})
	}
}

// What can't be read as YAML lacks nothing that one could name.
func TestNoYAMLIsOneProblem(t *testing.T) {
	t.Parallel()
	for _, src := range []string{"a: [", "workers: 1\x00\n", "workers: 1\n---\nworkers: 2\n", strings.Repeat("[", 20000)} {
		_, err := config.Parse("config.yaml", []byte(src), env)
		var problems strictyaml.Problems
		if !errors.As(err, &problems) || len(problems) != 1 {
			t.Errorf("%.20q: want one problem, got:\n%v", src, err)
		}
	}
}

func TestAllProblemsAtOnce(t *testing.T) {
	t.Parallel()
	_, err := config.Parse("config.yaml", []byte("workers: x\ngithub: {token_env: NOPE}\nlog: {level: loud}\n"), env)
	var problems strictyaml.Problems
	if !errors.As(err, &problems) || len(problems) < 6 {
		t.Errorf("want every problem, got:\n%v", err)
	}
}

// The usual configuration is named by a relative path and names relative ones;
// whatever starts in another folder must still find them.
func TestRelativePaths(t *testing.T) {
	t.Parallel()
	cfg, err := config.Parse("config.yaml", []byte(minimal+"data_dir: data\nflows_dir: .\n"), env)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range []string{cfg.DataDir, cfg.FlowsDir} {
		if !filepath.IsAbs(p) {
			t.Errorf("%q is not absolute", p)
		}
	}
}

// Whoever only looks needs no secrets, but the rest must still be right.
func TestLoadWithoutSecrets(t *testing.T) {
	t.Parallel()
	write := func(text string) string {
		path := filepath.Join(t.TempDir(), "config.yaml")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	cfg, err := config.LoadWithoutSecrets(write(`github: {app: {id: 1, private_key_file: absent.pem}, webhook_secret_env: [ABSENT]}
repositories: [{name: acme/widgets}]
models: {backends: {main: {driver: anthropic, api_key_env: ABSENT}}, default: {model: m}}
`))
	if err != nil {
		t.Fatal(err)
	}
	if !cfg.GitHub.App.Key.Empty() || !cfg.Models.Backends["main"].Key.Empty() || !filepath.IsAbs(cfg.DataDir) {
		t.Errorf("secrets are not empty, or the data folder %s is not absolute", cfg.DataDir)
	}
	var problems strictyaml.Problems
	if _, err := config.LoadWithoutSecrets(write(minimal + "wrokers: 1\n")); !errors.As(err, &problems) {
		t.Errorf("an unknown key: %v, want problems", err)
	}
	if _, err := config.LoadWithoutSecrets(filepath.Join(t.TempDir(), "absent.yaml")); !errors.Is(err, config.ErrNoFile) {
		t.Errorf("no file: %v, want ErrNoFile", err)
	}
}

// What is printed can be read by people, and read back by the program.
func TestPrintedForm(t *testing.T) {
	t.Parallel()
	cfg, err := config.Parse("config.yaml", []byte(strings.Replace(minimal, "repositories:", "repositories: # one with tests\n", 1)), env)
	if err != nil {
		t.Fatal(err)
	}
	cfg.Repositories[0].Tests = &config.Tests{Command: []string{"make", "test"}, Timeout: 90 * time.Second}
	out, err := cfg.YAML()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"timeout: 1m30s", "poll_interval: 30s"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("the output lacks %q:\n%s", want, out)
		}
	}
	for _, bad := range []string{"null", "90000000000"} {
		if strings.Contains(string(out), bad) {
			t.Errorf("the output has %q:\n%s", bad, out)
		}
	}
}

func TestZeroIsZero(t *testing.T) {
	t.Parallel()
	cfg, err := config.Parse("config.yaml", []byte(minimal+"budgets: {run: {cost_usd: 0, tokens: unlimited}}\n"), env)
	if err != nil {
		t.Fatal(err)
	}
	if l := cfg.Limits.Run; l.MicroUSD == nil || *l.MicroUSD != 0 || l.Tokens != nil || l.ToolCalls == nil {
		t.Errorf("limits are %+v", l)
	}
}

func TestPolicy(t *testing.T) {
	t.Parallel()
	cfg, err := config.Parse("config.yaml", []byte(minimal+"permissions: {implement: admin, answer: none}\n"), env)
	if err != nil {
		t.Fatal(err)
	}
	if cfg.Policy.Start[labels.Implement] != forge.Admin || cfg.Policy.Answer != forge.None || cfg.Policy.Start[labels.Plan] != forge.Write {
		t.Errorf("policy is %+v", cfg.Policy)
	}
}

func TestSchema(t *testing.T) {
	t.Parallel()
	got, err := config.Schema()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join("..", "..", "config.schema.json")
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	have, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(got), string(have)); diff != "" {
		t.Errorf("config.schema.json is stale, run `go test ./internal/config -update` (-want +got):\n%s", diff)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(minimal))
	f.Add([]byte("github: {app: {id: -1, private_key_env: BADKEY}}\nrepositories: [{name: a/b}, {name: A/B}]\n"))
	f.Fuzz(func(t *testing.T, src []byte) {
		cfg, err := config.Parse("config.yaml", src, env)
		if (cfg == nil) == (err == nil) {
			t.Fatal("neither a configuration nor an error, or both")
		}
		if err == nil {
			if _, err := cfg.YAML(); err != nil {
				t.Fatal(err)
			}
		}
	})
}

func TestDiscover(t *testing.T) {
	t.Parallel()
	src := strings.Replace(minimal, "repositories: [{name: acme/widgets}]\n", "discover: {allow: [Acme/*, \"*/docs\"], deny: [acme/old-*]}\n", 1)
	cfg, err := config.Parse("config.yaml", []byte(src), env)
	if err != nil {
		t.Fatal(err)
	}
	if cfg.Discover.Every != 10*time.Minute || len(cfg.Repositories) != 0 {
		t.Errorf("discover = %+v, repositories %v", cfg.Discover, cfg.Repositories)
	}
	for name, want := range map[string]bool{
		"acme/shop": true, "ACME/Shop": true, "acme/old-shop": false, "Acme/OLD-x": false, "bob/docs": true, "bob/shop": false,
	} {
		r, err := forge.ParseRepo(name)
		if err != nil {
			t.Fatal(err)
		}
		if got := cfg.Discover.Serves(r); got != want {
			t.Errorf("%s is served: %v, want %v", name, got, want)
		}
	}
	var none *config.Discover
	if none.Serves(forge.Repo{Owner: "acme", Name: "shop"}) {
		t.Error("without discovery something is discovered")
	}
}
