package gh

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/pipelinebot/pipelinebot/internal/forge"
)

// maxRedirects is how often an address may have moved.
const maxRedirects = 5

// pinned follows a redirect only within the API's scheme and host, and only
// with the method unchanged. net/http would send the token to another host of
// the same domain, and turn a PATCH answered 301 into a GET whose 200 looks as
// if something had been written.
func pinned(base *url.URL) func(*http.Request, []*http.Request) error {
	return func(next *http.Request, via []*http.Request) error {
		first := via[0]
		switch {
		case next.Method != first.Method:
			return &forge.Error{Kind: forge.KindInvalid, Err: fmt.Errorf(
				"refused a redirect that turns %s into %s; nothing was changed. The repository has probably moved: use its new name",
				first.Method, next.Method)}
		case !sameHost(base, next.URL):
			return &forge.Error{Kind: forge.KindInvalid, Err: fmt.Errorf(
				"refused a redirect to %s://%s: the token is only for %s://%s",
				next.URL.Scheme, next.URL.Host, base.Scheme, base.Host)}
		case len(via) > maxRedirects:
			return &forge.Error{Kind: forge.KindInvalid, Err: fmt.Errorf("gave up after %d redirects", maxRedirects)}
		}
		return nil
	}
}

// sameHost compares scheme, host and port; a port left out is the scheme's.
func sameHost(a, b *url.URL) bool {
	return strings.EqualFold(a.Scheme, b.Scheme) && strings.EqualFold(a.Hostname(), b.Hostname()) && port(a) == port(b)
}

func port(u *url.URL) string {
	if p := u.Port(); p != "" {
		return p
	}
	if strings.EqualFold(u.Scheme, "https") {
		return "443"
	}
	return "80"
}
