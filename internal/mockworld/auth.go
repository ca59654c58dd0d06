package mockworld

import (
	"crypto"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// secretOf is the token that a request presents: Bearer, token, or the
// password (or, without one, the user) of Basic.
func secretOf(r *http.Request) string {
	h := r.Header.Get("Authorization")
	scheme, rest, _ := strings.Cut(h, " ")
	switch strings.ToLower(scheme) {
	case "bearer", "token":
		return strings.TrimSpace(rest)
	case "basic":
		if user, pass, ok := r.BasicAuth(); ok {
			if pass == "" || pass == "x-oauth-basic" {
				return user
			}
			return pass
		}
	}
	return ""
}

func badCredentials() *apiErr { return refuse(http.StatusUnauthorized, "Bad credentials") }

// identity is the key of rate limits: an account, an app, or nobody.
func (w *World) identity(c *call) string {
	switch {
	case c.by != nil:
		return "account " + strconv.FormatInt(c.by.id, 10)
	case c.r.Header.Get("Authorization") != "":
		return "unknown credentials"
	}
	return ""
}

// authenticate refuses credentials that are there but no good.
func (w *World) authenticate(c *call) error {
	if c.r.Header.Get("Authorization") == "" {
		return nil
	}
	if c.tok == nil || !w.alive(c.tok) {
		return badCredentials()
	}
	if c.tok.app != nil && c.tok.app.suspendedBy != nil {
		return suspended()
	}
	return nil
}

func (w *World) alive(t *token) bool {
	return !t.revoked && !t.account.deleted && (t.expires.IsZero() || w.clock.Now().Before(t.expires))
}

// jwtApp verifies an app's JWT (RS256, at most ten minutes long) and returns
// the app.
func (w *World) jwtApp(c *call) (*app, error) {
	secret := secretOf(c.r)
	if secret == "" {
		return nil, refuse(http.StatusUnauthorized, "A JSON web token could not be decoded")
	}
	parts := strings.Split(secret, ".")
	if len(parts) != 3 {
		return nil, refuse(http.StatusUnauthorized, "A JSON web token could not be decoded")
	}
	var head struct {
		Alg string `json:"alg"`
	}
	var claims struct {
		Iss any     `json:"iss"`
		Iat float64 `json:"iat"`
		Exp float64 `json:"exp"`
	}
	sig, err := base64.RawURLEncoding.DecodeString(parts[2])
	if err != nil || !decodePart(parts[0], &head) || !decodePart(parts[1], &claims) || head.Alg != "RS256" {
		return nil, refuse(http.StatusUnauthorized, "A JSON web token could not be decoded")
	}
	iss := fmt.Sprint(claims.Iss)
	if f, ok := claims.Iss.(float64); ok {
		iss = strconv.FormatInt(int64(f), 10)
	}
	sum := sha256.Sum256([]byte(parts[0] + "." + parts[1]))
	for _, a := range w.apps {
		if strconv.FormatInt(a.id, 10) != iss && (a.clientID == "" || a.clientID != iss) {
			continue
		}
		pub, ok := a.key.(*rsa.PublicKey)
		if !ok || rsa.VerifyPKCS1v15(pub, crypto.SHA256, sum[:], sig) != nil {
			return nil, refuse(http.StatusUnauthorized, "A JSON web token could not be decoded")
		}
		now := w.opts.JWTClock.Now()
		iat, exp := time.Unix(int64(claims.Iat), 0), time.Unix(int64(claims.Exp), 0)
		switch {
		case claims.Exp == 0:
			return nil, refuse(http.StatusUnauthorized, "Missing 'exp' claim in assertion")
		case claims.Iat == 0 || iat.After(now.Add(time.Second)):
			return nil, refuse(http.StatusUnauthorized, "'Issued at' claim ('iat') must be an Integer representing the time that the assertion was issued")
		case !exp.After(now):
			return nil, refuse(http.StatusUnauthorized, "'Expiration time' claim ('exp') must be a numeric value representing the future time at which the assertion expires")
		case exp.After(now.Add(10*time.Minute + time.Second)):
			return nil, refuse(http.StatusUnauthorized, "'Expiration time' claim ('exp') is too far in the future")
		}
		return a, nil
	}
	return nil, refuse(http.StatusNotFound, "Integration not found")
}

func decodePart(s string, v any) bool {
	b, err := base64.RawURLEncoding.DecodeString(s)
	return err == nil && json.Unmarshal(b, v) == nil
}

// granted says whether a token carries a permission at a level for a
// repository. A classic token carries what its account's role allows.
func (w *World) granted(t *token, r *repository, perm, level string) bool {
	if t == nil {
		return false
	}
	if r != nil && !w.reaches(t, r) {
		return false
	}
	if t.classic {
		if perm == "workflows" {
			return oneOf("workflow", t.scopes...)
		}
		if r != nil && r.private {
			return oneOf("repo", t.scopes...)
		}
		return level == "read" || oneOf("repo", t.scopes...) || oneOf("public_repo", t.scopes...)
	}
	have := t.perms[perm]
	if t.app != nil && !covers(t.app.perms[perm], have) {
		have = t.app.perms[perm]
	}
	if perm == "metadata" {
		have = "read"
	}
	return covers(have, level)
}

func covers(have, want string) bool {
	levels := map[string]int{"": 0, "read": 1, "write": 2, "admin": 3}
	return levels[have] >= levels[want]
}

// reaches says whether a token was given a repository.
func (w *World) reaches(t *token, r *repository) bool {
	if t.app != nil && !t.app.repos[r.id] {
		return false
	}
	return t.repos == nil || t.repos[r.id]
}

// visible says whether the caller may know that a repository exists.
func (w *World) visible(c *call, r *repository) bool {
	if !r.private {
		return true
	}
	return c.tok != nil && w.canSee(r, c.by) && w.reaches(c.tok, r) && (!c.tok.classic || oneOf("repo", c.tok.scopes...))
}

// need refuses when the token lacks a permission, naming what would do.
func (w *World) need(c *call, perm, level string) error {
	if level == "read" && c.repo != nil && !c.repo.private && perm != "administration" {
		return nil
	}
	if c.tok == nil {
		return refuse(http.StatusUnauthorized, "Requires authentication")
	}
	if w.granted(c.tok, c.repo, perm, level) {
		return nil
	}
	message := "Resource not accessible by personal access token"
	if c.tok.app != nil {
		message = "Resource not accessible by integration"
	} else if c.tok.classic {
		return notFound()
	}
	e := refuse(http.StatusForbidden, "%s", message)
	e.header = http.Header{"X-Accepted-Github-Permissions": {perm + "=" + level}}
	return e
}

// needRole refuses when the account's role is too weak.
func (w *World) needRole(c *call, min Role) error {
	if w.atLeast(c.repo, c.by, min) {
		return nil
	}
	return refuse(http.StatusForbidden, "Must have admin rights to Repository.")
}
