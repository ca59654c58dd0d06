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
	first, err := app.SyncLabels(t.Context(), cfg, log, nil)
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
	seen, err := w.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	if have := seen.Repos["acme/widgets"].Labels; !slices.Contains(have, "finished") {
		t.Errorf("the renamed label is not there: %v", have)
	}
	again, err := app.SyncLabels(t.Context(), cfg, log, []forge.Repo{{Owner: "acme", Name: "widgets"}})
	if err != nil || len(again) != 0 {
		t.Errorf("second run: %v, %v; want nothing to do", again, err)
	}
	if _, err := app.SyncLabels(t.Context(), cfg, log, []forge.Repo{{Owner: "acme", Name: "absent"}}); !forge.IsKind(err, forge.KindNotFound) {
		t.Errorf("absent repository: %v, want not found", err)
	}
}
