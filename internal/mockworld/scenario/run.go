package scenario

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/pipelinebot/pipelinebot/internal/clock"
	"github.com/pipelinebot/pipelinebot/internal/mockworld"
	"github.com/pipelinebot/pipelinebot/internal/mockworld/modelwire"
)

// Options of Run. The zero value works.
type Options struct {
	// Dir holds the world's repositories and the bot's data; a temporary
	// folder that is removed when empty.
	Dir string
	// Timeout, when set, replaces the scenario's.
	Timeout time.Duration
	Log     *slog.Logger
	// Observe gets everything that happens, as it happens, one call at a
	// time.
	Observe func(Event)
	// Points makes the report list the instants at which the bot may die.
	Points bool
	// Crash, when set, is where it is killed and started again. Stop is where
	// a person stops the work, and lifts the stop a while later. Shuffle is
	// the order in which it hears of events.
	Crash   *Point
	Stop    *StopAt
	Shuffle *Shuffle
	// Same, when set, is what Normal has to be at the end.
	Same []string
	// Hold, when set, is called before everything is taken down; the world,
	// the model and the bot are up until it returns.
	Hold func(ctx context.Context, l Live) error
	// KeepBodies makes the world keep what it answers, see mockworld.Options.
	KeepBodies bool
}

// Event is one thing that happened.
type Event struct {
	At time.Time `json:"at"`
	// Kind is step, bot, request, delivery, model or settled.
	Kind string `json:"kind"`
	Text string `json:"text"`
}

// Live is a scenario that is still up.
type Live struct {
	Bot      Bot
	WorldURL string
	Report   Report
}

// running is a scenario under way.
type running struct {
	s     *Scenario
	o     Options
	dir   string
	world *mockworld.World
	model *modelwire.Server
	clock *shifted
	bots  *keeper
	hooks string // address of the receiver
	began time.Time

	deaths []*death

	mu       sync.Mutex
	events   []Event
	trouble  []string
	active   time.Time // the newest write, model call or delivery
	stepped  time.Time // when the last action was done
	heard    time.Time // the newest request of the bot
	runCache []RunView
	runsAt   time.Time

	expect Expect // the file's, or what is left of it
	counts map[Point]int
	points []Point
	early  int  // points before the program was up
	struck bool // what was to happen at a point has happened
	halted *haltedAt
	acts   []outsideAct // only kept for a stop
	worked time.Time    // the newest node's commit or command

	shuffled *shuffler // nil when the order is kept
}

// Run plays a scenario and judges its end. An error means that it could not be
// played (a world that cannot be built, ctx over); a bot that did wrong is a
// Report that has not passed.
func Run(ctx context.Context, s *Scenario, l Launcher, o Options) (Report, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	r := &running{s: s, o: o, dir: o.Dir, clock: newShifted(), began: time.Now(), expect: s.Expect, counts: map[Point]int{}}
	if o.Crash != nil || o.Stop != nil || o.Shuffle != nil {
		r.expect = relaxed(s.Expect, o.Crash != nil)
	}
	if r.dir == "" {
		dir, err := os.MkdirTemp("", "scenario-")
		if err != nil {
			return Report{}, fmt.Errorf("playing %s: %w", s.File, err)
		}
		defer os.RemoveAll(dir) //nolint:errcheck // a temporary folder
		r.dir = dir
	}
	timeout := s.Timeout
	if o.Timeout > 0 {
		timeout = o.Timeout
	}
	// The end of the story is decided by deadline, not by ctx, so that there
	// is time left to look at what there is.
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop, err := r.setUp(ctx, l)
	defer stop()
	if err != nil {
		return Report{}, fmt.Errorf("playing %s: %w", s.File, err)
	}
	story, end := context.WithTimeoutCause(ctx, timeout, errTimeout)
	defer end()
	if err := r.play(story); err != nil {
		r.complain("%v", err)
	} else {
		r.settle(story)
	}
	if err := ctx.Err(); err != nil {
		return Report{}, fmt.Errorf("playing %s: %w", s.File, context.Cause(ctx))
	}
	if o.Hold != nil {
		rep := r.report(ctx)
		if err := o.Hold(ctx, Live{Bot: r.bots.bot, WorldURL: r.world.BaseURL(), Report: rep}); err != nil {
			return rep, err
		}
		// It was judged before; ctx may be over by now, and nothing that
		// happens while people look around changes the verdict.
		return rep, r.bots.stop(context.WithoutCancel(ctx), "term")
	}
	if err := r.bots.stop(ctx, "term"); err != nil {
		r.complain("%v", err)
	}
	return r.report(ctx), nil
}

var errTimeout = errors.New("the scenario's timeout is over")

// setUp makes world, model, receiver and bot. The returned function takes
// them down; it is never nil.
func (r *running) setUp(ctx context.Context, l Launcher) (stop func(), err error) {
	var undo []func()
	stop = func() {
		for _, f := range slices.Backward(undo) {
			f()
		}
	}
	r.world, err = mockworld.New(mockworld.Options{
		Clock: r.clock, JWTClock: clock.Real{}, Dir: r.worldDir(), Log: r.o.Log, Limits: limits(),
		LabelBumpsUpdated: r.s.World.LabelBumpsUpdated, OnRequest: r.onRequest(ctx),
		KeepBodies: r.o.KeepBodies,
	})
	if err != nil {
		return stop, err
	}
	undo = append(undo, func() { _ = r.world.Close() })
	bot, err := build(r.world, r.s.World)
	if err != nil {
		return stop, fmt.Errorf("building the world: %w", err)
	}
	base, stopWorld, err := r.world.Serve(ctx, "127.0.0.1:0")
	if err != nil {
		return stop, err
	}
	undo = append(undo, stopWorld)
	bot.APIURL, bot.Dir, bot.Overrides = base+"/api/v3/", filepath.Join(r.dir, "bot"), r.s.Bot.Config
	bot.Files, bot.Templates = r.s.Bot.Files, r.s.Bot.Templates
	if err := os.MkdirAll(bot.Dir, 0o700); err != nil {
		return stop, err
	}
	r.model, err = modelwire.New(modelwire.Options{Script: r.s.Model, Key: modelKey, Clock: r.clock, Log: r.o.Log})
	if err != nil {
		return stop, err
	}
	url, stopModel, err := serve(ctx, r.asking(ctx, r.model))
	if err != nil {
		return stop, err
	}
	undo = append(undo, stopModel)
	bot.ModelURL = url
	if r.asks() {
		if bot.MomentsURL, stopModel, err = serve(ctx, r.moments(ctx)); err != nil {
			return stop, err
		}
		undo = append(undo, stopModel)
	}
	r.bots = &keeper{launcher: l, bot: bot, note: r.note, trouble: r.complain}
	undo = append(undo, func() { _ = r.bots.stop(context.WithoutCancel(ctx), "kill"); r.bots.wg.Wait() })
	if r.hooks, stopModel, err = serve(ctx, r.receiver(ctx)); err != nil {
		return stop, err
	}
	undo = append(undo, stopModel)
	watched := make(chan struct{})
	watch, end := context.WithCancel(ctx)
	go func() { defer close(watched); r.watchModel(watch) }()
	undo = append(undo, func() { end(); <-watched })
	return stop, r.begin(ctx)
}

// begin injects the faults, starts the bot and connects the webhooks.
func (r *running) begin(ctx context.Context) error {
	for i, f := range r.s.Faults {
		name := faultName(i, f)
		if f.KillBot != "" {
			d, err := newDeath(f, name)
			if err != nil {
				return err
			}
			r.deaths = append(r.deaths, d)
		}
		if err := addFault(r.world, f, name); err != nil {
			return err
		}
	}
	if !r.s.Bot.Manual {
		if err := r.bots.start(ctx); err != nil {
			return err
		}
	}
	if r.s.World.PollOnly {
		return nil
	}
	return addHooks(r.world, r.s.World, r.bots.bot, r.hooks+"/webhook")
}

func (r *running) worldDir() string { return filepath.Join(r.dir, "world") }

// serve listens on a free loopback port.
func serve(ctx context.Context, h http.Handler) (url string, stop func(), err error) {
	var lc net.ListenConfig
	ln, err := lc.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, fmt.Errorf("listening on loopback: %w", err)
	}
	srv := &http.Server{Handler: h, ReadHeaderTimeout: 30 * time.Second, ErrorLog: discardLog()}
	done := make(chan struct{})
	go func() { defer close(done); _ = srv.Serve(ln) }() // ends with Close
	return "http://" + ln.Addr().String(), func() { _ = srv.Close(); <-done }, nil
}

func discardLog() *log.Logger { return slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug) }
