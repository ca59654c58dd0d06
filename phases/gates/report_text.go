package gates

import (
	"regexp"
	"strings"
)

var (
	cargoResult = regexp.MustCompile(`^test result: (?:ok|FAILED)\. (\d+) passed; (\d+) failed; (\d+) ignored`)
	cargoFailed = regexp.MustCompile(`^test (.+) \.\.\. FAILED$`)

	pytestResult = regexp.MustCompile(`^(?:=+ )?((?:\d+ [a-z]+(?:, )?)+) in [0-9.]+s(?: \([0-9:]+\))?(?: =+)?$`)
	pytestNone   = regexp.MustCompile(`^(?:=+ )?no tests (?:ran|collected)`)
	pytestFailed = regexp.MustCompile(`^(?:FAILED|ERROR) (\S+\.py\S*)`)
	countedWord  = regexp.MustCompile(`(\d+) ([a-z]+)`)

	nodeCount  = regexp.MustCompile(`^(?:# |ℹ )(pass|fail|skipped|cancelled) (\d+)$`)
	tapFailed  = regexp.MustCompile(`^\s*not ok \d+ -? ?(.+?)(?: # (.*))?$`)
	specFailed = regexp.MustCompile(`^\s*✖ (.+) \([0-9.]+ms\)$`)

	jestResult   = regexp.MustCompile(`^\s*Tests:?\s+((?:\d+ (?:failed|passed|skipped|todo|total|pending)[,|\s]*)+)(?:\(\d+\))?$`)
	jestFailed   = regexp.MustCompile(`^\s*● (.+ › .+|.+)$`)
	vitestFailed = regexp.MustCompile(`^\s*(?:FAIL|×)\s+(.+ > .+?)(?: \d+ms)?$`)
	jestWord     = regexp.MustCompile(`(\d+) (failed|passed|skipped|todo|pending)`)

	plainResult = regexp.MustCompile(`^\s*(?:[A-Za-z]+:\s*)?(\d+) passed, (\d+) failed(?:, (\d+) skipped)?\.?\s*$`)
	plainFailed = regexp.MustCompile(`^\s*(?:FAIL|FAILED|not ok):? +(\S.*?)\s*$`)
)

// readCargo sums the result lines of cargo test, one a test binary.
func readCargo(lines []string) report {
	var rep report
	for _, line := range lines {
		if m := cargoResult.FindStringSubmatch(line); m != nil {
			rep.known = true
			rep.passed += atoi(m[1])
			rep.failed += atoi(m[2])
			rep.skipped += atoi(m[3])
		} else if m := cargoFailed.FindStringSubmatch(line); m != nil {
			rep.failing = append(rep.failing, m[1])
		}
	}
	return rep
}

// readPytest reads the closing line; xfailed and xpassed tests did run and are
// as expected, errors are failures.
func readPytest(lines []string) report {
	var rep report
	for _, line := range lines {
		line = strings.TrimSpace(line)
		if pytestNone.MatchString(line) {
			rep.known = true
		} else if m := pytestResult.FindStringSubmatch(line); m != nil {
			rep.known = true
			for _, c := range countedWord.FindAllStringSubmatch(m[1], -1) {
				switch c[2] {
				case "passed", "xfailed", "xpassed":
					rep.passed += atoi(c[1])
				case "failed", "error", "errors":
					rep.failed += atoi(c[1])
				case "skipped", "deselected":
					rep.skipped += atoi(c[1])
				}
			}
		} else if m := pytestFailed.FindStringSubmatch(line); m != nil {
			rep.failing = append(rep.failing, m[1])
		}
	}
	return rep
}

// readNode reads the closing counts of node's test runner, TAP or spec.
func readNode(lines []string) report {
	var rep report
	for _, line := range lines {
		if m := nodeCount.FindStringSubmatch(strings.TrimRight(line, " \r")); m != nil {
			switch m[1] {
			case "pass":
				rep.known = true
				rep.passed += atoi(m[2])
			case "fail", "cancelled":
				rep.failed += atoi(m[2])
			case "skipped":
				rep.skipped += atoi(m[2])
			}
		} else if m := specFailed.FindStringSubmatch(line); m != nil {
			rep.failing = append(rep.failing, m[1])
		} else if name := tapFailure(line); name != "" {
			rep.failing = append(rep.failing, name)
		}
	}
	return rep
}

// tapFailure is the name of a failed TAP point; skipped and to-do ones are not
// failures.
func tapFailure(line string) string {
	m := tapFailed.FindStringSubmatch(line)
	if m == nil || strings.HasPrefix(strings.ToUpper(m[2]), "SKIP") || strings.HasPrefix(strings.ToUpper(m[2]), "TODO") {
		return ""
	}
	return m[1]
}

// readJest reads the summary of jest ("Tests: 1 failed, 2 passed, 3 total")
// and vitest ("Tests  1 failed | 2 passed (3)").
func readJest(lines []string) report {
	var rep report
	for _, line := range lines {
		if m := jestResult.FindStringSubmatch(line); m != nil {
			rep.known = true
			for _, c := range jestWord.FindAllStringSubmatch(m[1], -1) {
				switch c[2] {
				case "passed":
					rep.passed += atoi(c[1])
				case "failed":
					rep.failed += atoi(c[1])
				default:
					rep.skipped += atoi(c[1])
				}
			}
		} else if m := vitestFailed.FindStringSubmatch(line); m != nil {
			rep.failing = append(rep.failing, m[1])
		} else if m := jestFailed.FindStringSubmatch(line); m != nil {
			rep.failing = append(rep.failing, m[1])
		}
	}
	return rep
}

// readPlain reads closing lines of any runner: "12 passed, 0 failed", with one
// word and a colon before it if need be. Several lines are several suites.
func readPlain(lines []string) report {
	var rep report
	for _, line := range lines {
		if m := plainResult.FindStringSubmatch(line); m != nil {
			rep.known = true
			rep.passed += atoi(m[1])
			rep.failed += atoi(m[2])
			rep.skipped += atoi(m[3])
		}
	}
	return rep
}

// readFailNames finds "FAIL: name", "FAILED name" and TAP's "not ok" in the
// output of a runner that is not known otherwise.
func readFailNames(lines []string) []string {
	var names []string
	for _, line := range lines {
		if name := tapFailure(line); name != "" {
			names = append(names, name)
		} else if m := plainFailed.FindStringSubmatch(line); m != nil && !strings.HasPrefix(m[1], "(") {
			names = append(names, m[1])
		}
	}
	return names
}
