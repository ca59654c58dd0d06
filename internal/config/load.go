package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/pipelinebot/pipelinebot/internal/secret"
	"github.com/pipelinebot/pipelinebot/internal/strictyaml"
)

// Env looks up an environment variable.
type Env func(name string) (value string, ok bool)

// Load reads and checks the file at path. The error is strictyaml.Problems
// when the content is at fault.
func Load(path string, env Env) (*Config, error) {
	src, err := read(path)
	if err != nil {
		return nil, err
	}
	return Parse(path, src, env)
}

// LoadWithoutSecrets is Load for whoever only looks, at the store or at flows:
// it checks everything but the secrets' content, and every secret.Value in the
// result is empty.
func LoadWithoutSecrets(path string) (*Config, error) {
	src, err := read(path)
	if err != nil {
		return nil, err
	}
	return parse(path, src, &checker{blind: true})
}

// ErrNoFile means that there is no configuration at the path.
var ErrNoFile = errors.New("name one with --config, or begin with a copy of the project's config.yaml")

func read(path string) ([]byte, error) {
	src, err := strictyaml.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("there is no configuration at %s: %w", path, ErrNoFile)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the configuration: %w", err)
	}
	return src, nil
}

// Parse reads and checks src. Relative paths in it are relative to the file's
// folder; in the result they are absolute, also when path is not.
func Parse(path string, src []byte, env Env) (*Config, error) {
	return parse(path, src, &checker{env: env})
}

func parse(path string, src []byte, c *checker) (*Config, error) {
	// What starts elsewhere, such as git and sandboxes, needs whole paths.
	dir, err := filepath.Abs(filepath.Dir(path))
	if err != nil {
		return nil, fmt.Errorf("finding the folder of %s: %w", path, err)
	}
	c.dir = dir
	var problems strictyaml.Problems
	c.doc, problems = strictyaml.Decode(filepath.Base(path), src, &c.raw)
	for i, p := range problems {
		if hint := inlineSecretHint(p.Path); hint != "" && p.Msg == "unknown key" {
			problems[i].Msg, problems[i].Hint = "a secret must not stand in the file", hint
		}
	}
	if len(problems) > 0 && !c.doc.Has("") {
		return nil, problems // it is no YAML: nothing can be said of what it lacks
	}
	c.problems = problems
	cfg := c.config()
	cfg.Path = path
	if len(c.problems) > 0 {
		c.problems.Sort()
		return nil, c.problems
	}
	return cfg, nil
}

// inlineSecretHint recognises keys that people try for inline secrets.
func inlineSecretHint(path string) string {
	switch path[strings.LastIndex(path, ".")+1:] {
	case "token":
		return "name an environment variable with token_env or a file with token_file"
	case "webhook_secret", "secret":
		return "name environment variables with webhook_secret_env or files with webhook_secret_file"
	case "api_key", "key":
		return "name an environment variable with api_key_env or a file with api_key_file"
	case "private_key":
		return "name an environment variable with private_key_env or a file with private_key_file"
	case "password":
		return "name an environment variable or a file"
	}
	return ""
}

// checker turns Raw into Config and collects problems.
type checker struct {
	raw      Raw
	doc      *strictyaml.Document
	dir      string
	env      Env
	blind    bool // reads no secret
	problems strictyaml.Problems
}

func (c *checker) fail(path, hint, format string, args ...any) {
	c.problems = append(c.problems, c.doc.Problem(path, hint, format, args...))
}

// path makes a path of the file absolute to the file's folder.
func (c *checker) path(p string) string {
	if p == "" || filepath.IsAbs(p) {
		return p
	}
	return filepath.Join(c.dir, p)
}

// secret resolves an *_env and *_file pair; at most one may be set.
func (c *checker) secret(envPath, envName, filePath, fileName string) secret.Value {
	switch {
	case envName != "" && fileName != "":
		c.fail(filePath, "keep one of the two", "both %s and %s are set", envPath, filePath)
	case envName != "":
		return c.secretEnv(envPath, envName)
	case fileName != "":
		return c.secretFile(filePath, fileName)
	}
	return secret.Value{}
}

func (c *checker) secretEnv(path, name string) secret.Value {
	if strings.ContainsAny(name, " =-.") || looksLikeSecret(name) {
		c.fail(path, "put the secret into an environment variable and write the variable's name here", "this is not a variable's name")
		return secret.Value{}
	}
	if c.blind {
		return secret.Value{}
	}
	v, ok := c.env(name)
	if !ok || v == "" {
		c.fail(path, "export "+name+" before starting", "the environment variable %s is not set", name)
	}
	return secret.New(v)
}

func (c *checker) secretFile(path, name string) secret.Value {
	if c.blind {
		return secret.Value{}
	}
	text, err := os.ReadFile(c.path(name))
	if err != nil {
		c.fail(path, "check that the file exists and that the bot may read it", "cannot read the secret: %v", errors.Unwrap(err))
		return secret.Value{}
	}
	v := strings.TrimSpace(string(text))
	if v == "" {
		c.fail(path, "", "the file %s is empty", name)
	}
	return secret.New(v)
}

// looksLikeSecret tells a pasted secret from a variable's name.
func looksLikeSecret(s string) bool {
	var none *secret.Scrubber
	return none.Scrub(s) != s
}
