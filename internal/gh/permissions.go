package gh

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/go-github/v66/github"

	"github.com/pipelinebot/pipelinebot/internal/forge"
	"github.com/pipelinebot/pipelinebot/internal/secret"
)

// use is what a token is for; it gets no more than that needs.
type use int

const (
	forReading use = iota
	forWriting
	forGit
)

// wanted are the permissions of a use, "!" before those without which it makes
// no sense; the others are left out when the installation does not grant them,
// and what needs them fails by their name.
func (u use) wanted() map[string]string {
	switch u {
	case forReading:
		return map[string]string{
			"metadata": "!read", "issues": "!read", "pull_requests": "read", "contents": "read", "checks": "read", "statuses": "read",
		}
	case forWriting:
		return map[string]string{"metadata": "!read", "issues": "!write", "pull_requests": "write", "contents": "read", "checks": "write", "statuses": "read"}
	default:
		return map[string]string{"metadata": "!read", "contents": "!write", "workflows": "write"}
	}
}

// permissions are what a token of that scope is minted with: those of its use
// that the installation grants. A missing one that it cannot do without, and
// an installation that is suspended, are named.
func (a *appAuth) permissions(ctx context.Context, sc scope) (*github.InstallationPermissions, error) {
	granted, err := a.grants(ctx, sc.id)
	if err != nil {
		return nil, err
	}
	chosen := map[string]string{}
	var missing []string
	for name, level := range sc.use.wanted() {
		level, needed := strings.CutPrefix(level, "!")
		has := granted[name]
		switch {
		case rank(has) >= rank(level):
			chosen[name] = level
		case needed:
			missing = append(missing, name+"="+level)
		case has != "":
			chosen[name] = has
		}
	}
	if len(missing) > 0 {
		slices.Sort(missing)
		return nil, &forge.Error{
			Kind: forge.KindDenied, Op: fmt.Sprintf("minting a token for installation %d", sc.id), Status: http.StatusForbidden, Needs: strings.Join(missing, ","),
			Err: fmt.Errorf("App %d lacks it: add it in the App's settings, and accept the change where it is installed", a.app.ID),
		}
	}
	text, err := json.Marshal(chosen)
	if err != nil {
		return nil, fmt.Errorf("encoding permissions: %w", err)
	}
	out := &github.InstallationPermissions{}
	if err := json.Unmarshal(text, out); err != nil {
		return nil, fmt.Errorf("encoding permissions: %w", err)
	}
	return out, nil
}

func rank(level string) int { return slices.Index([]string{"", "read", "write", "admin"}, level) }

// grants are what an installation grants the App, asked once until something
// about it changes.
func (a *appAuth) grants(ctx context.Context, id int64) (map[string]string, error) {
	a.mu.Lock()
	known, ok := a.granted[id]
	a.mu.Unlock()
	if ok {
		return known, nil
	}
	op := fmt.Sprintf("reading the App's installation %d", id)
	var in struct {
		Permissions map[string]string `json:"permissions"`
		Suspended   *time.Time        `json:"suspended_at"`
		Account     struct {
			Login string `json:"login"`
		} `json:"account"`
	}
	err := a.client.get(ctx, request{op: op, path: "app/installations/" + strconv.FormatInt(id, 10), cred: &a.self}, &in)
	switch {
	case forge.IsKind(err, forge.KindNotFound):
		return nil, &forge.Error{Kind: forge.KindNotFound, Op: op, Status: http.StatusNotFound,
			Err: fmt.Errorf("App %d is not installed there any more; install it again, or take its repositories out of the configuration", a.app.ID)}
	case err != nil:
		return nil, err
	case in.Suspended != nil:
		return nil, &forge.Error{Kind: forge.KindDenied, Op: op, Status: http.StatusForbidden,
			Err: fmt.Errorf("the installation of App %d at %s is suspended; unsuspend it in that account's settings", a.app.ID, in.Account.Login)}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.granted[id] = in.Permissions
	return in.Permissions, nil
}

func (a *appAuth) forgetGrants(id int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.granted, id)
}

// inRepo is a token for one repository. A token is asked for by the
// repository's present name, which is looked up when GitHub does not take the
// known one: it may have been renamed.
func (a *appAuth) inRepo(ctx context.Context, id int64, repo forge.Repo, u use, left time.Duration) (secret.Value, error) {
	key := strings.ToLower(repo.String())
	a.mu.Lock()
	name, renamed := a.present[key]
	a.mu.Unlock()
	if !renamed {
		name = repo.Name
	}
	token, err := a.token(ctx, scope{id, name, u}, left)
	if renamed || status(err) != http.StatusUnprocessableEntity {
		return token, err
	}
	now, findErr := a.client.Repository(ctx, repo)
	if findErr != nil || now.Repo.Name == name {
		return token, err
	}
	a.mu.Lock()
	a.present[key] = now.Repo.Name
	a.mu.Unlock()
	return a.token(ctx, scope{id, now.Repo.Name, u}, left)
}
