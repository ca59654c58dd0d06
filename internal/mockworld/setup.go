package mockworld

import (
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
)

// AddUser adds an account; one that exists under the login is an error,
// except that an account made on the way (owner, role, author) may be added
// once more with the same type.
func (w *World) AddUser(login string, typ UserType) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if a := w.accounts[key(login)]; a != nil {
		if a.typ == typ {
			return nil
		}
		return fmt.Errorf("adding user %s: it exists as %s", login, a.typ)
	}
	w.account(login, typ)
	return nil
}

// account finds or makes an account; the lock is held.
func (w *World) account(login string, typ UserType) *account {
	a := w.accounts[key(login)]
	if a == nil {
		if strings.HasSuffix(login, "[bot]") {
			typ = Bot
		}
		a = &account{id: next(&w.ids.user), login: login, typ: typ}
		w.accounts[key(login)] = a
	}
	return a
}

// DeleteUser deletes an account: its issues and comments stay, with a null
// user.
func (w *World) DeleteUser(login string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	a := w.accounts[key(login)]
	if a == nil {
		return fmt.Errorf("deleting user %s: no such account", login)
	}
	a.deleted = true
	delete(w.accounts, key(login))
	for _, r := range w.repos {
		delete(r.roles, key(login))
	}
	w.touch()
	return nil
}

// AddRepo adds a repository with its bare git repository, first commits,
// labels and roles.
func (w *World) AddRepo(s RepoSpec) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if s.Owner == "" || s.Name == "" {
		return errors.New("adding a repository: owner and name are needed")
	}
	if strings.ContainsAny(s.Owner+s.Name, "/\\ :") || s.Owner[0] == '.' || s.Name[0] == '.' {
		return fmt.Errorf("adding repository %s/%s: not a name GitHub allows", s.Owner, s.Name)
	}
	full := s.Owner + "/" + s.Name
	if w.repos[key(full)] != nil {
		return fmt.Errorf("adding repository %s: it exists", full)
	}
	if s.DefaultBranch == "" {
		s.DefaultBranch = "main"
	}
	g, err := w.newGit(s.Owner, s.Name, s.DefaultBranch)
	if err != nil {
		return err
	}
	r := &repository{
		id: next(&w.ids.repo), owner: w.account(s.Owner, Organization), name: s.Name, private: s.Private,
		defaultBranch: s.DefaultBranch, created: w.now(), pushed: w.now(), nextNumber: 1,
		issues: map[int]*issue{}, comments: map[int64]*comment{}, roles: map[string]Role{},
		refs: map[string]string{}, git: g,
	}
	commits := s.Commits
	if len(s.Files) > 0 {
		commits = append([]CommitSpec{{Message: "First commit", Files: s.Files}}, commits...)
	}
	for _, c := range commits {
		sha, err := w.commit(r, c)
		if err != nil {
			return fmt.Errorf("adding repository %s: %w", full, err)
		}
		if c.Branch == "" {
			c.Branch = r.defaultBranch
		}
		r.refs["refs/heads/"+c.Branch] = sha
	}
	for _, l := range s.Labels {
		if _, err := w.newLabel(r, l); err != nil {
			return err
		}
	}
	for _, login := range sortedKeys(s.Roles) {
		if err := w.setRole(r, login, s.Roles[login]); err != nil {
			return err
		}
	}
	w.repos[key(full)] = r
	w.touch()
	return nil
}

// SetRole gives an account a role in a repository; NoRole takes it away.
func (w *World) SetRole(repo, login string, role Role) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	r, err := w.repo(repo)
	if err != nil {
		return err
	}
	was := NoRole
	if has, ok := r.roles[key(login)]; ok {
		was = has
	}
	if err := w.setRole(r, login, role); err != nil {
		return err
	}
	w.emitMember(r, w.account(login, User), was, role)
	return nil
}

func (w *World) setRole(r *repository, login string, role Role) error {
	if rank(role) < 0 {
		return fmt.Errorf("giving %s a role in %s: role %q: want none, read, triage, write, maintain or admin", login, r.full(), role)
	}
	w.account(login, User)
	if role == NoRole {
		delete(r.roles, key(login))
		return nil
	}
	r.roles[key(login)] = role
	return nil
}

func rank(role Role) int {
	for i, r := range []Role{NoRole, RoleRead, RoleTriage, RoleWrite, RoleMaintain, RoleAdmin} {
		if r == role {
			return i
		}
	}
	return -1
}

// repo finds a repository by "owner/name", by its present name only; the
// lock is held.
func (w *World) repo(full string) (*repository, error) {
	if r := w.repos[key(full)]; r != nil {
		return r, nil
	}
	return nil, fmt.Errorf("repository %q: no such repository", full)
}

func (w *World) repoSet(names []string) (map[int64]bool, error) {
	if names == nil {
		return nil, nil
	}
	set := map[int64]bool{}
	for _, n := range names {
		r, err := w.repo(n)
		if err != nil {
			return nil, err
		}
		set[r.id] = true
	}
	return set, nil
}

// AddToken adds a personal access token; its account is added if missing.
func (w *World) AddToken(s TokenSpec) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if s.Token == "" || s.Login == "" {
		return errors.New("adding a token: token and login are needed")
	}
	if w.tokens[s.Token] != nil {
		return fmt.Errorf("adding a token of %s: it exists", s.Login)
	}
	repos, err := w.repoSet(s.Repos)
	if err != nil {
		return fmt.Errorf("adding a token of %s: %w", s.Login, err)
	}
	if err := checkPermissions(s.Permissions); err != nil {
		return fmt.Errorf("adding a token of %s: %w", s.Login, err)
	}
	t := &token{secret: s.Token, account: w.account(s.Login, User), perms: s.Permissions, repos: repos, expires: s.Expires}
	if t.perms == nil {
		t.classic, t.scopes = true, s.Scopes
		if t.scopes == nil {
			t.scopes = []string{"repo"}
		}
	}
	w.tokens[s.Token] = t
	return nil
}

func checkPermissions(p map[string]string) error {
	for _, name := range sortedKeys(p) {
		if v := p[name]; v != "read" && v != "write" && v != "admin" {
			return fmt.Errorf("permission %s: %q: want read or write", name, v)
		}
	}
	return nil
}

// RevokeToken makes a token (personal or minted) answer 401 from now on.
func (w *World) RevokeToken(secret string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	t := w.tokens[secret]
	if t == nil {
		return errors.New("revoking a token: no such token")
	}
	t.revoked = true
	return nil
}

// AddApp adds a GitHub App, its bot account and its installation.
func (w *World) AddApp(s AppSpec) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if s.ID <= 0 || s.Slug == "" || s.InstallationID <= 0 {
		return errors.New("adding an app: id, slug and installation id are needed")
	}
	pub, err := parseRSAPublic(s.PublicKeyPEM)
	if err != nil {
		return fmt.Errorf("adding app %s: %w", s.Slug, err)
	}
	for _, a := range w.apps {
		if a.id == s.ID || a.slug == s.Slug || a.install == s.InstallationID {
			return fmt.Errorf("adding app %s: id, slug or installation is taken", s.Slug)
		}
	}
	if err := checkPermissions(s.Permissions); err != nil {
		return fmt.Errorf("adding app %s: %w", s.Slug, err)
	}
	names := s.Repos
	if names == nil {
		names = []string{}
	}
	repos, err := w.repoSet(names)
	if err != nil {
		return fmt.Errorf("adding app %s: %w", s.Slug, err)
	}
	w.apps = append(w.apps, &app{
		id: s.ID, clientID: s.ClientID, slug: s.Slug, account: w.account(s.Slug+"[bot]", Bot),
		perms: s.Permissions, key: pub, install: s.InstallationID, repos: repos, created: w.now(),
	})
	return nil
}

func parseRSAPublic(text string) (*rsa.PublicKey, error) {
	block, _ := pem.Decode([]byte(text))
	if block == nil {
		return nil, errors.New("public key: not PEM")
	}
	if k, err := x509.ParsePKCS1PublicKey(block.Bytes); err == nil {
		return k, nil
	}
	k, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("public key: %w", err)
	}
	pub, ok := k.(*rsa.PublicKey)
	if !ok {
		return nil, fmt.Errorf("public key: %T, want RSA", k)
	}
	return pub, nil
}

// SetAppPermissions changes what an app's installation grants; tokens minted
// before keep what they were given, narrowed to it.
func (w *World) SetAppPermissions(slug string, permissions map[string]string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := checkPermissions(permissions); err != nil {
		return fmt.Errorf("changing the permissions of app %s: %w", slug, err)
	}
	for _, a := range w.apps {
		if a.slug == slug {
			a.perms = permissions
			if a.install != 0 {
				w.emitApp(a, "installation", "new_permissions_accepted", w.installedAt(a), nil)
			}
			return nil
		}
	}
	return fmt.Errorf("changing the permissions of app %s: no such app", slug)
}

// AddLabel adds a label to a repository.
func (w *World) AddLabel(repo string, l LabelSpec) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	r, err := w.repo(repo)
	if err != nil {
		return err
	}
	if r.label(l.Name) != nil {
		return fmt.Errorf("adding label %q to %s: it exists", l.Name, repo)
	}
	_, err = w.newLabel(r, l)
	w.touch()
	return err
}

func (w *World) newLabel(r *repository, l LabelSpec) (*label, error) {
	if l.Name == "" || len([]rune(l.Name)) > maxLabelName {
		return nil, fmt.Errorf("adding label %q to %s: 1 to %d characters", l.Name, r.full(), maxLabelName)
	}
	if l.Color == "" {
		l.Color = "ededed"
	}
	nl := &label{id: next(&w.ids.label), name: l.Name, color: l.Color, description: l.Description}
	r.labels = append(r.labels, nl)
	return nl, nil
}

// AddHook adds a webhook, sends it a ping, and returns its id.
func (w *World) AddHook(s HookSpec) (int64, error) {
	if err := hookAddress(s.URL); err != nil {
		return 0, fmt.Errorf("adding a hook to %q: %w", s.URL, err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return 0, errClosed
	}
	if s.Repo != "" {
		if _, err := w.repo(s.Repo); err != nil {
			return 0, fmt.Errorf("adding a hook: %w", err)
		}
	}
	if s.AppID != 0 && w.appByID(s.AppID) == nil {
		return 0, fmt.Errorf("adding a hook: app %d: no such app", s.AppID)
	}
	h := w.startHook(s)
	w.ping(h)
	return h.id, nil
}

// hookAddress refuses what is not on this machine.
func hookAddress(address string) error {
	u, err := url.Parse(address)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") {
		return errors.New("want an http address")
	}
	if ip := net.ParseIP(u.Hostname()); u.Hostname() != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return errors.New("only loopback addresses are called")
	}
	return nil
}

func (w *World) startHook(s HookSpec) *hookEntry {
	h := &hookEntry{id: next(&w.ids.other), spec: s, wake: make(chan struct{}, 1), created: w.now()}
	w.hooks = append(w.hooks, h)
	w.wg.Add(1)
	go w.deliverLoop(h)
	return h
}

func (w *World) appByID(id int64) *app {
	for _, a := range w.apps {
		if a.id == id {
			return a
		}
	}
	return nil
}
