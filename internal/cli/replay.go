package cli

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/pipelinebot/pipelinebot/internal/mockworld/scenario"
	"github.com/pipelinebot/pipelinebot/internal/replay"
	"github.com/pipelinebot/pipelinebot/internal/strictyaml"
	"github.com/pipelinebot/pipelinebot/phases/markdown"
)

func (s *shell) replayCommand() *cobra.Command {
	var parallel int
	var keep string
	var timeline bool
	var launchEnv []string
	var trials trialFlags
	var schema bool
	c := &cobra.Command{
		Use: "replay PATH…", Short: "Replay scenarios against this program and judge the final worlds",
		Args: func(c *cobra.Command, args []string) error {
			if schema {
				return cobra.NoArgs(c, args)
			}
			return cobra.MinimumNArgs(1)(c, args)
		},
		Long: "replay plays scenario files (and all *.yaml in folders) each in a world of its\n" +
			"own: a fake GitHub, a scripted model, and this program as a child process.\n" +
			"Exit code 1 when a world does not end as the file expects.",
		RunE: func(c *cobra.Command, args []string) error {
			if schema {
				b, err := scenario.Schema()
				if err == nil {
					_, err = s.Out.Write(b)
				}
				return err
			}
			files, err := scenarioFiles(args)
			if err != nil {
				return err
			}
			scenarios, err := loadScenarios(files)
			if err != nil {
				return err
			}
			exe, err := os.Executable()
			if err != nil {
				return fmt.Errorf("finding this program: %w", err)
			}
			r := replayer{shell: s, launcher: replay.Child{Exe: exe, Env: launchEnv}, keep: keep, timeline: timeline}
			if trials.wanted() {
				t, err := trials.trials()
				if err != nil {
					return err
				}
				return r.try(c.Context(), t, scenarios, parallel)
			}
			return r.all(c.Context(), scenarios, parallel)
		},
	}
	c.Flags().IntVarP(&parallel, "parallel", "p", 4, "scenarios at the same time")
	c.Flags().StringVar(&keep, "keep", "", "keep each world, the bot's data and its log below this folder")
	c.Flags().BoolVar(&timeline, "timeline", false, "print everything that happened")
	c.Flags().BoolVar(&schema, "schema", false, "print the JSON Schema of scenario files")
	trials.register(c)
	c.Flags().StringArrayVar(&launchEnv, "child-env", nil, "NAME=VALUE for the child process")
	if err := c.Flags().MarkHidden("child-env"); err != nil {
		panic(err) // the flag was declared one line above
	}
	return c
}

// scenarioFiles expands folders.
func scenarioFiles(paths []string) ([]string, error) {
	var files []string
	for _, p := range paths {
		before := len(files)
		err := filepath.WalkDir(p, func(f string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() && (f == p || strings.HasSuffix(f, ".yaml")) {
				files = append(files, f)
			}
			return err
		})
		if err != nil {
			return nil, usage("%v", err)
		}
		if len(files) == before {
			return nil, usage("%s holds no scenario (*.yaml)", p)
		}
	}
	slices.Sort(files)
	return slices.Compact(files), nil
}

// loadScenarios reads all files before any is played: a bad one is found at
// once.
func loadScenarios(files []string) ([]*scenario.Scenario, error) {
	var all []*scenario.Scenario
	var problems []string
	for _, f := range files {
		src, err := strictyaml.ReadFile(f)
		if err != nil {
			return nil, usage("%v", err)
		}
		sc, err := scenario.Load(f, src)
		if err != nil {
			problems = append(problems, err.Error())
			continue
		}
		all = append(all, sc)
	}
	if len(problems) > 0 {
		return nil, usage("%s", strings.Join(problems, "\n"))
	}
	return all, nil
}

// replayer plays scenarios.
type replayer struct {
	*shell
	launcher scenario.Launcher
	keep     string
	timeline bool
	mu       sync.Mutex // guards printing
}

func (r *replayer) all(ctx context.Context, scenarios []*scenario.Scenario, parallel int) error {
	began := time.Now()
	slots := make(chan struct{}, max(1, parallel))
	results := make([]error, len(scenarios))
	passed := make([]bool, len(scenarios))
	var group sync.WaitGroup
	for i, sc := range scenarios {
		group.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			if ctx.Err() == nil {
				passed[i], results[i] = r.one(ctx, sc)
			}
		})
	}
	group.Wait()
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("interrupted: %w", context.Cause(ctx))
	}
	good := 0
	for i := range scenarios {
		if results[i] != nil {
			return results[i]
		}
		if passed[i] {
			good++
		}
	}
	bad := len(scenarios) - good
	if r.json {
		r.emit(map[string]any{"passed": good, "failed": bad, "worlds": len(scenarios), "took_ns": time.Since(began)})
	} else {
		fmt.Fprintf(r.Out, "%s in %s\n%d passed, %d failed\n", markdown.Count(len(scenarios), "world"), time.Since(began).Round(time.Millisecond), good, bad)
	}
	if bad > 0 {
		return said("%d of %s did not end as expected", bad, markdown.Count(len(scenarios), "scenario"))
	}
	return nil
}

func (r *replayer) one(ctx context.Context, sc *scenario.Scenario) (bool, error) {
	o := scenario.Options{}
	if r.keep != "" {
		o.Dir = filepath.Join(r.keep, strings.TrimSuffix(filepath.Base(sc.File), ".yaml"))
		dir, err := filepath.Abs(o.Dir)
		if err != nil {
			return false, fmt.Errorf("keeping the world: %w", err)
		}
		o.Dir = dir
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return false, fmt.Errorf("keeping the world: %w", err)
		}
	}
	rep, err := scenario.Run(ctx, sc, r.launcher, o)
	if err != nil {
		return false, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.json {
		v := map[string]any{"file": rep.File, "name": rep.Name, "passed": rep.Passed, "took_ns": rep.Took, "mismatches": rep.Mismatches}
		if r.timeline {
			v["events"] = rep.Events
		}
		r.emit(v)
		return rep.Passed, nil
	}
	fmt.Fprint(r.Out, rep)
	if r.timeline {
		r.events(rep)
	}
	return rep.Passed, nil
}
