package sqlite_test

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pipelinebot/pipelinebot/checkpoints"
	"github.com/pipelinebot/pipelinebot/checkpoints/sqlite"
)

// BenchmarkCommit is one node with 2 KB of state.
func BenchmarkCommit(b *testing.B) {
	for _, level := range []sqlite.Synchronous{sqlite.Full, sqlite.Normal} {
		b.Run(string(level), func(b *testing.B) {
			s, err := sqlite.Open(b.Context(), sqlite.Options{Path: filepath.Join(b.TempDir(), "runs.db"), Synchronous: level})
			if err != nil {
				b.Fatal(err)
			}
			defer s.Close()
			r, err := s.Start(b.Context(), checkpoints.StartReq{Key: "k", Entry: "a"})
			if err != nil {
				b.Fatal(err)
			}
			_, l, err := s.Claim(b.Context(), r.ID, r.Epoch, "w", time.Hour)
			if err != nil {
				b.Fatal(err)
			}
			c := commit(`{"x":"` + strings.Repeat("x", 2048) + `"}`)
			for b.Loop() {
				if err := s.Commit(b.Context(), l, c); err != nil {
					b.Fatal(err)
				}
				c.Seq++
			}
		})
	}
}
