package storetest_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pipelinebot/pipelinebot/checkpoints/memory"
	"github.com/pipelinebot/pipelinebot/checkpoints/storetest"
)

func TestFaultyFailsOneWrite(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		when storetest.When
		want string
	}{
		{"before", storetest.Before, "1"},
		{"answer lost", storetest.After, "2"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f := storetest.NewFaulty(memory.New(memory.Options{}))
			f.FailAt(2, c.when)
			var got []bool
			for _, v := range []string{"1", "2"} {
				got = append(got, errors.Is(f.SetCursor(t.Context(), "c", v), storetest.ErrInjected))
			}
			if diff := cmp.Diff([]bool{false, true}, got); diff != "" {
				t.Fatalf("failures (-want +got):\n%s", diff)
			}
			v, err := f.Cursor(t.Context(), "c")
			if err != nil || v != c.want {
				t.Fatalf("cursor: got %q, %v, want %q", v, err, c.want)
			}
			if err := f.SetCursor(t.Context(), "c", "3"); err != nil || f.Writes() != 3 {
				t.Fatalf("after the fault: %v, %d writes", err, f.Writes())
			}
		})
	}
}

func TestFaultyCrashes(t *testing.T) {
	t.Parallel()
	inner := memory.New(memory.Options{})
	f := storetest.NewFaulty(inner)
	var calls []string
	f.Hook(func(method string, _ int) { calls = append(calls, method) })
	f.CrashAt(1, storetest.After)
	if err := f.SetCursor(t.Context(), "c", "1"); !errors.Is(err, storetest.ErrCrashed) || !f.Crashed() {
		t.Fatalf("the crash: %v", err)
	}
	if _, err := f.Cursor(t.Context(), "c"); !errors.Is(err, storetest.ErrCrashed) {
		t.Fatalf("a read after the crash: %v", err)
	}
	if err := f.SetCursor(t.Context(), "c", "2"); !errors.Is(err, storetest.ErrCrashed) {
		t.Fatalf("a write after the crash: %v", err)
	}
	if v, err := inner.Cursor(t.Context(), "c"); err != nil || v != "1" {
		t.Fatalf("the store underneath: %q, %v", v, err)
	}
	if diff := cmp.Diff([]string{"SetCursor", "Cursor", "SetCursor"}, calls); diff != "" {
		t.Fatalf("hooked calls (-want +got):\n%s", diff)
	}
}
