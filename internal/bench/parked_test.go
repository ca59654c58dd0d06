package bench_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pipelinebot/pipelinebot/checkpoints"
	"github.com/pipelinebot/pipelinebot/checkpoints/sqlite"
	"github.com/pipelinebot/pipelinebot/flows/engine"
	"github.com/pipelinebot/pipelinebot/internal/queue"
	"github.com/pipelinebot/pipelinebot/internal/queue/river"
)

// childFile, in the environment, makes the test binary a daemon that opens
// that file, wakes runs, and says what it took.
const childFile = "PIPELINEBOT_BENCH_CHILD"

// parkedRuns is how many runs are parked; a tenth with -short.
const parkedRuns = 100_000

// walkedThere is how many of them walk to their wait. The others are their
// copies, row by row: to walk there takes 100,000 runs half an hour.
const walkedThere = 256

// woken is how many of them a child wakes.
const woken = 100

// childAnswer is what a child measured.
type childAnswer struct {
	StartUp     time.Duration
	Wake, Worst time.Duration
	Resident    int64
}

// parkedFile is a file with parked runs, made once, and which of them are not
// woken yet.
type parkedFile struct {
	path string
	ids  []string
}

// full are the files by how many runs they have.
var full sync.Map

func parkedRunsIn(b *testing.B, count int) *parkedFile {
	b.Helper()
	if f, ok := full.Load(count); ok {
		return f.(*parkedFile)
	}
	dir, err := scratch()
	if err != nil {
		b.Fatal(err)
	}
	f := &parkedFile{path: filepath.Join(dir, fmt.Sprintf("parked-%d.db", count))}
	s := newStage(b, f.path, sqlite.Normal)
	flow := s.load(parking)
	var originals []string
	for i := range walkedThere {
		id, err := s.park(b.Context(), flow, fmt.Sprint("run", i))
		if err != nil {
			b.Fatal(err)
		}
		originals = append(originals, id)
	}
	s.multiply(originals, count)
	if f.ids, err = s.store.IDs(b.Context(), checkpoints.Filter{Statuses: []checkpoints.Status{checkpoints.Waiting}}); err != nil || len(f.ids) != count {
		b.Fatalf("%d runs are parked, %v", len(f.ids), err)
	}
	// Neighbours in the file are not woken one after the other.
	rand.New(rand.NewPCG(1, 2)).Shuffle(count, func(i, j int) { f.ids[i], f.ids[j] = f.ids[j], f.ids[i] })
	if err := s.store.Close(); err != nil {
		b.Fatal(err)
	}
	full.Store(count, f)
	return f
}

// next are the runs to be woken next.
func (f *parkedFile) next(b *testing.B) (ids []string) {
	b.Helper()
	if len(f.ids) < woken {
		b.Fatalf("only %d parked runs are left", len(f.ids))
	}
	ids, f.ids = f.ids[:woken], f.ids[woken:]
	return ids
}

// BenchmarkParked is a daemon that starts on a file with 100,000 parked runs
// and wakes some of them.
func BenchmarkParked(b *testing.B) {
	count := parkedRuns
	if testing.Short() {
		count /= 10
	}
	b.Run(fmt.Sprintf("runs=%d", count), func(b *testing.B) {
		parked := parkedRunsIn(b, count)
		var sum childAnswer
		n := 0
		for b.Loop() {
			cmd := exec.Command(os.Args[0], parked.next(b)...)
			cmd.Env = append(cmd.Environ(), childFile+"="+parked.path)
			cmd.Stderr = os.Stderr
			out, err := cmd.Output()
			if err != nil {
				b.Fatal(err)
			}
			var a childAnswer
			if err := json.Unmarshal(out, &a); err != nil {
				b.Fatalf("the child said %q: %v", out, err)
			}
			sum.StartUp, sum.Wake, sum.Worst = sum.StartUp+a.StartUp, sum.Wake+a.Wake, max(sum.Worst, a.Worst)
			sum.Resident = max(sum.Resident, a.Resident)
			n++
		}
		ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
		b.ReportMetric(ms(sum.StartUp)/float64(n), "ms/start")
		b.ReportMetric(ms(sum.Wake)/float64(n), "ms/wake")
		b.ReportMetric(ms(sum.Worst), "ms-worst-wake")
		if sum.Resident > 0 {
			b.ReportMetric(float64(sum.Resident)/(1<<20), "MiB-resident")
		}
	})
}

// child starts as the program does, with its queue, and wakes the given runs
// one after the other: from the event's delivery until the run has walked to
// its end.
func child(ctx context.Context, path string, ids []string, w io.Writer) (err error) {
	began := time.Now()
	store, err := sqlite.Open(ctx, sqlite.Options{Path: path})
	if err != nil {
		return err
	}
	defer store.Close()
	q, err := river.New(ctx, river.Options{DB: store.DB()})
	if err != nil {
		return err
	}
	store.SetEnqueuer(q.Enqueue)
	reg, err := registry()
	if err != nil {
		return err
	}
	s := &stage{store: store, eng: engine.New(engine.Options{Store: store, Registry: reg})}
	done := make(chan error, 1)
	if err := store.ExpireAll(ctx); err != nil {
		return err
	}
	if err := q.Start(ctx, func(ctx context.Context, t queue.Token) error {
		done <- s.resume(ctx, t)
		return nil
	}); err != nil {
		return err
	}
	defer q.Stop(ctx)
	if _, err := store.Sweep(ctx, time.Hour); err != nil {
		return err
	}
	a := childAnswer{StartUp: time.Since(began)}
	var took []time.Duration
	for _, id := range ids {
		began := time.Now()
		if _, err := store.Deliver(ctx, id, checkpoints.Event{Key: "go", Kind: "go", Data: json.RawMessage(`{}`)}); err != nil {
			return err
		}
		if err := <-done; err != nil {
			return err
		}
		took = append(took, time.Since(began))
	}
	for _, id := range ids {
		run, err := store.Get(ctx, id)
		if err != nil {
			return err
		}
		if run.Status != checkpoints.Done || run.Seq != 3 {
			return fmt.Errorf("run %s is %s after %d nodes", id, run.Status, run.Seq)
		}
	}
	slices.Sort(took)
	a.Wake, a.Worst, a.Resident = took[len(took)/2], took[len(took)-1], resident()
	return say(json.NewEncoder(w), a)
}

func (s *stage) resume(ctx context.Context, t queue.Token) error {
	run, lease, err := s.store.Claim(ctx, t.ID, t.Epoch, "bench", time.Hour)
	if err != nil {
		return err
	}
	if _, err := s.walk(ctx, claimed{run, lease}, engine.Ended); err != nil {
		return err
	}
	_, err = s.store.Finish(ctx, lease, checkpoints.Done, nil)
	return err
}

// resident is the most memory that this process has had, in bytes; 0 where
// the system doesn't say.
func resident() int64 {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kb, _ := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
			return kb << 10
		}
	}
	return 0
}

// BenchmarkParkedMemory is what a parked run holds of the process that parked
// it.
func BenchmarkParkedMemory(b *testing.B) {
	const runs = 500
	s := newStage(b, file(b), sqlite.Normal)
	f := s.load(parking)
	turn := 0
	park := func(n int) {
		for range n {
			if _, err := s.park(b.Context(), f, fmt.Sprint("run", turn)); err != nil {
				b.Fatal(err)
			}
			turn++
		}
	}
	park(50)
	heap, routines := held()
	for b.Loop() {
		park(runs)
	}
	heapNow, routinesNow := held()
	parked := float64(turn - 50)
	b.ReportMetric(max(0, float64(heapNow-heap))/parked, "heap-B/run")
	b.ReportMetric(max(0, float64(routinesNow-routines))/parked, "goroutines/run")
}

func held() (heap int64, routines int) {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc), runtime.NumGoroutine() //nolint:gosec // far below 2^63
}
