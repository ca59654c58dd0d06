package bench_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/pipelinebot/pipelinebot/checkpoints/sqlite"
	"github.com/pipelinebot/pipelinebot/flows"
	"github.com/pipelinebot/pipelinebot/flows/engine"
)

var update = flag.Bool("update", false, "rewrite docs/benchmarks.md from testdata/results.txt")

// scratch is a folder that lives as long as the process, for what is made
// once and measured several times.
var scratch = sync.OnceValues(func() (string, error) { return os.MkdirTemp("", "bench-*") })

func TestMain(m *testing.M) {
	if file := os.Getenv(childFile); file != "" {
		if err := child(context.Background(), file, os.Args[1:], os.Stdout); err != nil {
			log.Fatal(err)
		}
		return
	}
	code := m.Run()
	if dir, err := scratch(); err == nil {
		_ = os.RemoveAll(dir)
	}
	os.Exit(code)
}

// sizes of what is measured.
const (
	nodes = 10   // of a run
	bytes = 2048 // of state
)

// mode says what a node does to the state.
type mode string

const (
	rewritten mode = "rewritten" // it replaces all of it
	kept      mode = "kept"      // it counts
)

// text is size letters that differ with the seed, made as peer.mjs makes them.
func text(size, seed int) string {
	x := uint32(seed)*2654435761 + 88172645 //nolint:gosec // wraps on purpose
	out := make([]byte, size)
	for i := range out {
		x ^= x << 13
		x ^= x >> 17
		x ^= x << 5
		out[i] = 'a' + byte(x%26)
	}
	return string(out)
}

// registry has the actions of the measured flows.
func registry() (*flows.Registry, error) {
	reg := &flows.Registry{}
	work := func(m mode) func(context.Context, flows.Call) (flows.Result, error) {
		return func(_ context.Context, c flows.Call) (flows.Result, error) {
			n := c.In.Int("n") + 1
			d := flows.Delta{"n": n}
			if m == rewritten {
				d["payload"] = text(bytes, n)
			}
			return flows.Result{Delta: d}, nil
		}
	}
	return reg, reg.Add(
		flows.Action{Name: "bench.rewritten", Version: "1", Run: work(rewritten)},
		flows.Action{Name: "bench.kept", Version: "1", Run: work(kept)},
	)
}

// stage is a store with an engine over it.
type stage struct {
	tb    testing.TB
	store *sqlite.Store
	eng   *engine.Engine
	reg   *flows.Registry
}

func newStage(tb testing.TB, file string, level sqlite.Synchronous) *stage {
	tb.Helper()
	reg, err := registry()
	if err != nil {
		tb.Fatal(err)
	}
	store, err := sqlite.Open(tb.Context(), sqlite.Options{Path: file, Synchronous: level})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = store.Close() })
	return &stage{tb, store, engine.New(engine.Options{Store: store, Registry: reg}), reg}
}

func (s *stage) load(src string) *flows.Flow {
	s.tb.Helper()
	f, problems := flows.Load("bench.yaml", []byte(src), s.reg)
	if err := problems.Err(); err != nil {
		s.tb.Fatal(err)
	}
	return f
}

// size is what the file has with everything written back from the log, in
// bytes. It is asked and not done: a log that was emptied grows again, which
// costs the commits after it more than those of one that is written over.
func (s *stage) size() int64 {
	s.tb.Helper()
	var n int64
	if err := s.store.DB().QueryRowContext(s.tb.Context(), `SELECT page_count * page_size FROM pragma_page_count, pragma_page_size`).Scan(&n); err != nil {
		s.tb.Fatal(err)
	}
	return n
}

// say writes an answer of a child process.
func say(w *json.Encoder, v any) error {
	if err := w.Encode(v); err != nil {
		return fmt.Errorf("answering: %w", err)
	}
	return nil
}

func file(tb testing.TB) string { return filepath.Join(tb.TempDir(), "runs.db") }
