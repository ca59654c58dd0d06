package gh

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-github/v66/github"

	"github.com/pipelinebot/pipelinebot/internal/forge"
)

func TestNextLink(t *testing.T) {
	t.Parallel()
	tests := []struct{ header, want string }{
		{``, ``},
		{`<https://h/a?page=2>; rel="next"`, `https://h/a?page=2`},
		{`<https://h/a?page=1>; rel="prev", <https://h/a?after=x,y;z>; rel="next", <https://h/z>; rel="last"`, `https://h/a?after=x,y;z`},
		{`<https://h/a>; title="a, b"; rel=next`, `https://h/a`},
		{`<https://h/a>; rel="last next"`, `https://h/a`},
		{`<https://h/a>; REL="NEXT"`, `https://h/a`},
		{`<https://h/a>; rel="nextish"`, ``},
		{`<https://h/a; rel="next"`, ``},
		{`https://h/a; rel="next"`, ``},
	}
	for _, tt := range tests {
		if got := nextLink(http.Header{"Link": {tt.header}}); got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.header, got, tt.want)
		}
	}
}

func FuzzNextLink(f *testing.F) {
	f.Add(`<https://h/a?page=2>; rel="next", <https://h/z>; rel="last"`)
	f.Add(`<<>;rel=next<`)
	f.Fuzz(func(t *testing.T, header string) {
		if got := nextLink(http.Header{"Link": {header}}); !strings.Contains(header, "<"+got+">") && got != "" {
			t.Errorf("%q was made up", got)
		}
	})
}

func FuzzClassify(f *testing.F) {
	f.Add(403, "60", "0", "1796040600", `{"message":"m","errors":[{"code":"already_exists"},"text"]}`)
	f.Add(422, "", "", "", `{"errors":"one"}`)
	f.Add(429, "Mon, 30 Nov 2026 12:00:00 GMT", "", "", `[]`)
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, code int, after, remaining, reset, body string) {
		if code < 300 || code > 599 {
			t.Skip()
		}
		h := http.Header{"Retry-After": {after}, "X-Ratelimit-Remaining": {remaining}, "X-Ratelimit-Reset": {reset}}
		e := classify(&http.Response{StatusCode: code, Header: h}, []byte(body), now)
		switch {
		case e.Kind == "" || e.Status != code || len(e.Error()) > 4000:
			t.Errorf("got %+v", e)
		case e.Kind == forge.KindRateLimited && e.RetryAfter < time.Second:
			t.Errorf("waits %s", e.RetryAfter)
		case e.RetryAfter < 0:
			t.Errorf("waits %s", e.RetryAfter)
		}
	})
}

func FuzzCloses(f *testing.F) {
	f.Add("Fixes #7 and closes acme/widgets#8", 7)
	f.Add("resolve https://h/acme/widgets/issues/7", 7)
	f.Fuzz(func(t *testing.T, body string, number int) {
		ref := forge.Ref{Repo: forge.Repo{Owner: "acme", Name: "widgets"}, Number: number}
		if closes(body, ref) && number < 0 {
			t.Errorf("%q closes %d", body, number)
		}
	})
}

func FuzzDecodeIssue(f *testing.F) {
	f.Add(`[{"number":1,"labels":[null,{"name":null}],"user":null}]`)
	f.Fuzz(func(_ *testing.T, body string) {
		var all []github.Issue
		if decode("reading", []byte(body), &all) == nil {
			for i := range all {
				issue(forge.Repo{}, &all[i])
			}
		}
	})
}

func TestTheCacheIsBounded(t *testing.T) {
	t.Parallel()
	c := newETags(nil)
	big := make([]byte, etagBodyBytes)
	for i := range 40 {
		c.put(&tagged{key: strings.Repeat("k", i+1), body: big})
	}
	if c.bytes > etagAllBytes || c.order.Len() != etagAllBytes/etagBodyBytes || len(c.byKey) != c.order.Len() {
		t.Errorf("%d bytes in %d entries", c.bytes, c.order.Len())
	}
	for i := range 3 * etagEntries {
		c.put(&tagged{key: "small" + strings.Repeat("k", i), body: []byte("x")})
	}
	if c.order.Len() != etagEntries || c.bytes != etagEntries || c.get("k") != nil {
		t.Errorf("%d bytes in %d entries", c.bytes, c.order.Len())
	}
}

func TestBodiesAreBounded(t *testing.T) {
	t.Parallel()
	read := func(size int) (int, error) {
		b := &bounded{ReadCloser: io.NopCloser(strings.NewReader(strings.Repeat("x", size))), left: 1000}
		got, err := io.ReadAll(b)
		return len(got), err
	}
	if n, err := read(1000); n != 1000 || err != nil {
		t.Errorf("at the limit: %d, %v", n, err)
	}
	if _, err := read(1001); !forge.IsKind(err, forge.KindInvalid) {
		t.Errorf("over the limit: %v", err)
	}
}
