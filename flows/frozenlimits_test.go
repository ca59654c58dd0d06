package flows

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The limits of a frozen definition are those of its flow, for every flow
// that loads.
func TestFrozenLimits(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/flows/good/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	bounded := 0
	for _, file := range files {
		src, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		f, problems := Load(file, src, testRegistry(t))
		if err := problems.Err(); err != nil {
			t.Fatal(err)
		}
		got, err := FrozenLimits(f.Definition(), f.Hash())
		if err != nil {
			t.Error(err)
		}
		if diff := cmp.Diff(f.Limits(), got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", file, diff)
		}
		if got.MicroUSD > 0 || got.Wall > 0 {
			bounded++
		}
	}
	if bounded == 0 {
		t.Error("no flow has limits")
	}
}

// What can't be read bounds nothing, and so is an error.
func TestFrozenLimitsCorrupt(t *testing.T) {
	t.Parallel()
	hash := func(s string) string {
		sum := sha256.Sum256([]byte(s))
		return hex.EncodeToString(sum[:])
	}
	for src, sum := range map[string]string{
		`{}`:                                hash("other"),
		`{"limits":`:                        hash(`{"limits":`),
		`{"limits":{"cost_usd":1e99}}`:      hash(`{"limits":{"cost_usd":1e99}}`),
		`{"limits":{"wall":"one evening"}}`: hash(`{"limits":{"wall":"one evening"}}`),
	} {
		if _, err := FrozenLimits([]byte(src), sum); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: %v, want ErrCorrupt", src, err)
		}
	}
}
