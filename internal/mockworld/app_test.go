package mockworld_test

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"net/http"
	"testing"
	"time"

	"github.com/pipelinebot/pipelinebot/internal/mockworld"
)

// app adds an app with installation 77 on acme/shop and returns its key.
func (s *site) app() *rsa.PrivateKey {
	s.t.Helper()
	k, err := rsa.GenerateKey(rand.Reader, 2048)
	must(s.t, err)
	der, err := x509.MarshalPKIXPublicKey(&k.PublicKey)
	must(s.t, err)
	must(s.t, s.AddApp(mockworld.AppSpec{ID: 5, ClientID: "Iv1.shop", Slug: "pipe", InstallationID: 77, Repos: []string{"acme/shop"},
		PublicKeyPEM: string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})),
		Permissions:  map[string]string{"issues": "write", "pull_requests": "write", "contents": "write", "checks": "write", "statuses": "write", "metadata": "read"}}))
	return k
}

func (s *site) claims(k *rsa.PrivateKey, claims map[string]any) string {
	s.t.Helper()
	part := func(v any) string {
		b, err := json.Marshal(v)
		must(s.t, err)
		return base64.RawURLEncoding.EncodeToString(b)
	}
	text := part(map[string]string{"alg": "RS256", "typ": "JWT"}) + "." + part(claims)
	sum := sha256.Sum256([]byte(text))
	sig, err := rsa.SignPKCS1v15(rand.Reader, k, crypto.SHA256, sum[:])
	must(s.t, err)
	return text + "." + base64.RawURLEncoding.EncodeToString(sig)
}

func (s *site) jwt(k *rsa.PrivateKey) string {
	now := s.clock.Now()
	return s.claims(k, map[string]any{"iss": "5", "iat": now.Add(-30 * time.Second).Unix(), "exp": now.Add(9 * time.Minute).Unix()})
}

func (s *site) mint(k *rsa.PrivateKey, body any) string {
	s.t.Helper()
	a := s.want(201, "POST", "/app/installations/77/access_tokens", s.jwt(k), body)
	return a.obj()["token"].(string)
}

func TestAppTokens(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
	k := s.app()
	n := s.issue("One")
	other, err := rsa.GenerateKey(rand.Reader, 2048)
	must(t, err)
	now := s.clock.Now().Unix()
	for name, jwt := range map[string]string{
		"other key": s.claims(other, map[string]any{"iss": 5, "iat": now, "exp": now + 60}),
		"expired":   s.claims(k, map[string]any{"iss": 5, "iat": now - 700, "exp": now - 60}),
		"too far":   s.claims(k, map[string]any{"iss": 5, "iat": now, "exp": now + 660}),
		"future":    s.claims(k, map[string]any{"iss": 5, "iat": now + 60, "exp": now + 300}),
		"garbage":   "tok-bot",
	} {
		if a := s.do("GET", "/app", jwt, nil); a.status != http.StatusUnauthorized {
			t.Errorf("%s: got %d, want 401: %s", name, a.status, a.raw)
		}
	}
	s.want(200, "GET", "/app", s.claims(k, map[string]any{"iss": "Iv1.shop", "iat": now, "exp": now + 60}), nil)
	s.want(422, "POST", "/app/installations/77/access_tokens", s.jwt(k), map[string]any{"permissions": map[string]string{"administration": "write"}})
	s.want(422, "POST", "/app/installations/77/access_tokens", s.jwt(k), map[string]any{"repositories": []string{"other"}})
	s.want(404, "POST", "/app/installations/78/access_tokens", s.jwt(k), nil)

	narrow := s.mint(k, map[string]any{"repositories": []string{"shop"}, "permissions": map[string]string{"issues": "read"}})
	a := s.want(403, "POST", "/repos/acme/shop/issues/1/comments", narrow, map[string]any{"body": "x"})
	if got := a.header.Get("X-Accepted-GitHub-Permissions"); got != "issues=write" {
		t.Errorf("accepted permissions: got %q, want issues=write", got)
	}
	full := s.mint(k, nil)
	s.want(403, "GET", "/user", full, nil)
	s.want(201, "POST", "/repos/acme/shop/issues/1/comments", full, map[string]any{"body": "x"})
	if c := s.snap().Issues[n-1].Comments; len(c) != 1 || c[0].Author != "pipe[bot]" {
		t.Errorf("comments: %+v", c)
	}
	s.want(404, "GET", "/repos/acme/shop/collaborators/pipe%5Bbot%5D/permission", full, nil)
	s.clock.Advance(59 * time.Minute)
	s.want(200, "GET", "/repos/acme/shop/issues/1", full, nil)
	s.clock.Advance(time.Minute)
	s.want(401, "GET", "/repos/acme/shop/issues/1", full, nil)
	s.noViolations()
}

func TestAccess(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
	must(t, s.AddRepo(mockworld.RepoSpec{Owner: "acme", Name: "vault", Private: true, Files: map[string]string{"a": "b"}, Roles: map[string]mockworld.Role{"ann": mockworld.RoleAdmin}}))
	must(t, s.AddToken(mockworld.TokenSpec{Token: "tok-old", Login: "ann", Expires: epoch}))
	must(t, s.AddToken(mockworld.TokenSpec{Token: "tok-stranger", Login: "stranger"}))
	must(t, s.AddToken(mockworld.TokenSpec{Token: "tok-bob", Login: "bob"}))
	s.issue("One")
	comment := map[string]any{"body": "hello"}
	for _, c := range []struct {
		why    string
		status int
		method string
		path   string
		token  string
		body   any
	}{
		{"expired", 401, "GET", "/repos/acme/shop", "tok-old", nil},
		{"unknown token", 401, "GET", "/repos/acme/shop", "nope", nil},
		{"public, anonymous", 200, "GET", "/repos/acme/shop/issues", "", nil},
		{"anonymous write", 401, "POST", "/repos/acme/shop/issues/1/comments", "", comment},
		{"private, stranger", 404, "GET", "/repos/acme/vault", "tok-stranger", nil},
		{"private, anonymous", 404, "GET", "/repos/acme/vault", "", nil},
		{"private, token of others", 404, "GET", "/repos/acme/vault/issues", "tok-bot", nil},
		{"private, member", 200, "GET", "/repos/acme/vault", "tok-ann", nil},
		{"stranger comments", 201, "POST", "/repos/acme/shop/issues/1/comments", "tok-stranger", comment},
		{"stranger labels", 403, "POST", "/repos/acme/shop/issues/1/labels", "tok-stranger", []string{"bug"}},
		{"triage labels", 200, "POST", "/repos/acme/shop/issues/1/labels", "tok-bob", []string{"bug"}},
		{"triage makes labels", 403, "POST", "/repos/acme/shop/labels", "tok-bob", map[string]any{"name": "new"}},
		{"author edits", 200, "PATCH", "/repos/acme/shop/issues/1", "tok-rita", map[string]any{"body": "more"}},
		{"stranger edits", 403, "PATCH", "/repos/acme/shop/issues/1", "tok-stranger", map[string]any{"body": "more"}},
		{"reader asks roles", 403, "GET", "/repos/acme/shop/collaborators/ann/permission", "tok-rita", nil},
		{"check run without app", 403, "POST", "/repos/acme/shop/check-runs", "tok-ann", map[string]any{"name": "x"}},
	} {
		if a := s.do(c.method, c.path, c.token, c.body); a.status != c.status {
			t.Errorf("%s: got %d, want %d: %s", c.why, a.status, c.status, a.raw)
		}
	}
	got := s.want(200, "GET", "/repos/acme/shop/collaborators/bob/permission", "tok-bot", nil).obj()
	if got["permission"] != "read" || got["role_name"] != "triage" {
		t.Errorf("triage role: got %v, %v", got["permission"], got["role_name"])
	}
	s.noViolations()
}
