package scenario

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/pipelinebot/pipelinebot/internal/mockworld"
)

// Secrets of the world. It lives for one scenario, on loopback.
const (
	botToken      = "ghp_scenarioscenarioscenarioscenario0001"
	webhookSecret = "scenario-webhook-secret"
	modelKey      = "sk-scenario"
	appID         = 4711
	installID     = 815
)

// build fills an empty world and returns what the bot must be told of it.
func build(w *mockworld.World, spec World) (Bot, error) {
	b := Bot{Login: BotLogin, WebhookSecret: webhookSecret, ModelKey: modelKey, PollOnly: spec.PollOnly}
	if spec.Auth == "app" {
		b.Login += "[bot]"
	}
	for _, login := range slices.Sorted(maps.Keys(spec.Users)) {
		typ := map[string]mockworld.UserType{"user": mockworld.User, "bot": mockworld.Bot, "organization": mockworld.Organization}[spec.Users[login]]
		if err := w.AddUser(login, typ); err != nil {
			return b, err
		}
	}
	for _, r := range spec.Repos {
		if err := addRepo(w, r); err != nil {
			return b, err
		}
		b.Repos = append(b.Repos, r.Name)
	}
	if err := addIdentity(w, spec, &b); err != nil {
		return b, err
	}
	for _, i := range spec.Issues {
		if i.Repo == "" {
			i.Repo = b.Repos[0]
		}
		if err := addIssue(w, i, maintainer(spec, i)); err != nil {
			return b, err
		}
	}
	return b, nil
}

// maintainer is who puts labels on an issue that is there from the start: its
// author, or else the first account that may. GitHub drops, without a word,
// labels that an author names and may not set.
func maintainer(spec World, i Issue) string {
	for _, r := range spec.Repos {
		if r.Name != i.Repo {
			continue
		}
		may := func(login string) bool {
			return slices.Contains([]string{"triage", "write", "maintain", "admin"}, r.Roles[login])
		}
		if may(i.Author) {
			return i.Author
		}
		for _, login := range slices.Sorted(maps.Keys(r.Roles)) {
			if may(login) {
				return login
			}
		}
	}
	return i.Author
}

func addRepo(w *mockworld.World, r Repo) error {
	owner, name, _ := strings.Cut(r.Name, "/")
	spec := mockworld.RepoSpec{
		Owner: owner, Name: name, Private: r.Private, DefaultBranch: r.DefaultBranch, Roles: map[string]mockworld.Role{},
		Commits: []mockworld.CommitSpec{{
			Message: "First commit", Files: r.Files, Executable: r.Executable, Symlinks: r.Symlinks, Submodules: r.Submodules,
		}},
	}
	for login, role := range r.Roles {
		spec.Roles[login] = mockworld.Role(role)
	}
	if _, said := r.Roles[BotLogin]; !said {
		spec.Roles[BotLogin] = mockworld.RoleWrite
	}
	for _, l := range r.Labels {
		spec.Labels = append(spec.Labels, mockworld.LabelSpec{Name: l})
	}
	for i := range r.Fill {
		spec.Labels = append(spec.Labels, mockworld.LabelSpec{Name: fmt.Sprintf("area/%03d", i+1)})
	}
	return w.AddRepo(spec)
}

// addIssue opens an issue and lets by put its labels on.
func addIssue(w *mockworld.World, i Issue, by string) error {
	labels := slices.Clone(i.Labels)
	for n := range i.Fill {
		labels = append(labels, fmt.Sprintf("area/%03d", n+1))
	}
	n, err := w.AddIssue(mockworld.IssueSpec{Repo: i.Repo, Author: i.Author, Title: i.Title, Body: i.Body, NoBody: i.NoBody})
	if err != nil {
		return err
	}
	for _, l := range labels {
		if err := w.Label(i.Repo, n, by, l); err != nil {
			return err
		}
	}
	return nil
}

// addIdentity gives the bot a token or makes it an app.
func addIdentity(w *mockworld.World, spec World, b *Bot) error {
	if spec.Auth != "app" {
		b.Token = botToken
		return w.AddToken(mockworld.TokenSpec{Token: botToken, Login: BotLogin, Permissions: spec.Permissions})
	}
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return fmt.Errorf("making the app's key: %w", err)
	}
	pub, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	if err != nil {
		return fmt.Errorf("encoding the app's key: %w", err)
	}
	b.App = &AppKey{ID: appID, InstallationID: installID, PEM: string(pem.EncodeToMemory(
		&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}))}
	perms := spec.Permissions
	if perms == nil {
		perms = map[string]string{"issues": "write", "contents": "write", "pull_requests": "write", "checks": "write", "statuses": "read", "metadata": "read"}
	}
	return w.AddApp(mockworld.AppSpec{
		ID: appID, ClientID: "Iv1.scenario", Slug: BotLogin, InstallationID: installID, Permissions: perms, Repos: b.Repos,
		PublicKeyPEM: string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: pub})),
	})
}

// addHooks adds what delivers events to url.
func addHooks(w *mockworld.World, spec World, b Bot, url string) error {
	if spec.Auth == "app" {
		_, err := w.AddHook(mockworld.HookSpec{URL: url, Secret: webhookSecret, AppID: appID})
		return err
	}
	for _, r := range b.Repos {
		if _, err := w.AddHook(mockworld.HookSpec{Repo: r, URL: url, Secret: webhookSecret}); err != nil {
			return err
		}
	}
	return nil
}

// limits are those of a world in which hours pass within seconds: what counts
// by the hour or in points a minute is lifted, the rest is GitHub's.
func limits() *mockworld.Limits {
	l := mockworld.DefaultLimits()
	l.PrimaryPerHour, l.PointsPerMinute, l.ContentPerHour, l.ContentPerMinute = -1, -1, -1, 400
	return &l
}
