package mockworld

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
)

// controlPath lies below the prefix, beside api and git.
const controlPath = "/_world/"

// control lets another process look at a served world and act on it where
// GitHub has no API: GET snapshot, requests, deliveries and violations as
// JSON, POST token?login= (a token of that person, for tools that people use),
// redeliver?id=, release?name= and fault (a Fault as JSON). It is
// no part of GitHub: it is neither logged nor limited, and faults spare it.
func (w *World) control(rw http.ResponseWriter, r *http.Request, what string, body []byte) {
	var out any = obj{"ok": true}
	var err error
	switch r.Method + " " + what {
	case "GET snapshot":
		out, err = w.Snapshot()
	case "GET requests":
		out = w.Requests()
	case "GET deliveries":
		out = w.Deliveries()
	case "GET violations":
		out = append([]string{}, w.Violations()...)
	case "POST token":
		var secret string
		if secret, err = w.personToken(r.URL.Query().Get("login")); err == nil {
			out = obj{"token": secret}
		}
	case "POST redeliver":
		var id int64
		if id, err = strconv.ParseInt(r.URL.Query().Get("id"), 10, 64); err == nil {
			err = w.Redeliver(id)
		}
	case "POST release":
		err = w.Release(r.URL.Query().Get("name"))
	case "POST fault":
		var f Fault
		if err = json.Unmarshal(body, &f); err == nil {
			err = w.AddFault(f)
		}
	default:
		http.NotFound(rw, r)
		return
	}
	if err != nil {
		http.Error(rw, err.Error(), http.StatusBadRequest)
		return
	}
	rw.Header().Set("Content-Type", "application/json")
	// A client that is gone is its own affair.
	_ = json.NewEncoder(rw).Encode(out)
}

// personToken makes a classic token of an account that is there.
func (w *World) personToken(login string) (string, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	a := w.accounts[key(login)]
	if a == nil || a.typ != User {
		var people []string
		for _, name := range sortedKeys(w.accounts) {
			if w.accounts[name].typ == User {
				people = append(people, w.accounts[name].login)
			}
		}
		return "", fmt.Errorf("a token of %q: no such person; there are %s", login, strings.Join(people, ", "))
	}
	w.tokenSeq++
	sum := sha256.Sum256(fmt.Appendf(nil, "person %d %d", a.id, w.tokenSeq))
	secret := "ghp_" + hex.EncodeToString(sum[:])[:36]
	w.tokens[secret] = &token{secret: secret, account: a, classic: true, scopes: []string{"repo", "workflow"}}
	return secret, nil
}
