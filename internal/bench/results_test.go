package bench_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pipelinebot/pipelinebot/internal/bench"
)

const output = `date: 2026-03-01
goos: linux
pkg: github.com/pipelinebot/pipelinebot/internal/bench
cpu: Fast One
BenchmarkSequence/FULL/rewritten-2         	       2	  16612162 ns/op	      1500 checkpoints/s	      3000 disk-B/node	      1000 floor-checkpoints/s	       100 nodes/s
BenchmarkSequence/FULL/rewritten-2         	       2	  16612162 ns/op	      1500 checkpoints/s	      3000 disk-B/node	      3000 floor-checkpoints/s	       100 nodes/s
BenchmarkSequence/FULL/rewritten-2         	       2	  16612162 ns/op	      1500 checkpoints/s	      3000 disk-B/node	      2000 floor-checkpoints/s	       100 nodes/s
    sequence_test.go:80: without the peer
BenchmarkTogether/FULL-2                         	       2	1361878522 ns/op	       7000 nodes/s
PASS
pkg: github.com/pipelinebot/pipelinebot/cmd/pipelinebot
BenchmarkStop/none/label-2                   	       1	1361878522 ns/op	       900 ms-worst
ok  	github.com/pipelinebot/pipelinebot/internal/bench	27.195s
`

func TestParse(t *testing.T) {
	t.Parallel()
	r, err := bench.Parse(strings.NewReader(output))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"Sequence/FULL/rewritten", "Together/FULL", "cmd/pipelinebot.Stop/none/label"}
	if diff := cmp.Diff(want, r.Names()); diff != "" {
		t.Errorf("names (-want +got):\n%s", diff)
	}
	if v, ok := r.Median(bench.Figure{Name: want[0], Unit: "floor-checkpoints/s"}); v != 2000 || !ok {
		t.Errorf("median = %v, %v", v, ok)
	}
	if r.About["cpu"] != "Fast One" {
		t.Errorf("about = %v", r.About)
	}
	met := map[string]int{}
	for _, a := range bench.Aims() {
		met[a.Met(r)]++
	}
	// The ratio 0.75 is not met; the disk, 64 runs and the stop are.
	if met["not met"] != 1 || met["met"] != 3 {
		t.Errorf("met = %v", met)
	}
	page, err := bench.Rewrite("before\n<!-- generated: make bench -->\nas it was\n<!-- end of what is generated -->\nafter\n", r)
	if err != nil || !strings.Contains(page, "| ≥ 0.80 × | 0.75 × (1,500 to 2,000 checkpoints/s) | **not met** |") || strings.Contains(page, "as it was") ||
		!strings.Contains(page, "| ≥ 5,000 nodes/s | 7,000 nodes/s | met |") || !strings.HasSuffix(page, "after\n") {
		t.Errorf("%v\n%s", err, page)
	}
	if !strings.Contains(page, "A quick look") {
		t.Error("nothing warns of single repetitions")
	}
	again, err := bench.Rewrite(page, r)
	if err != nil || again != page {
		t.Errorf("rewriting again changes the page: %v", err)
	}
}

func TestParseRefuses(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{"BenchmarkX-2 1 fast ns/op", "BenchmarkX-2 1 1 ns/op 2"} {
		if _, err := bench.Parse(strings.NewReader(bad)); err == nil || !strings.Contains(err.Error(), "line 1") {
			t.Errorf("%q gives %v", bad, err)
		}
	}
	if _, err := bench.Rewrite("no markers", bench.Results{}); err == nil {
		t.Error("a page without markers is rewritten")
	}
}

func FuzzParse(f *testing.F) {
	f.Add(output)
	f.Fuzz(func(t *testing.T, s string) {
		r, err := bench.Parse(strings.NewReader(s))
		if err == nil {
			_ = bench.Markdown(r)
		}
	})
}

// The page shows what was measured last, and nothing else.
func TestDocs(t *testing.T) {
	t.Parallel()
	f, err := os.Open(filepath.Join("testdata", "results.txt"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r, err := bench.Parse(f)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join("..", "..", "docs", "benchmarks.md")
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	want, err := bench.Rewrite(string(page), r)
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(want, string(page)); diff != "" {
		t.Errorf("docs/benchmarks.md is not what testdata/results.txt says; run make bench (-want +got):\n%s", diff)
	}
}

// Every aim names a benchmark that there is and a unit that it reports.
func TestAimsNameBenchmarks(t *testing.T) {
	t.Parallel()
	sources := map[string]string{}
	text := func(pkg string) string {
		if _, done := sources[pkg]; !done {
			files, err := filepath.Glob(filepath.Join("..", "..", filepath.FromSlash(pkg), "*_test.go"))
			if err != nil || len(files) == 0 {
				t.Fatalf("no tests in %s: %v", pkg, err)
			}
			for _, file := range files {
				src, err := os.ReadFile(file)
				if err != nil {
					t.Fatal(err)
				}
				sources[pkg] += string(src)
			}
		}
		return sources[pkg]
	}
	for _, a := range bench.Aims() {
		for _, f := range []bench.Figure{a.Of, a.Per} {
			if f.Name == "" {
				continue
			}
			name, _, _ := strings.Cut(f.Name, "/")
			pkg := "internal/bench"
			if i := strings.LastIndexByte(f.Name, '.'); i > 0 {
				pkg = f.Name[:i]
				name, _, _ = strings.Cut(f.Name[i+1:], "/")
			}
			if !strings.Contains(text(pkg), "func Benchmark"+name+"(b *testing.B)") {
				t.Errorf("%s: there is no Benchmark%s in %s", a.What, name, pkg)
			}
			if f.Unit != "ns/op" && !strings.Contains(text(pkg), `"`+f.Unit+`"`) {
				t.Errorf("%s: nothing in %s reports %s", a.What, pkg, f.Unit)
			}
		}
	}
}
