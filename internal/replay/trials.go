package replay

import (
	"context"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/pipelinebot/pipelinebot/internal/mockworld/scenario"
)

// Trials play each scenario once undisturbed, and then once for each variant
// that is made of what was seen: a crash or a stop at each point, another
// order of deliveries. Each must end as the undisturbed one did.
type Trials struct {
	Launcher scenario.Launcher
	// Crash, KillSwitch and Shuffle say which variants are made. At, when
	// set, is the only point; Seed, when not nil, the only shuffle.
	Crash, KillSwitch, Shuffle bool
	At                         *scenario.Point
	Seed                       *uint64
	// Shard and Shards keep the variants of one part, from 1; 0 is all.
	Shard, Shards int
	// Sample keeps that many of each scenario, drawn by SampleSeed; 0 is all.
	Sample     int
	SampleSeed uint64
	// Parallel is how many worlds live at the same time.
	Parallel int
	// Dir, when set, keeps each world below it.
	Dir string
	// Each is told of every world, one call at a time.
	Each func(Trial)
}

// Trial is one world.
type Trial struct {
	File string `json:"file"`
	// Variant says what was done to it, "" for the undisturbed one; Flag is
	// how to do it again.
	Variant string          `json:"variant,omitempty"`
	Flag    string          `json:"flag,omitempty"`
	Struck  bool            `json:"struck"`
	Report  scenario.Report `json:"-"`
}

// Tally counts worlds.
type Tally struct {
	// Worlds is all of them, undisturbed ones included. Same ended as the
	// undisturbed one, Missed did so but never came to the point (the order
	// of what happens at once is not the same each time), Different did not.
	Worlds, Same, Missed, Different int64
	// Left names scenarios that were not tried, with the reason; Points is how
	// many points there are in all, Early those while the program starts.
	Left          map[string]string
	Points, Early int64
}

// slack multiplies the time a world has: a busy machine is no failure, and one
// that has come to rest in a wrong place is not waited for.
const slack = 4

type variant struct {
	name, flag string
	options    scenario.Options
}

// Run plays all. The error says that something could not be played.
func (t Trials) Run(ctx context.Context, all []*scenario.Scenario) (Tally, error) {
	tally := Tally{Left: map[string]string{}}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	slots := make(chan struct{}, max(1, t.Parallel))
	var mu sync.Mutex
	var group sync.WaitGroup
	play := func(s *scenario.Scenario, v variant) (scenario.Report, bool) {
		slots <- struct{}{}
		defer func() { <-slots }()
		if ctx.Err() != nil {
			return scenario.Report{}, false
		}
		if t.Dir != "" {
			v.options.Dir = filepath.Join(t.Dir, filepath.Base(s.File), fmt.Sprintf("%08x", hashOf(v.name)))
		}
		rep, err := scenario.Run(ctx, s, t.Launcher, v.options)
		if err != nil {
			cancel(err)
			return rep, false
		}
		mu.Lock()
		defer mu.Unlock()
		tally.Worlds++
		t.Each(Trial{File: s.File, Variant: v.name, Flag: v.flag, Struck: rep.Struck, Report: rep})
		return rep, true
	}
	for _, s := range all {
		if why := t.unfit(s); why != "" {
			tally.Left[s.File] = why
			continue
		}
		group.Go(func() {
			base, ok := play(s, variant{options: scenario.Options{Points: true}})
			if !ok {
				return
			}
			if !base.Passed {
				atomic.AddInt64(&tally.Different, 1)
				return
			}
			atomic.AddInt64(&tally.Points, int64(len(base.Points)))
			atomic.AddInt64(&tally.Early, int64(base.Early))
			same := scenario.Normal(base.Seen)
			for _, v := range t.variants(s, base) {
				v.options.Same, v.options.Timeout = same, slack*s.Timeout
				group.Go(func() {
					rep, ok := play(s, v)
					switch {
					case !ok:
					case !rep.Passed:
						atomic.AddInt64(&tally.Different, 1)
					case !rep.Struck && v.options.Shuffle == nil:
						atomic.AddInt64(&tally.Missed, 1)
					default:
						atomic.AddInt64(&tally.Same, 1)
					}
				})
			}
		})
	}
	group.Wait()
	return tally, context.Cause(ctx)
}

// unfit says why a scenario is not tried.
func (t Trials) unfit(s *scenario.Scenario) string {
	switch {
	case s.Steers():
		return "it kills or stops the process itself"
	case t.KillSwitch && s.Stopper() == "":
		return "nobody in it may lift a stop"
	case t.KillSwitch && s.UsesStop():
		return "it is about a stop itself"
	case t.Shuffle && s.World.PollOnly:
		return "it has no webhooks"
	}
	return ""
}

// variants are the worlds to play.
func (t Trials) variants(s *scenario.Scenario, base scenario.Report) []variant {
	var out []variant
	points := scenario.Distinct(base.Points)
	if t.At != nil {
		points = []scenario.Point{*t.At}
	}
	for _, p := range points {
		if t.Crash {
			out = append(out, variant{
				name: "killed " + p.String(), flag: fmt.Sprintf("--crash-everywhere --at %q", p), options: scenario.Options{Crash: &p},
			})
		}
		if t.KillSwitch && p.MayStop() {
			for _, all := range []bool{false, true} {
				what := map[bool]string{false: "stopped ", true: "all stopped "}[all]
				out = append(out, variant{
					name: what + p.String(), flag: fmt.Sprintf("--kill-switch --at %q", p),
					options: scenario.Options{Stop: &scenario.StopAt{At: p, All: all}},
				})
			}
		}
	}
	if t.Shuffle {
		for _, how := range t.shuffles(len(base.Seen.Deliveries)) {
			out = append(out, variant{name: how.String(), flag: "--shuffle " + flagOf(how), options: scenario.Options{Shuffle: &how}})
		}
	}
	out = slices.DeleteFunc(out, func(v variant) bool {
		return t.Shards > 1 && int(hashOf(filepath.Base(s.File)+" "+v.name)%uint32(t.Shards)) != t.Shard-1 //nolint:gosec // small and positive
	})
	if t.Sample > 0 && len(out) > t.Sample {
		random := rand.New(rand.NewPCG(t.SampleSeed, uint64(hashOf(filepath.Base(s.File))))) //nolint:gosec // a sample, not a secret
		random.Shuffle(len(out), func(i, k int) { out[i], out[k] = out[k], out[i] })
		out = out[:t.Sample]
	}
	return out
}

// shuffles are one seed, or each pair of neighbours swapped and all that come
// together reversed.
func (t Trials) shuffles(deliveries int) []scenario.Shuffle {
	if t.Seed != nil {
		return []scenario.Shuffle{{Seed: *t.Seed}}
	}
	list := []scenario.Shuffle{{Reverse: true}}
	for i := 1; i < deliveries; i++ {
		list = append(list, scenario.Shuffle{Swap: i})
	}
	return list
}

func flagOf(s scenario.Shuffle) string {
	if s.Swap > 0 || s.Reverse {
		return "all"
	}
	return fmt.Sprint(s.Seed)
}

func hashOf(text string) uint32 {
	h := fnv.New32a()
	_, _ = h.Write([]byte(text)) // never fails
	return h.Sum32()
}
