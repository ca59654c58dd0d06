package gh_test

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pipelinebot/pipelinebot/internal/forge"
	"github.com/pipelinebot/pipelinebot/internal/gh"
	"github.com/pipelinebot/pipelinebot/internal/secret"
)

// rsaKey is one key for all tests: making one is slow.
var rsaKey = sync.OnceValue(func() *rsa.PrivateKey {
	k, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err)
	}
	return k
})

func privatePEM() string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(rsaKey())}))
}

func publicPEM() string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "RSA PUBLIC KEY", Bytes: x509.MarshalPKCS1PublicKey(&rsaKey().PublicKey)}))
}

// appFake mints numbered tokens of an hour for installation 11 and refuses
// those in revoked.
type appFake struct {
	*fake
	clock   *hasty
	mu      sync.Mutex
	minted  int
	revoked map[string]bool
}

func newAppFake(t *testing.T) *appFake {
	a := &appFake{fake: newFake(t), clock: &hasty{now: time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)}, revoked: map[string]bool{}}
	a.json("GET repos/acme/widgets/installation", 200, `{"id":11}`)
	a.json("GET app/installations/11", 200, `{"id":11,"account":{"login":"acme"},"permissions":{"metadata":"read","issues":"write","contents":"write","pull_requests":"write","checks":"write"}}`)
	a.on("POST app/installations/11/access_tokens", func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasPrefix(r.Header.Get("Authorization"), "Bearer ey") {
			t.Errorf("minting with %q", r.Header.Get("Authorization"))
		}
		a.mu.Lock()
		a.minted++
		n := a.minted
		a.mu.Unlock()
		reply(201, fmt.Sprintf(`{"token":"ghs_%036d","expires_at":%q}`, n, a.clock.Now().Add(time.Hour).Format(time.RFC3339)))(w, r)
	})
	a.on("GET repos/acme/widgets", func(w http.ResponseWriter, r *http.Request) {
		a.mu.Lock()
		bad := a.revoked[r.Header.Get("Authorization")]
		a.mu.Unlock()
		if bad {
			reply(401, `{"message":"Bad credentials"}`)(w, r)
			return
		}
		reply(200, `{"id":1,"full_name":"acme/widgets"}`)(w, r)
	})
	return a
}

func (a *appFake) app(change ...func(*gh.Options)) *gh.Client {
	return a.client(append([]func(*gh.Options){func(o *gh.Options) {
		o.Token, o.App, o.Clock = secret.Value{}, &gh.App{ID: 3, Key: secret.New(privatePEM())}, a.clock
	}}, change...)...)
}

func (a *appFake) mints() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.minted
}

func TestInstallationTokensAreMintedBeforeTheyEnd(t *testing.T) {
	t.Parallel()
	a := newAppFake(t)
	c := a.app()
	read := func(want int) {
		t.Helper()
		if _, err := c.Repository(t.Context(), repo); err != nil {
			t.Fatal(err)
		}
		if a.mints() != want {
			t.Errorf("%d tokens minted, want %d", a.mints(), want)
		}
	}
	read(1)
	read(1)
	a.clock.advance(57 * time.Minute)
	read(1)
	a.clock.advance(2 * time.Minute)
	read(2)
}

func TestATokenForGitLivesLongEnoughAndIsScrubbed(t *testing.T) {
	t.Parallel()
	a := newAppFake(t)
	scrub := secret.NewScrubber()
	c := a.app(func(o *gh.Options) { o.Scrubber = scrub })
	first, err := c.GitToken(t.Context(), repo)
	if err != nil {
		t.Fatal(err)
	}
	a.clock.advance(49 * time.Minute)
	second, _ := c.GitToken(t.Context(), repo)
	a.clock.advance(2 * time.Minute)
	third, _ := c.GitToken(t.Context(), repo)
	if first.Reveal() != second.Reveal() || second.Reveal() == third.Reveal() {
		t.Errorf("tokens %q %q %q", first.Reveal(), second.Reveal(), third.Reveal())
	}
	if got := scrub.Scrub("x " + strings.TrimPrefix(third.Reveal(), "") + " y"); got != "x **** y" {
		t.Errorf("scrubbed to %q", got)
	}
	for _, s := range a.requests() {
		if s.Method == http.MethodPost && s.Body != `{"repositories":["widgets"],"permissions":{"contents":"write","metadata":"read"}}` {
			t.Errorf("minted for %s: git's token is for the one repository", s.Body)
		}
	}
}

// What reads has a token that reads, what writes one for the one repository,
// with no more than the installation grants.
func TestATokenHasNoMoreThanItsUseNeeds(t *testing.T) {
	t.Parallel()
	a := newAppFake(t)
	a.json("POST repos/acme/widgets/issues/7/comments", 201, `{"id":1}`)
	c := a.app()
	if _, err := c.Repository(t.Context(), repo); err != nil {
		t.Fatal(err)
	}
	if _, err := c.AddComment(t.Context(), ref, "x"); err != nil {
		t.Fatal(err)
	}
	var minted []string
	for _, s := range a.requests() {
		if s.Path == "app/installations/11/access_tokens" {
			minted = append(minted, s.Body)
		}
	}
	want := []string{
		`{"permissions":{"checks":"read","contents":"read","issues":"read","metadata":"read","pull_requests":"read"}}`,
		`{"repositories":["widgets"],"permissions":{"checks":"write","contents":"read","issues":"write","metadata":"read","pull_requests":"write"}}`,
	}
	if diff := cmp.Diff(want, minted); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// What keeps an App from working is named before anything is tried.
func TestAnInstallationThatCannotWorkSaysWhy(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		code       int
		body, want string
		kind       forge.Kind
	}{
		{200, `{"account":{"login":"acme"},"suspended_at":"2026-01-01T00:00:00Z"}`, "at acme is suspended; unsuspend it", forge.KindDenied},
		{404, `{"message":"Not Found"}`, "not installed there any more; install it again", forge.KindNotFound},
		{200, `{"permissions":{"metadata":"read","issues":"read"}}`, "needs permission issues=write: App 3 lacks it: add it in the App's settings", forge.KindDenied},
	} {
		a := newAppFake(t)
		a.json("GET app/installations/11", c.code, c.body)
		_, err := a.app().AddComment(t.Context(), ref, "x")
		if !forge.IsKind(err, c.kind) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got %v, want %s", err, c.want)
		}
	}
}

// A repository that was renamed is asked for by its present name.
func TestATokenForARenamedRepository(t *testing.T) {
	t.Parallel()
	a := newAppFake(t)
	mint := a.routes["POST app/installations/11/access_tokens"]
	a.on("POST app/installations/11/access_tokens", func(w http.ResponseWriter, r *http.Request) {
		requests := a.requests()
		if strings.Contains(requests[len(requests)-1].Body, `"widgets"`) {
			reply(422, `{"message":"There is at least one repository that does not exist"}`)(w, r)
			return
		}
		mint(w, r)
	})
	a.json("GET repos/acme/widgets", 200, `{"id":1,"full_name":"acme/gadgets"}`)
	c := a.app()
	for range 2 {
		if _, err := c.GitToken(t.Context(), repo); err != nil {
			t.Fatal(err)
		}
	}
	if n := strings.Count(strings.Join(a.lines(), "\n"), `"widgets"`); n != 1 {
		t.Errorf("asked %d times by the old name, want once", n)
	}
}

func TestARevokedTokenIsReplacedOnce(t *testing.T) {
	t.Parallel()
	a := newAppFake(t)
	c := a.app()
	if _, err := c.Repository(t.Context(), repo); err != nil {
		t.Fatal(err)
	}
	a.mu.Lock()
	a.revoked[fmt.Sprintf("Bearer ghs_%036d", 1)] = true
	a.mu.Unlock()
	if _, err := c.Repository(t.Context(), repo); err != nil || a.mints() != 2 {
		t.Errorf("%d tokens, %v", a.mints(), err)
	}
	a.mu.Lock()
	a.revoked[fmt.Sprintf("Bearer ghs_%036d", 2)] = true
	a.revoked[fmt.Sprintf("Bearer ghs_%036d", 3)] = true
	a.mu.Unlock()
	if _, err := c.Repository(t.Context(), repo); !forge.IsKind(err, forge.KindDenied) || a.mints() != 3 {
		t.Errorf("%d tokens, %v", a.mints(), err)
	}
}

func TestManyAtOnceMintOneToken(t *testing.T) {
	t.Parallel()
	a := newAppFake(t)
	c := a.app()
	var group sync.WaitGroup
	for range 20 {
		group.Go(func() {
			if _, err := c.Repository(t.Context(), repo); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if a.mints() != 1 {
		t.Errorf("%d tokens minted, want 1", a.mints())
	}
}

func TestAnAppThatIsNotInstalledSaysSo(t *testing.T) {
	t.Parallel()
	a := newAppFake(t)
	a.json("GET repos/acme/widgets/installation", 404, `{}`)
	_, err := a.app().Repository(t.Context(), repo)
	if !forge.IsKind(err, forge.KindNotFound) || !strings.Contains(err.Error(), "not installed on acme/widgets") {
		t.Errorf("got %v", err)
	}
}

func TestMintingIsClassified(t *testing.T) {
	t.Parallel()
	a := newAppFake(t)
	a.json("POST app/installations/11/access_tokens", 429, `{}`, "Retry-After", "77")
	_, err := a.app().AddComment(t.Context(), ref, "x")
	if !forge.IsKind(err, forge.KindRateLimited) || !strings.Contains(err.Error(), "minting a token for installation 11") {
		t.Errorf("got %v", err)
	}
}

func TestAnAppKnowsItselfItsRepositoriesAndItsChecks(t *testing.T) {
	t.Parallel()
	a := newAppFake(t)
	a.json("GET app", 200, `{"id":3,"slug":"pipelinebot"}`)
	a.json("GET app/installations", 200, `[{"id":11},{"id":12,"suspended_at":"2026-01-01T00:00:00Z"}]`)
	a.json("GET users/pipelinebot%5Bbot%5D", 200, `{"id":99,"login":"pipelinebot[bot]","type":"Bot"}`)
	a.json("GET installation/repositories", 200, `{"total_count":2,"repositories":[{"id":1,"full_name":"acme/widgets"},{"id":2,"full_name":"acme/old","archived":true}]}`)
	c := a.app()
	if got, err := c.Self(t.Context()); err != nil || got != (forge.Actor{ID: 99, Login: "pipelinebot[bot]", Bot: true}) {
		t.Errorf("self: %+v, %v", got, err)
	}
	if got, err := c.Repositories(t.Context()); err != nil || len(got) != 1 || got[0].Repo != repo {
		t.Errorf("repositories: %+v, %v", got, err)
	}
	const runs = "GET repos/acme/widgets/commits/abc/check-runs"
	a.on(runs, each(reply(200, `{"check_runs":[{"id":1,"name":"pipelinebot/review","app":{"id":4}}]}`), reply(200, `{"check_runs":[{"id":8,"name":"pipelinebot/review","app":{"id":3}}]}`)))
	a.json("POST repos/acme/widgets/check-runs", 201, `{}`)
	a.json("PATCH repos/acme/widgets/check-runs/8", 200, `{}`)
	for _, conclusion := range []string{"", "success"} {
		if err := c.PutCheck(t.Context(), repo, gh.CheckRun{Name: "pipelinebot/review", SHA: "abc", Conclusion: conclusion, Title: "T", Summary: "S"}); err != nil {
			t.Error(err)
		}
	}
	lines := strings.Join(a.lines(), "\n")
	for _, want := range []string{
		`POST repos/acme/widgets/check-runs {"name":"pipelinebot/review","head_sha":"abc","status":"in_progress","output":{"title":"T","summary":"S"}}`,
		`PATCH repos/acme/widgets/check-runs/8 {"name":"pipelinebot/review","status":"completed","conclusion":"success","output":{"title":"T","summary":"S"}}`,
	} {
		if !strings.Contains(lines, want) {
			t.Errorf("missing %s in\n%s", want, lines)
		}
	}
}
