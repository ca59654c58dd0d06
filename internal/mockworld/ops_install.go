package mockworld

import (
	"fmt"
	"slices"
)

// emitApp sends an event about an installation to the hook of its app. Such
// events belong to no repository.
func (w *World) emitApp(a *app, event, action string, by *account, fields obj) {
	w.touch()
	for _, h := range w.hooks {
		if h.spec.AppID != a.id || h.inactive {
			continue // an app hears of itself whatever events its hook names
		}
		payload := obj{"action": action, "installation": w.installationJSON(a), "sender": w.userJSON(by)}
		if owner := w.installedAt(a); owner.typ == Organization {
			payload["organization"] = w.orgJSON(owner)
		}
		for k, v := range fields {
			payload[k] = v
		}
		w.enqueue(h, "", event, action, payload)
	}
}

// briefRepos are repositories as events of installations name them.
func briefRepos(rs []*repository) []any {
	list := []any{}
	for _, r := range rs {
		list = append(list, obj{"id": r.id, "node_id": nodeID("Repository", r.id), "name": r.name, "full_name": r.full(), "private": r.private})
	}
	return list
}

// installedOn are the repositories of an installation, by name.
func (w *World) installedOn(a *app) []*repository {
	var list []*repository
	for _, name := range sortedKeys(w.repos) {
		if r := w.repos[name]; a.repos[r.id] {
			list = append(list, r)
		}
	}
	return list
}

// doApp runs fn on an installed app as an account, under the lock.
func (w *World) doApp(what, slug, actor string, fn func(a *app, by *account) error) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, a := range w.apps {
		if a.slug != slug || a.install == 0 {
			continue
		}
		defer w.touch()
		if err := fn(a, w.account(actor, User)); err != nil {
			return fmt.Errorf("%s app %s as %s: %w", what, slug, actor, err)
		}
		return nil
	}
	return fmt.Errorf("%s app %s: it is installed nowhere", what, slug)
}

// SuspendApp suspends an app's installation: its tokens and minting answer
// 403 until UnsuspendApp.
func (w *World) SuspendApp(slug, actor string) error {
	return w.doApp("suspending", slug, actor, func(a *app, by *account) error {
		w.suspend(a, by)
		return nil
	})
}

// UnsuspendApp ends a suspension.
func (w *World) UnsuspendApp(slug, actor string) error {
	return w.doApp("unsuspending", slug, actor, func(a *app, by *account) error {
		w.unsuspend(a, by)
		return nil
	})
}

// UninstallApp deletes an app's installation: its tokens die and its
// repositories are no longer reached.
func (w *World) UninstallApp(slug, actor string) error {
	return w.doApp("uninstalling", slug, actor, func(a *app, by *account) error {
		w.uninstall(a, by)
		return nil
	})
}

func (w *World) suspend(a *app, by *account) {
	if a.suspendedBy != nil {
		return
	}
	a.suspendedBy, a.suspendedAt = by, w.now()
	w.emitApp(a, "installation", "suspend", by, obj{"repositories": briefRepos(w.installedOn(a))})
}

func (w *World) unsuspend(a *app, by *account) {
	if a.suspendedBy == nil {
		return
	}
	a.suspendedBy = nil
	w.emitApp(a, "installation", "unsuspend", by, obj{"repositories": briefRepos(w.installedOn(a))})
}

func (w *World) uninstall(a *app, by *account) {
	w.emitApp(a, "installation", "deleted", by, obj{"repositories": briefRepos(w.installedOn(a))})
	for _, t := range w.tokens {
		if t.app == a {
			t.revoked = true
		}
	}
	a.install, a.repos = 0, map[int64]bool{}
}

// AddAppRepo gives an installation one more repository.
func (w *World) AddAppRepo(slug, actor, repo string) error {
	return w.doApp("adding "+repo+" to", slug, actor, func(a *app, by *account) error {
		r, err := w.repo(repo)
		if err != nil || a.repos[r.id] {
			return err
		}
		a.repos[r.id] = true
		w.emitApp(a, "installation_repositories", "added", by, installedChange([]*repository{r}, nil))
		return nil
	})
}

// RemoveAppRepo takes a repository from an installation.
func (w *World) RemoveAppRepo(slug, actor, repo string) error {
	return w.doApp("taking "+repo+" from", slug, actor, func(a *app, by *account) error {
		r, err := w.repo(repo)
		if err != nil {
			return err
		}
		w.dropFrom(a, r, by)
		return nil
	})
}

func (w *World) dropFrom(a *app, r *repository, by *account) {
	if !a.repos[r.id] {
		return
	}
	delete(a.repos, r.id)
	w.emitApp(a, "installation_repositories", "removed", by, installedChange(nil, []*repository{r}))
}

func installedChange(added, removed []*repository) obj {
	return obj{"repository_selection": "selected", "repositories_added": briefRepos(added), "repositories_removed": briefRepos(removed), "requester": nil}
}

// emitMember tells that an account's role in a repository was changed.
func (w *World) emitMember(r *repository, a *account, was, now Role) {
	old := map[Role]string{NoRole: "read", RoleRead: "read", RoleTriage: "read", RoleWrite: "write", RoleMaintain: "write", RoleAdmin: "admin"}
	fields := obj{"member": w.userJSON(a)}
	action := "edited"
	switch {
	case was == now:
		return
	case was == NoRole:
		action = "added"
		fields["changes"] = obj{"permission": obj{"to": old[now]}, "role_name": obj{"to": string(now)}}
	case now == NoRole:
		action = "removed"
	default:
		fields["changes"] = obj{"old_permission": obj{"from": old[was]}, "permission": obj{"from": old[was], "to": old[now]}}
	}
	w.emit(r, "member", action, r.owner, fields)
}

// TransferRepo gives a repository to another owner; the old name redirects.
func (w *World) TransferRepo(repo, actor, owner string) error {
	return w.do("transferring", repo, actor, func(r *repository, by *account) error {
		full := owner + "/" + r.name
		if w.repos[key(full)] != nil {
			return fmt.Errorf("%s exists", full)
		}
		from := obj{"user": w.userJSON(r.owner)}
		if r.owner.typ == Organization {
			from = obj{"organization": w.orgJSON(r.owner)}
		}
		w.move(r, w.account(owner, User), r.name)
		w.emit(r, "repository", "transferred", by, obj{"changes": obj{"owner": obj{"from": from}}})
		return nil
	})
}

// move gives a repository another full name.
func (w *World) move(r *repository, owner *account, name string) {
	delete(w.repos, key(r.full()))
	w.moved[key(r.full())] = r
	r.owner, r.name = owner, name
	w.repos[key(r.full())] = r
	delete(w.moved, key(r.full()))
}

// DeleteRepo deletes a repository; it and its old names answer 404 from then
// on.
func (w *World) DeleteRepo(repo, actor string) error {
	return w.do("deleting", repo, actor, func(r *repository, by *account) error {
		w.emit(r, "repository", "deleted", by, nil)
		for _, a := range slices.Clone(w.apps) {
			w.dropFrom(a, r, by)
		}
		delete(w.repos, key(r.full()))
		for name, x := range w.moved {
			if x == r {
				delete(w.moved, name)
			}
		}
		return nil
	})
}
