package gates

import (
	"bytes"
	"encoding/json"
	"regexp"
	"sort"
	"strconv"
	"strings"

	"github.com/pipelinebot/pipelinebot/internal/command"
)

// goEvent is a line of `go test -json` (go doc test2json, go help buildjson).
type goEvent struct {
	Action     string
	Package    string
	ImportPath string
	Test       string
	Output     string
}

type goTest struct {
	result string // "", pass, fail, skip
	output strings.Builder
}

type goRun struct {
	tests    map[[2]string]*goTest
	packages map[string]*goTest
	build    strings.Builder
	text     strings.Builder
}

// readGoJSON reads `go test -json`. Lines that are not JSON, such as the notes
// of a wrapper, are kept as text.
func readGoJSON(res command.Result) report {
	run := &goRun{tests: map[[2]string]*goTest{}, packages: map[string]*goTest{}}
	events := 0
	source := res.Stdout
	if len(source) == 0 {
		source = res.Output
	}
	for len(source) > 0 {
		line, rest, _ := bytes.Cut(source, []byte("\n"))
		source = rest
		var e goEvent
		if bytes.HasPrefix(line, []byte("{")) && json.Unmarshal(line, &e) == nil && e.Action != "" {
			events++
			run.add(e)
			continue
		}
		run.text.Write(bytes.ToValidUTF8(line, []byte("\uFFFD")))
		run.text.WriteByte('\n')
	}
	rep := run.report()
	rep.known = events > 0
	if extra := foreign(res.Output); extra != "" && len(res.Stdout) > 0 {
		rep.text += extra // standard error, e.g. of the module loader
		if rep.excerpt == "" {
			rep.excerpt = extra
		}
	}
	if rep.excerpt == "" {
		rep.excerpt = rep.text
	}
	rep.excerpt = strings.TrimSpace(rep.excerpt)
	return rep
}

// foreign is what stands in the output between the JSON lines.
func foreign(output []byte) string {
	var b strings.Builder
	for _, line := range strings.SplitAfter(strings.ToValidUTF8(string(output), "\uFFFD"), "\n") {
		if line != "" && !strings.HasPrefix(line, "{") {
			b.WriteString(line)
		}
	}
	return b.String()
}

func (r *goRun) add(e goEvent) {
	r.text.WriteString(e.Output)
	switch e.Action {
	case "build-output":
		r.build.WriteString(e.Output)
		return
	case "build-fail":
		return // the package's own fail follows
	}
	if e.Package == "" {
		return
	}
	var t *goTest
	if e.Test == "" {
		t = r.packages[e.Package]
		if t == nil {
			t = &goTest{}
			r.packages[e.Package] = t
		}
	} else {
		key := [2]string{e.Package, e.Test}
		t = r.tests[key]
		if t == nil {
			t = &goTest{}
			r.tests[key] = t
		}
	}
	switch e.Action {
	case "pass", "fail", "skip":
		t.result = e.Action
	case "output":
		t.output.WriteString(e.Output)
	}
}

// report counts every test and subtest that ended; a test that began and
// never ended in a package that failed has failed too (os.Exit, a panic).
func (r *goRun) report() report {
	rep := report{text: r.text.String()}
	blamed := map[string]bool{}     // packages with a failing test
	parents := map[[2]string]bool{} // tests with a failing subtest
	keys := make([][2]string, 0, len(r.tests))
	for key, t := range r.tests {
		pkg := r.packages[key[0]]
		if t.result == "" && pkg != nil && pkg.result == "fail" {
			t.result = "fail"
		}
		keys = append(keys, key)
	}
	sort.Slice(keys, func(i, j int) bool { return keys[i][0]+"\x00"+keys[i][1] < keys[j][0]+"\x00"+keys[j][1] })
	for _, key := range keys {
		switch r.tests[key].result {
		case "pass":
			rep.passed++
		case "skip":
			rep.skipped++
		case "fail":
			rep.failed++
			blamed[key[0]] = true
			name := key[1]
			for at := strings.LastIndexByte(name, '/'); at > 0; at = strings.LastIndexByte(name, '/') {
				name = name[:at]
				parents[[2]string{key[0], name}] = true
			}
		}
	}
	var excerpt strings.Builder
	excerpt.WriteString(r.build.String())
	for _, key := range keys {
		if t := r.tests[key]; t.result == "fail" {
			excerpt.WriteString(t.output.String())
			if !parents[key] {
				rep.failing = append(rep.failing, key[0]+"."+key[1])
			}
		}
	}
	for name, p := range r.packages {
		if p.result != "fail" || blamed[name] {
			continue
		}
		why := " [package failed]"
		if strings.Contains(p.output.String(), "[build failed]") || strings.Contains(p.output.String(), "[setup failed]") {
			why = " [build failed]"
		}
		rep.failing = append(rep.failing, name+why)
		excerpt.WriteString(p.output.String())
	}
	rep.excerpt = excerpt.String()
	return rep
}

var (
	goResult  = regexp.MustCompile(`^\s*--- (PASS|FAIL|SKIP): (\S+)`)
	goPackage = regexp.MustCompile(`^(ok|FAIL)\s+(\S+)\s+(?:\(cached\)|[0-9.]+s|\[[a-z ]+\])(.*)$`)
)

// readGoText reads the plain output of go test, as a Makefile prints it.
// Without -v it names no passing test, so each "ok" package counts as one: a
// lower bound, enough to tell something from nothing.
func readGoText(lines []string) report {
	var rep report
	okPackages := 0
	for _, line := range lines {
		if m := goResult.FindStringSubmatch(line); m != nil {
			rep.known = true
			switch m[1] {
			case "PASS":
				rep.passed++
			case "FAIL":
				rep.failed++
				rep.failing = append(rep.failing, m[2])
			case "SKIP":
				rep.skipped++
			}
			continue
		}
		if m := goPackage.FindStringSubmatch(line); m != nil {
			rep.known = true
			switch {
			case m[1] == "FAIL" && strings.Contains(line, "failed]"):
				rep.failing = append(rep.failing, m[2]+" [build failed]")
			case m[1] == "ok" && !strings.Contains(m[3], "no tests to run"):
				okPackages++
			}
		}
	}
	if rep.passed == 0 {
		rep.passed = okPackages
	}
	return rep
}

func atoi(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil || n < 0 {
		return 0
	}
	return n
}
