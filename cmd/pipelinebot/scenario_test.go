package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/pipelinebot/pipelinebot/internal/mockworld/scenario"
	"github.com/pipelinebot/pipelinebot/internal/replay"
)

// atOnce is how many worlds live at the same time; they mostly wait.
const atOnce = 4

// slack multiplies the time a world has: a busy machine is no failure.
const slack = 4

// TestScenarios replays every scenario of the repository against the real
// program, and shows that each of its claims bites: altered, it must fail in
// the very world in which the original held.
func TestScenarios(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("takes minutes")
	}
	needSandbox(t)
	root := filepath.Join("..", "..", "testdata", "scenarios")
	var files []string
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			files = append(files, p)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(files) < 20 {
		t.Fatalf("only %d scenarios found", len(files))
	}
	launcher := replay.Child{Exe: program(t)}
	slots := make(chan struct{}, atOnce)
	covered := map[string]bool{}
	var mu sync.Mutex
	var group sync.WaitGroup
	for _, f := range files {
		group.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			s := playScenario(t, launcher, f)
			mu.Lock()
			defer mu.Unlock()
			for _, kind := range s {
				covered[kind] = true
			}
		})
	}
	group.Wait()
	for _, kind := range scenario.Kinds() {
		if !covered[kind] {
			t.Errorf("no scenario covers %s", kind)
		}
	}
}

// playScenario plays one file and returns the kinds it covers.
func playScenario(t *testing.T, launcher scenario.Launcher, file string) []string {
	name := strings.TrimSuffix(filepath.Base(file), ".yaml")
	src, err := os.ReadFile(file)
	if err != nil {
		t.Error(err)
		return nil
	}
	s, err := scenario.Load(file, src)
	if err != nil {
		t.Error(err)
		return nil
	}
	dir, err := os.MkdirTemp("", "scenario-"+name+"-") //nolint:usetesting // removed before the next world takes its place
	if err != nil {
		t.Error(err)
		return nil
	}
	rep, err := scenario.Run(t.Context(), s, launcher, scenario.Options{Dir: dir, Timeout: slack * s.Timeout})
	if err != nil {
		t.Errorf("%s: %v", name, err)
		return nil
	}
	if !rep.Passed {
		log, _ := os.ReadFile(filepath.Join(dir, "bot", "serve.log")) // its absence says enough
		t.Errorf("%s\nthe bot's log, last part:\n%s", rep, lastBytes(log, 6000))
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Error(err)
	}
	variants := scenario.Mutate(s.Expect)
	if len(variants) == 0 {
		t.Errorf("%s: no claim can be altered", name)
	}
	for _, v := range variants {
		if len(scenario.Evaluate(v.Expect, rep.Seen)) == 0 {
			t.Errorf("%s: %s (%s) holds as well: the claim proves nothing", name, v.Path, v.What)
		}
	}
	return s.Covers
}

func lastBytes(b []byte, n int) string {
	if len(b) > n {
		b = b[len(b)-n:]
	}
	return string(b)
}
