//go:build deps

// Package deps pins modules while the packages that use them are written.
package deps
import (
_ "github.com/google/go-github/v66/github"
_ "github.com/bradleyfalzon/ghinstallation/v2"
_ "golang.org/x/oauth2"
_ "modernc.org/sqlite"
_ "github.com/anthropics/anthropic-sdk-go/v2"
_ "github.com/sashabaranov/go-openai"
_ "github.com/spf13/cobra"
_ "go.yaml.in/yaml/v3"
_ "github.com/google/jsonschema-go/jsonschema"
_ "github.com/expr-lang/expr"
_ "github.com/pressly/goose/v3"
_ "github.com/riverqueue/river"
_ "github.com/riverqueue/river/riverdriver/riversqlite"
_ "github.com/riverqueue/river/rivermigrate"
_ "github.com/bluekeyes/go-gitdiff/gitdiff"
_ "github.com/landlock-lsm/go-landlock/landlock"
_ "github.com/zricethezav/gitleaks/v8/config"
_ "golang.org/x/time/rate"
_ "github.com/cenkalti/backoff/v5"
_ "go.uber.org/goleak"
_ "pgregory.net/rapid"
_ "github.com/google/go-cmp/cmp"
_ "github.com/rogpeppe/go-internal/testscript"
_ "github.com/riverqueue/river/rivertype"
)
