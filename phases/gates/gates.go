// Package gates holds the checks that more than one phase puts between a
// model's work and the next step: running the repository's own tests and
// keeping the evidence, judging a diff before it is pushed, and noticing that
// repeated attempts get nowhere.
//
// Every gate fails closed: no verdict is a fail, zero tests is not a pass, an
// unreadable count is not a pass.
//
// It must not know GitHub, models, stores, sandboxes or git; it sees a
// command.Runner and a workspace.Diff. It may import flows, the contracts
// internal/{command,workspace,secret} and the rules of gitleaks.
package gates

import (
	"context"
	"time"

	"github.com/pipelinebot/pipelinebot/flows"
)

// Unlimited switches a limit off; zero never does.
const Unlimited = -1

// TestCommand is how a repository's tests are run.
type TestCommand struct {
	// Argv is the program and its arguments, never a shell string.
	Argv []string `json:"argv"`
	// Timeout bounds one run; zero is DefaultTimeout.
	Timeout time.Duration `json:"timeout,omitempty"`
	// Idle is the time without any output after which a run counts as hung;
	// zero is the runner's default.
	Idle time.Duration `json:"idle,omitempty"`
	// Network lets the tests use the network.
	Network bool `json:"network,omitempty"`
	// Env is added to the sandbox's short list.
	Env map[string]string `json:"env,omitempty"`
	// AllowUnknownCount lets exit code 0 pass although the number of tests
	// could not be read from the output.
	AllowUnknownCount bool `json:"allow_unknown_count,omitempty"`
	// Reruns is how often a failing run is repeated; a pass on a repeat counts
	// as passed and is recorded in Evidence.Flaky. Runs that timed out or ran
	// no test are not repeated.
	Reruns int `json:"reruns,omitempty"`
}

// DefaultTimeout bounds a test run when TestCommand has no Timeout.
const DefaultTimeout = 10 * time.Minute

// Code says in one word how a test run was judged.
type Code string

// The codes of Evidence.
const (
	Passed       Code = "passed"
	FailedTests  Code = "failed"        // tests ran and failed, or the program failed
	TimedOut     Code = "timeout"       // total or idle time was exceeded
	NoTests      Code = "no-tests"      // exit code 0 and not one test executed
	UnknownCount Code = "unknown-count" // exit code 0 and no readable count
	NotFound     Code = "not-found"     // the program is not in the sandbox
)

// Evidence is what a test run proved, kept as JSON in an artifact.
type Evidence struct {
	// Argv is what was run, after -json was added for go test.
	Argv []string `json:"argv"`
	// ExitCode is -1 when the run was killed or never started.
	ExitCode int `json:"exit_code"`
	// TestsRun counts the tests that ended passed or failed; -1 when the
	// output says nothing.
	TestsRun int `json:"tests_run"`
	// Skipped counts tests that were skipped, which is never a pass.
	Skipped int `json:"skipped,omitempty"`
	// Failing names the failing tests, sorted; package level failures such as
	// a broken build are listed as "<package> [build failed]".
	Failing []string `json:"failing,omitempty"`
	// Flaky names the tests that failed first and passed on a repeat.
	Flaky []string `json:"flaky,omitempty"`
	// Runs counts the runs behind this evidence, 1 without a repeat.
	Runs   int  `json:"runs"`
	Passed bool `json:"passed"`
	Code   Code `json:"code"`
	// Reason says the verdict in words.
	Reason string `json:"reason"`
	// Tree is the id of the content that was tested.
	Tree    string `json:"tree"`
	TookMS  int64  `json:"took_ms"`
	Sandbox string `json:"sandbox"`
	// Truncated says that some output was dropped, so that Failing may be
	// incomplete.
	Truncated bool `json:"truncated,omitempty"`
	// Excerpt is the telling part of the output, at most ExcerptBytes, for the
	// next attempt's prompt and for people. It is repository output: data,
	// never instructions.
	Excerpt string `json:"excerpt,omitempty"`
	// OutputRef is the whole output as readable text, token shapes removed.
	OutputRef flows.Artifact `json:"output_ref"`
}

// ExcerptBytes bounds Evidence.Excerpt.
const ExcerptBytes = 8 << 10

// Put stores content as an artifact, see checkpoints.ArtifactStore.
type Put = func(ctx context.Context, content []byte) (flows.Artifact, error)
