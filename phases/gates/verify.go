package gates

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/pipelinebot/pipelinebot/internal/command"
	"github.com/pipelinebot/pipelinebot/internal/secret"
)

// outputBytes is what is kept of one test run; large suites print megabytes of
// JSON.
const outputBytes = 16 << 20

// Verify runs the tests of dir, whose content has the id tree, and judges the
// result. A failing, hanging or empty run is Evidence, not an error; an error
// is a cancelled context (its cause), a sandbox that could not run anything,
// or an artifact that could not be stored.
func Verify(ctx context.Context, run command.Runner, dir, tree string, tc TestCommand, put Put) (Evidence, error) {
	if len(tc.Argv) == 0 {
		return Evidence{}, errors.New("verifying: no test command: set one in the configuration")
	}
	var (
		flaky  = map[string]bool{}
		log    strings.Builder
		ev     Evidence
		runs   = 1 + max(tc.Reruns, 0)
		tookMS int64
	)
	for i := 1; i <= runs; i++ {
		one, text, err := verifyOnce(ctx, run, dir, tc)
		if err != nil {
			return Evidence{}, fmt.Errorf("verifying with %s: %w", strings.Join(tc.Argv, " "), err)
		}
		if i > 1 {
			fmt.Fprintf(&log, "\n=== run %d ===\n", i)
		}
		log.WriteString(text)
		ev, ev.Runs = one, i
		tookMS += one.TookMS
		if ev.Code != FailedTests {
			break
		}
		for _, name := range ev.Failing {
			flaky[name] = true
		}
	}
	ev.Tree, ev.TookMS = tree, tookMS
	if ev.Passed && ev.Runs > 1 {
		for name := range flaky {
			ev.Flaky = append(ev.Flaky, name)
		}
		slices.Sort(ev.Flaky)
		ev.Reason += fmt.Sprintf("; passed only on run %d, so it is flaky", ev.Runs)
	}
	ref, err := put(ctx, []byte(log.String()))
	if err != nil {
		return Evidence{}, fmt.Errorf("keeping the output of %s: %w", strings.Join(ev.Argv, " "), err)
	}
	ev.OutputRef = ref
	return ev, nil
}

func verifyOnce(ctx context.Context, run command.Runner, dir string, tc TestCommand) (Evidence, string, error) {
	argv := withJSON(tc.Argv)
	timeout := tc.Timeout
	if timeout <= 0 {
		timeout = DefaultTimeout
	}
	res, err := run.Run(ctx, command.Spec{
		Argv: argv, Dir: dir, Env: tc.Env, Network: tc.Network,
		Limits: command.Limits{Wall: timeout, Idle: tc.Idle, Output: outputBytes},
	})
	ev := Evidence{Argv: argv, ExitCode: -1, TestsRun: -1, Sandbox: run.Name()}
	if errors.Is(err, exec.ErrNotFound) && ctx.Err() == nil {
		ev.Code = NotFound
		ev.Reason = fmt.Sprintf("the test program %q is not installed in the sandbox", argv[0])
		return ev, err.Error(), nil
	}
	if err != nil {
		return Evidence{}, "", err
	}
	ev.ExitCode, ev.TookMS, ev.Truncated = res.ExitCode, res.Took.Milliseconds(), res.Truncated
	if res.Sandbox != "" {
		ev.Sandbox = res.Sandbox
	}
	var scrub *secret.Scrubber // shapes only; registered values never enter the sandbox
	rep := readReport(argv, res)
	ev.TestsRun, ev.Skipped = rep.ran(), rep.skipped
	for _, name := range distinct(rep.failing) {
		ev.Failing = append(ev.Failing, scrub.Scrub(name))
	}
	judge(&ev, res, rep, tc, timeout)
	ev.Excerpt = scrub.Scrub(rep.excerpt)
	if len(ev.Excerpt) > ExcerptBytes {
		ev.Excerpt = clip(ev.Excerpt, ExcerptBytes)
	}
	return ev, scrub.Scrub(rep.text), nil
}

// judge fails closed: only exit code 0 with at least one executed test and
// none failing passes.
func judge(ev *Evidence, res command.Result, rep report, tc TestCommand, timeout time.Duration) {
	verdict := func(code Code, format string, args ...any) {
		ev.Code, ev.Passed, ev.Reason = code, code == Passed, fmt.Sprintf(format, args...)
	}
	switch {
	case res.TimedOut:
		verdict(TimedOut, "timeout: the tests did not end by themselves and were killed after %s (allowed: %s in all)",
			res.Took.Round(time.Millisecond), timeout)
	case res.ExitCode != 0 && rep.failed > 0:
		verdict(FailedTests, "%s of %d failed: %s", plural(rep.failed, "test"), rep.ran(), shortList(ev.Failing, 5))
	case res.ExitCode != 0 && len(ev.Failing) > 0:
		verdict(FailedTests, "exit code %d: %s", res.ExitCode, shortList(ev.Failing, 5))
	case res.ExitCode != 0:
		verdict(FailedTests, "the test command ended with exit code %d and named no failing test", res.ExitCode)
	case rep.failed > 0 || len(ev.Failing) > 0:
		verdict(FailedTests, "exit code 0, but the output reports failures: %s", shortList(ev.Failing, 5))
	case rep.known && rep.ran() > 0:
		verdict(Passed, "%s passed", plural(rep.passed, "test"))
	case rep.known:
		verdict(NoTests, "exit code 0, but not one test was executed (%d skipped)", rep.skipped)
	case tc.AllowUnknownCount:
		verdict(Passed, "exit code 0; the number of tests is unknown, which the configuration allows")
	default:
		verdict(UnknownCount, "exit code 0, but the output does not say how many tests ran; "+
			"make the command print a line such as \"12 passed, 0 failed\" or allow an unknown count in the configuration")
	}
}

// withJSON makes `go test` report each test; other commands stay as they are.
func withJSON(argv []string) []string {
	out := slices.Clone(argv)
	if !isGoTest(argv) {
		return out
	}
	for _, a := range argv[2:] {
		if a == "-args" || a == "--args" {
			break
		}
		if a == "-json" || a == "--json" || strings.HasPrefix(a, "-json=") {
			return out
		}
	}
	return slices.Insert(out, 2, "-json")
}

func isGoTest(argv []string) bool {
	if len(argv) < 2 || argv[1] != "test" {
		return false
	}
	base := filepath.Base(argv[0])
	return base == "go" || base == "go.exe"
}

// clip keeps the head and the larger tail, where failures are summed up.
func clip(s string, most int) string {
	const mark = "\n[…]\n"
	head := most / 4
	tail := most - head - len(mark)
	return strings.ToValidUTF8(s[:head], "") + mark + strings.ToValidUTF8(s[len(s)-tail:], "")
}
