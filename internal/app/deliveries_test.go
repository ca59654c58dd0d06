package app

import (
	"encoding/json"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pipelinebot/pipelinebot/checkpoints"
	"github.com/pipelinebot/pipelinebot/checkpoints/sqlite"
	"github.com/pipelinebot/pipelinebot/internal/forge"
	"github.com/pipelinebot/pipelinebot/internal/intake"
)

// The report tells what webhooks told, told late and never told, by rows as
// both sources leave them.
func TestDeliveriesTellWhatWasMissed(t *testing.T) {
	t.Parallel()
	s, err := sqlite.Open(t.Context(), sqlite.Options{Path: filepath.Join(t.TempDir(), "runs.db"), Synchronous: sqlite.Normal})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	noon := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	repo := forge.Repo{Owner: "acme", Name: "shop"}
	put := func(source, guid, key string, kind forge.EventKind, number int, label string, happened, stored time.Duration) {
		t.Helper()
		ev := forge.Event{Kind: kind, Issue: forge.Ref{Repo: repo, Number: number}, Label: label, Source: source, At: noon.Add(happened)}
		body, err := json.Marshal(ev)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Receive(t.Context(), checkpoints.InboxEvent{Delivery: guid, Key: key, Kind: string(kind), Body: body, At: noon.Add(stored)}); err != nil {
			t.Fatal(err)
		}
	}
	const sec = time.Second
	put("poll", "", "old", forge.Commented, 1, "", -2*time.Hour, -2*time.Hour)
	put("cli", "", "cli", forge.ManualRun, 1, "", 0, 0)
	put("webhook", "g1", "", forge.Labeled, 1, "pipeline:plan", 1*sec, 1*sec)
	put("poll", "", "label-event/1", forge.Labeled, 1, "Pipeline:Plan", 0, 20*sec)
	put("poll", "", "label-event/2", forge.Labeled, 1, "pipeline:plan", 30*sec, 40*sec) // again, untold
	put("poll", "", "comment/3", forge.Commented, 2, "", 41*sec, 50*sec)
	put("poll", "", "comment/4", forge.Commented, 2, "", 42*sec, 51*sec)
	put("poll", "", "issue-event/5", forge.IssueClosed, 3, "", 43*sec, 52*sec)
	put("webhook", "g2", "", forge.IssueClosed, 3, "", 60*sec, 60*sec)
	put("webhook", "g3", "", forge.ChecksChanged, 0, "", 61*sec, 61*sec)
	if err := s.SetCursor(t.Context(), intake.ToldLater("comment/3"), "g4"); err != nil {
		t.Fatal(err)
	}
	all, whole, err := Deliveries(t.Context(), s, noon.Add(-time.Hour), 100)
	if err != nil || !whole {
		t.Fatal(err, whole)
	}
	var got []string
	for _, d := range all {
		got = append(got, d.Source+" "+d.Event+" "+d.Issue+" "+string(d.Told))
	}
	want := []string{
		"webhook labeled acme/shop#1 webhook",
		"poll labeled acme/shop#1 webhook",
		"poll labeled acme/shop#1 missed",
		"poll commented acme/shop#2 later",
		"poll commented acme/shop#2 missed",
		"poll closed acme/shop#3 later",
		"webhook closed acme/shop#3 webhook",
		"webhook checks_changed acme/shop webhook",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if _, whole, err := Deliveries(t.Context(), s, noon, 3); err != nil || whole {
		t.Errorf("a part of the inbox counts as the whole: %v", err)
	}
}
