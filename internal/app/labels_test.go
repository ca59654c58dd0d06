package app_test

import (
	"fmt"
	"log/slog"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pipelinebot/pipelinebot/internal/app"
	"github.com/pipelinebot/pipelinebot/internal/clock"
	"github.com/pipelinebot/pipelinebot/internal/config"
	"github.com/pipelinebot/pipelinebot/internal/forge"
	"github.com/pipelinebot/pipelinebot/internal/mockworld"
	"github.com/pipelinebot/pipelinebot/labels"
)

// world is a fake GitHub with acme/widgets, and a configuration for it.
func world(t *testing.T) (*mockworld.World, *config.Config) {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	w, err := mockworld.New(mockworld.Options{Clock: clock.Real{}, JWTClock: clock.Real{}, Dir: t.TempDir()})
	must(err)
	base, stop, err := w.Serve(t.Context(), "127.0.0.1:0")
	must(err)
	t.Cleanup(func() {
		stop()
		if v := w.Violations(); len(v) != 0 {
			t.Errorf("MockWorld knows no such request: %v", v)
		}
		must(w.Close())
	})
	must(w.AddUser("acme", mockworld.Organization))
	must(w.AddRepo(mockworld.RepoSpec{
		Owner: "acme", Name: "widgets", Files: map[string]string{"go.mod": "module example.com/widgets\n"},
		Roles: map[string]mockworld.Role{"bot": mockworld.RoleWrite},
	}))
	must(w.AddToken(mockworld.TokenSpec{Token: "token", Login: "bot", Permissions: map[string]string{"issues": "write", "metadata": "read"}}))
	cfg, err := config.Parse("config.yaml", fmt.Appendf(nil, `github: {base_url: %q, token_env: TOKEN, webhooks: false}
repositories: [{name: acme/widgets}]
models: {backends: {main: {driver: openai, base_url: "http://127.0.0.1:1/v1"}}, default: {model: m}}
labels: {done: "finished"}
`, base+"/api/v3/"), func(string) (string, bool) { return "token", true })
	must(err)
	return w, cfg
}

// A second run finds everything as it should be.
func TestSyncLabels(t *testing.T) {
	t.Parallel()
	w, cfg := world(t)
	log := slog.New(slog.DiscardHandler)
	plan, err := app.PlanLabels(t.Context(), cfg, log, app.LabelOptions{})
	if err != nil {
		t.Fatal(err)
	}
	first, err := app.SyncLabels(t.Context(), cfg, log, app.LabelOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var want []app.LabelChange
	for _, l := range labels.Palette(cfg.Labels) {
		want = append(want, app.LabelChange{Repo: "acme/widgets", Label: l.Name, Did: "created"})
	}
	if diff := cmp.Diff(want, first); diff != "" {
		t.Errorf("first run (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(want, plan); diff != "" {
		t.Errorf("plan (-want +got):\n%s", diff)
	}
	seen, err := w.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	if have := seen.Repos["acme/widgets"].Labels; !slices.Contains(have, "finished") {
		t.Errorf("the renamed label is not there: %v", have)
	}
	again, err := app.SyncLabels(t.Context(), cfg, log, app.LabelOptions{Repos: []forge.Repo{{Owner: "acme", Name: "widgets"}}})
	if err != nil || len(again) != 0 {
		t.Errorf("second run: %v, %v; want nothing to do", again, err)
	}
	if _, err := app.SyncLabels(t.Context(), cfg, log, app.LabelOptions{Repos: []forge.Repo{{Owner: "acme", Name: "absent"}}}); !forge.IsKind(err, forge.KindNotFound) {
		t.Errorf("absent repository: %v, want not found", err)
	}
}

// A label that got another name in the configuration is renamed, so that the
// issues that have it keep it; what cannot be meant is refused.
func TestRenameLabel(t *testing.T) {
	t.Parallel()
	w, cfg := world(t)
	log := slog.New(slog.DiscardHandler)
	before := *cfg
	before.Labels = labels.Default() // "pipeline:done"
	if _, err := app.SyncLabels(t.Context(), &before, log, app.LabelOptions{}); err != nil {
		t.Fatal(err)
	}
	o := app.LabelOptions{Renames: []app.Rename{{Old: "Pipeline:Done", New: "finished"}}}
	want := []app.LabelChange{{Repo: "acme/widgets", Label: "finished", Did: "renamed", Was: "pipeline:done"}}
	for _, do := range []func() ([]app.LabelChange, error){
		func() ([]app.LabelChange, error) { return app.PlanLabels(t.Context(), cfg, log, o) },
		func() ([]app.LabelChange, error) { return app.SyncLabels(t.Context(), cfg, log, o) },
	} {
		got, err := do()
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("changes (-want +got):\n%s", diff)
		}
	}
	if got, err := app.PlanLabels(t.Context(), cfg, log, o); err != nil || len(got) != 0 {
		t.Errorf("afterwards: %v, %v; want nothing to do", got, err)
	}
	seen, err := w.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	if have := seen.Repos["acme/widgets"].Labels; !slices.Contains(have, "finished") || slices.Contains(have, "pipeline:done") {
		t.Errorf("labels: %v", have)
	}
	for _, bad := range []app.Rename{{Old: "x", New: "pipeline:unknown"}, {Old: "finished", New: "pipeline:plan"}} {
		if _, err := app.PlanLabels(t.Context(), cfg, log, app.LabelOptions{Renames: []app.Rename{bad}}); err == nil {
			t.Errorf("%v: no error", bad)
		}
	}
}
