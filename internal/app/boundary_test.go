package app

import (
	"bytes"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pipelinebot/pipelinebot/checkpoints/sqlite"
	"github.com/pipelinebot/pipelinebot/internal/clock"
	"github.com/pipelinebot/pipelinebot/internal/config"
	"github.com/pipelinebot/pipelinebot/internal/forge"
	"github.com/pipelinebot/pipelinebot/internal/gh"
	"github.com/pipelinebot/pipelinebot/internal/secret"
	"github.com/pipelinebot/pipelinebot/labels"
)

// newTestBoundary serves acme/shop and discovers acme/*.
func newTestBoundary(t *testing.T, store *sqlite.Store) (*boundary, *bytes.Buffer) {
	t.Helper()
	if store == nil {
		var err error
		store, err = sqlite.Open(t.Context(), sqlite.Options{Path: filepath.Join(t.TempDir(), "runs.db"), Synchronous: sqlite.Normal})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = store.Close() })
	}
	client, err := gh.New(gh.Options{Token: secret.New("tok")})
	if err != nil {
		t.Fatal(err)
	}
	log := &bytes.Buffer{}
	a := &App{
		Options: Options{Log: slog.New(slog.NewTextHandler(log, nil))}, clock: clock.Real{}, store: store, forge: client,
		cfg: &config.Config{
			Repositories: []config.Repository{{Repo: forge.Repo{Owner: "acme", Name: "shop"}}}, Labels: labels.Default(),
			Discover: &config.Discover{Allow: []string{"acme/*"}, Deny: []string{"acme/secret*"}},
		},
	}
	b := a.newBoundary()
	if err := b.recall(t.Context()); err != nil {
		t.Fatal(err)
	}
	return b, log
}

// A repository that was renamed or transferred stays known by its id, over a
// restart too; another one under the old name is not mistaken for it.
func TestARepositoryIsKnownByItsID(t *testing.T) {
	t.Parallel()
	b, log := newTestBoundary(t, nil)
	shop, renamed := forge.Repo{Owner: "acme", Name: "shop"}, forge.Repo{Owner: "umbrella", Name: "store"}
	check := func(b *boundary, now forge.Repo, id int64, want forge.Repo, ok bool) {
		t.Helper()
		if got, served := b.name(now, id); got != want || served != ok {
			t.Errorf("%s (%d) is %s, %t; want %s, %t", now, id, got, served, want, ok)
		}
	}
	check(b, renamed, 7, renamed, false) // nothing is known of it yet
	check(b, forge.Repo{Owner: "Acme", Name: "Shop"}, 7, forge.Repo{Owner: "Acme", Name: "Shop"}, true)
	check(b, renamed, 7, forge.Repo{Owner: "Acme", Name: "Shop"}, true)
	check(b, renamed, 0, renamed, false)
	check(b, renamed, 8, renamed, false)
	check(b, shop, 8, shop, false)
	if !strings.Contains(log.String(), "but is another") {
		t.Errorf("the log says nothing of the other one:\n%s", log)
	}
	again, _ := newTestBoundary(t, b.store)
	check(again, renamed, 7, shop, true)
}

func TestDiscoveryAdoptsWhatIsAllowed(t *testing.T) {
	t.Parallel()
	b, log := newTestBoundary(t, nil)
	of := func(names ...string) (out []forge.Repository) {
		for _, n := range names {
			r, err := forge.ParseRepo(n)
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, forge.Repository{Repo: r})
		}
		return out
	}
	b.adopt(t.Context(), of("Acme/Shop", "acme/blog", "acme/secret-plans", "other/x"))
	shop, blog := forge.Repo{Owner: "acme", Name: "shop"}, forge.Repo{Owner: "acme", Name: "blog"}
	if diff := cmp.Diff([]forge.Repo{shop, blog}, b.repos()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if _, ok := b.name(blog, 3); !ok {
		t.Error("a discovered repository's webhooks are foreign")
	}
	b.adopt(t.Context(), nil)
	if diff := cmp.Diff([]forge.Repo{shop}, b.repos()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if !strings.Contains(log.String(), `msg="discovered no more" repo=acme/blog`) {
		t.Errorf("the log:\n%s", log)
	}
}

// What a change of labels means is said once, for the pipeline's own only.
func TestAChangedLabelIsSaid(t *testing.T) {
	t.Parallel()
	b, log := newTestBoundary(t, nil)
	ev := forge.Event{Kind: forge.LabelChanged, Issue: forge.Ref{Repo: forge.Repo{Owner: "acme", Name: "shop"}}}
	for _, c := range []struct{ action, label, was, want string }{
		{"edited", "go", "pipeline:triage", "was renamed"},
		{"edited", "Pipeline:Triage", "pipeline:triage", ""},
		{"edited", "pipeline:triage", "", ""},
		{"deleted", "pipeline:stop", "", "was deleted"},
		{"deleted", "bug", "", ""},
		{"created", "pipeline:plan", "", ""},
	} {
		log.Reset()
		ev.Action, ev.Label, ev.Was = c.action, c.label, c.was
		b.heard(ev)
		if c.want == "" && log.Len() > 0 || !strings.Contains(log.String(), c.want) {
			t.Errorf("%s %s: the log says %q, want %q", c.action, c.label, log, c.want)
		}
	}
}

// The counters are bounded: a delivery's kind is text from outside.
func TestDeliveriesAreCountedByKind(t *testing.T) {
	t.Parallel()
	b, log := newTestBoundary(t, nil)
	for i := range 2 * mostKinds {
		b.observed(strings.Repeat("x", i), "ignored")
	}
	b.observed("issues", "stored")
	if len(b.told) > mostKinds+2 {
		t.Errorf("%d counters", len(b.told))
	}
	b.told = map[string]int64{}
	b.observed("issues", "stored")
	b.observed("", "unsigned")
	b.report(t.Context(), b.poller.Stats())
	if want := "deliveries.?.unsigned=1 deliveries.issues.stored=1"; !strings.Contains(log.String(), want) {
		t.Errorf("the log lacks %s:\n%s", want, log)
	}
}

func TestWhatGetsARow(t *testing.T) {
	t.Parallel()
	b, _ := newTestBoundary(t, nil)
	for _, c := range []struct {
		ev   forge.Event
		want bool
	}{
		{forge.Event{Kind: forge.Labeled}, true},
		{forge.Event{Kind: forge.IssueOpened}, false},
		{forge.Event{Kind: forge.ChecksChanged, SHA: "abc", Head: "main"}, false},
		{forge.Event{Kind: forge.ChecksChanged, SHA: "abc", Head: "pipelinebot/7-x"}, true},
		{forge.Event{Kind: forge.Pushed, SHA: "abc", Head: "feature"}, false},
		{forge.Event{Kind: forge.Reviewed, Pull: 9, Head: "pipelinebot/7-x"}, true},
		{forge.Event{Kind: forge.ChecksChanged, SHA: "abc", Pull: 9}, true},
	} {
		if got := b.wants(c.ev); got != c.want {
			t.Errorf("%+v: %t", c.ev, got)
		}
	}
}
