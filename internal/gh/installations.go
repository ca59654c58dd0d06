package gh

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strings"

	"github.com/google/go-github/v66/github"

	"github.com/pipelinebot/pipelinebot/internal/forge"
)

// find is the installation that a repository belongs to. Without a
// repository it is the pinned one, or the first.
func (a *appAuth) find(ctx context.Context, repo forge.Repo) (int64, error) {
	if a.app.InstallationID != 0 {
		return a.app.InstallationID, nil
	}
	if repo == (forge.Repo{}) {
		ids, err := a.installations(ctx)
		if err != nil {
			return 0, err
		}
		return ids[0], nil
	}
	key := strings.ToLower(repo.String())
	a.mu.Lock()
	id, ok := a.byRepo[key]
	a.mu.Unlock()
	if ok {
		return id, nil
	}
	var in github.Installation
	err := a.client.get(ctx, request{op: "finding the App's installation for " + repo.String(), path: repoPath(repo, "installation"), cred: &a.self}, &in)
	if forge.IsKind(err, forge.KindNotFound) {
		return 0, &forge.Error{Kind: forge.KindNotFound, Op: "finding the App's installation for " + repo.String(), Status: http.StatusNotFound,
			Err: fmt.Errorf("App %d is not installed on %s; install it there, or check the name", a.app.ID, repo)}
	}
	if err != nil {
		return 0, err
	}
	if in.GetID() <= 0 {
		return 0, &forge.Error{Kind: forge.KindTransient, Op: "finding the App's installation for " + repo.String(), Err: errors.New("the answer holds no id")}
	}
	a.mu.Lock()
	a.byRepo[key] = in.GetID()
	a.mu.Unlock()
	return in.GetID(), nil
}

// installations lists the App's installations that are not suspended; an
// error when there are none.
func (a *appAuth) installations(ctx context.Context) ([]int64, error) {
	if a.app.InstallationID != 0 {
		return []int64{a.app.InstallationID}, nil
	}
	const op = "listing the App's installations"
	all, err := listAll[github.Installation](ctx, a.client, request{op: op, path: "app/installations?per_page=100", cred: &a.self}, plain)
	if err != nil {
		return nil, err
	}
	var ids []int64
	for _, in := range all {
		if in.GetID() > 0 && in.SuspendedAt == nil {
			ids = append(ids, in.GetID())
		}
	}
	if len(ids) == 0 {
		return nil, &forge.Error{Kind: forge.KindNotFound, Op: op, Err: fmt.Errorf("App %d is installed nowhere; install it on a repository", a.app.ID)}
	}
	return ids, nil
}

// Repositories lists the repositories that a GitHub App is installed on,
// archived and disabled ones left out. With a token it is KindInvalid: a
// token reaches too much for the bot to act on all of it.
func (c *Client) Repositories(ctx context.Context) ([]forge.Repository, error) {
	const op = "listing the App's repositories"
	a, ok := c.auth.(*appAuth)
	if !ok {
		return nil, &forge.Error{Kind: forge.KindInvalid, Op: op, Err: errors.New("a token can't discover repositories; name them in the configuration")}
	}
	ids, err := a.installations(ctx)
	if err != nil {
		return nil, err
	}
	var out []forge.Repository
	for _, id := range ids {
		cred, err := a.as(ctx, id)
		if err != nil {
			return nil, err
		}
		repos, err := listAll[github.Repository](ctx, c, request{op: op, path: "installation/repositories?per_page=100", cred: &cred}, inField("repositories"))
		if err != nil {
			return nil, err
		}
		for _, r := range repos {
			if converted := repository(&r); converted.Repo.Name != "" && !r.GetArchived() && !r.GetDisabled() {
				a.remember(converted.Repo, id)
				out = append(out, converted)
			}
		}
	}
	return out, nil
}

func (a *appAuth) remember(r forge.Repo, id int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.byRepo[strings.ToLower(r.String())] = id
}

// forget drops what is known of an installation that is gone: the App may
// have been installed anew, under another id.
func (a *appAuth) forget(id int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	maps.DeleteFunc(a.byRepo, func(_ string, known int64) bool { return known == id })
	a.drop(id)
}

// Forget drops what is kept of an App's installation, tokens too, and which
// repository belongs to which: something about it changed. 0 is all of them.
// With a token there is nothing to forget.
func (c *Client) Forget(installation int64) {
	a, ok := c.auth.(*appAuth)
	if !ok {
		return
	}
	if installation != 0 {
		a.forget(installation)
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	clear(a.byRepo)
	clear(a.byScope)
	clear(a.granted)
	clear(a.present)
}
