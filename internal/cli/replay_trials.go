package cli

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pipelinebot/pipelinebot/internal/mockworld/scenario"
	"github.com/pipelinebot/pipelinebot/internal/replay"
	"github.com/pipelinebot/pipelinebot/phases/markdown"
)

// trialFlags are the flags that multiply each scenario.
type trialFlags struct {
	crash, killSwitch bool
	shuffle           string
	at, shard         string
	sample            int
	seed              uint64
}

func (f *trialFlags) register(c *cobra.Command) {
	c.Flags().BoolVar(&f.crash, "crash-everywhere", false, "play each once more for each commit and each call outside, killing the bot there")
	c.Flags().BoolVar(&f.killSwitch, "kill-switch", false, "play each once more for each instant of its work, stopping it there and lifting the stop")
	c.Flags().StringVar(&f.shuffle, "shuffle", "", "deliver events in another order: a SEED, or all for each two neighbours swapped")
	c.Flags().StringVar(&f.at, "at", "", "only at this point, as it was printed")
	c.Flags().StringVar(&f.shard, "shard", "", "only part i of n of those worlds, as i/n")
	c.Flags().IntVar(&f.sample, "crash-sample", 0, "only that many of those worlds for each scenario, drawn by --sample-seed")
	c.Flags().Uint64Var(&f.seed, "sample-seed", 0, "what --crash-sample draws by; the time when 0")
}

func (f *trialFlags) wanted() bool { return f.crash || f.killSwitch || f.shuffle != "" }

// trials reads the flags.
func (f *trialFlags) trials() (replay.Trials, error) {
	t := replay.Trials{Crash: f.crash, KillSwitch: f.killSwitch, Shuffle: f.shuffle != "", Sample: f.sample, SampleSeed: f.seed}
	if f.shuffle != "" && f.shuffle != "all" {
		n, err := strconv.ParseUint(f.shuffle, 10, 64)
		if err != nil {
			return t, usage("--shuffle %s: want a number or all", f.shuffle)
		}
		t.Seed = &n
	}
	if f.at != "" {
		p, err := scenario.ParsePoint(f.at)
		if err != nil {
			return t, usage("--at: %v", err)
		}
		t.At = &p
	}
	if f.shard != "" {
		i, n, _ := strings.Cut(f.shard, "/")
		var err1, err2 error
		t.Shard, err1 = strconv.Atoi(i)
		t.Shards, err2 = strconv.Atoi(n)
		if err1 != nil || err2 != nil || t.Shard < 1 || t.Shard > t.Shards {
			return t, usage("--shard %s: want i/n, such as 1/8", f.shard)
		}
	}
	if f.sample < 0 {
		return t, usage("--crash-sample %d: want a positive number", f.sample)
	}
	if f.sample > 0 && f.seed == 0 {
		t.SampleSeed = uint64(time.Now().UnixNano()) //nolint:gosec // positive for long
	}
	return t, nil
}

// try plays scenarios and their variants.
func (r *replayer) try(ctx context.Context, t replay.Trials, scenarios []*scenario.Scenario, parallel int) error {
	began := time.Now()
	t.Launcher, t.Parallel, t.Dir, t.Each = r.launcher, parallel, r.keep, r.trial
	if t.Sample > 0 && !r.json {
		fmt.Fprintf(r.Out, "a sample of %d worlds for each scenario, --sample-seed %d\n", t.Sample, t.SampleSeed)
	}
	tally, err := t.Run(ctx, scenarios)
	if err != nil {
		return fmt.Errorf("replaying: %w", err)
	}
	if r.json {
		r.emit(map[string]any{
			"worlds": tally.Worlds, "same": tally.Same, "missed": tally.Missed, "different": tally.Different, "points": tally.Points,
			"early": tally.Early, "left_out": tally.Left, "sample_seed": t.SampleSeed, "took_ns": time.Since(began),
		})
	} else {
		for _, file := range slices.Sorted(maps.Keys(tally.Left)) {
			fmt.Fprintf(r.Out, "left out: %s: %s\n", file, tally.Left[file])
		}
		fmt.Fprintf(r.Out, "%s in %s: %s undisturbed, %d ended the same, %d the same without coming to the point, %d differ\n",
			markdown.Count(int(tally.Worlds), "world"), time.Since(began).Round(time.Millisecond),
			markdown.Count(len(scenarios)-len(tally.Left), "scenario"), tally.Same, tally.Missed, tally.Different)
		fmt.Fprintf(r.Out, "%d points in all; %d more lie in the start of the program, where nothing is tried\n", tally.Points, tally.Early)
	}
	if tally.Different > 0 {
		return said("%s did not end as undisturbed", markdown.Count(int(tally.Different), "world"))
	}
	return nil
}

// trial prints a world: the undisturbed ones, and those that differ.
func (r *replayer) trial(t replay.Trial) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.json {
		r.emit(map[string]any{
			"file": t.File, "variant": t.Variant, "passed": t.Report.Passed, "struck": t.Struck, "took_ns": t.Report.Took,
			"mismatches": t.Report.Mismatches,
		})
		return
	}
	if t.Variant == "" {
		fmt.Fprint(r.Out, t.Report)
		return
	}
	if !t.Report.Passed {
		fmt.Fprintf(r.Out, "%s\n  again: pipelinebot replay %s %s\n%s", t.Variant, t.File, t.Flag, t.Report)
	}
	if r.timeline {
		r.events(t.Report)
	}
}

func (r *replayer) events(rep scenario.Report) {
	for _, e := range rep.Events {
		fmt.Fprintf(r.Out, "    %s  %-8s %s\n", e.At.Format("15:04:05.000"), e.Kind, e.Text)
	}
}
