// Package archtest holds the architecture's rules as a test: which package
// may import which, who owns which third-party library, how long a file may
// be. It has no code of its own besides the table.
//
// It imports only the standard library.
package archtest

// Module is the module's path.
const Module = "github.com/pipelinebot/pipelinebot"

// Floors lists every package with its floor. A package imports only packages
// of a lower floor. The tens are the floors of docs/architecture.md; the ones
// order packages inside a floor.
func Floors() map[string]int {
	return map[string]int{
		"internal/clock":      0,
		"internal/command":    0,
		"internal/forge":      0,
		"internal/queue":      0,
		"internal/secret":     0,
		"internal/strictyaml": 0,
		"internal/turns":      0,
		"internal/workspace":  0,
		"llm":                 0,
		"checkpoints":         1,
		"labels":              1,

		"checkpoints/memory":           10,
		"checkpoints/artifacts":        10,
		"checkpoints/sqlite":           10,
		"checkpoints/storetest":        11,
		"flows":                        10,
		"flows/templates":              10,
		"internal/config":              10,
		"internal/coverage":            10,
		"internal/gh":                  10,
		"internal/mockworld":           10,
		"internal/mockworld/modelwire": 10,
		"internal/mockworld/scenario":  11,
		"internal/queue/queuetest":     10,
		"internal/sandbox":             10,
		"llm/driver":                   10,
		"llm/anthropic":                11,
		"llm/openai":                   11,
		"llm/cassette":                 11,
		"llm/llmtest":                  11,

		"flows/engine":         20,
		"internal/gitws":       20,
		"internal/queue/river": 20,
		"phases/actuators":     20,
		"phases/blob":          20,
		"phases/gates":         20,
		"phases/markdown":      20,
		"phases/issue":         21,
		"phases/plandoc":       21,
		"phases/tree":          21,
		"phases/status":        21,
		"phases/delivery":      22,
		"phases/writer":        22,
		"phases/phasetest":     24,
		"internal/flowscript":  25,
		"internal/flowops":     25,
		"internal/handoff":     25,
		"internal/report":      26,
		"internal/breaker":     25,

		"phases/agent":      30,
		"phases/triage":     30,
		"phases/plan":       30,
		"phases/implement":  30,
		"phases/review":     30,
		"internal/intake":   30,
		"internal/dispatch": 30,
		"internal/worker":   30,

		"internal/app":         40,
		"internal/demo":        40,
		"internal/replay":      41,
		"internal/bench":       41,
		"internal/conformance": 41,

		"internal/cli":  50,
		"internal/docs": 51,

		"cmd/pipelinebot": 60,

		"internal/archtest": 70,
	}
}

// Owners lists every third-party library with the packages that may import
// it in production code. A prefix ending in "/..." covers what is below.
func Owners() map[string][]string {
	return map[string][]string{
		"github.com/google/go-github/v66":            {"internal/gh"},
		"github.com/bradleyfalzon/ghinstallation/v2": {"internal/gh"},
		"golang.org/x/oauth2":                        {"internal/gh"},
		"modernc.org/sqlite":                         {"checkpoints/sqlite", "internal/queue/river"},
		"github.com/pressly/goose/v3":                {"checkpoints/sqlite"},
		"github.com/riverqueue/river":                {"internal/queue/river"},
		"go.yaml.in/yaml/v3":                         {"flows", "internal/config", "internal/flowops", "internal/strictyaml", "llm/cassette", "internal/mockworld/..."},
		"github.com/expr-lang/expr":                  {"flows"},
		"github.com/anthropics/anthropic-sdk-go/v2":  {"llm/anthropic"},
		"github.com/sashabaranov/go-openai":          {"llm/openai"},
		"github.com/google/jsonschema-go":            {"internal/config", "llm/driver", "phases/actuators", "internal/mockworld/modelwire", "internal/mockworld/scenario"},
		"github.com/landlock-lsm/go-landlock":        {"internal/sandbox"},
		"github.com/zricethezav/gitleaks/v8":         {"phases/gates"},
		"github.com/spf13/viper":                     {"phases/gates"},
		"github.com/spf13/cobra":                     {"internal/cli"},
		"golang.org/x/sys":                           {"internal/sandbox", "checkpoints/sqlite", "internal/gitws"},
		"github.com/google/go-cmp":                   {"checkpoints/storetest", "internal/queue/queuetest", "llm/llmtest"},
	}
}
