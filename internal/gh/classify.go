package gh

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/pipelinebot/pipelinebot/internal/forge"
)

// unknownWait is what GitHub asks for when a secondary limit names no time.
const unknownWait = time.Minute

// refusal is the JSON of an error answer.
type refusal struct {
	Message string       `json:"message"`
	DocURL  string       `json:"documentation_url"`
	Errors  refusalItems `json:"errors"`
}

type refusalItem struct {
	Resource string `json:"resource"`
	Field    string `json:"field"`
	Code     string `json:"code"`
	Message  string `json:"message"`
}

// refusalItems are objects, or mere strings (pull request reviews).
type refusalItems []refusalItem

// UnmarshalJSON implements json.Unmarshaler and never fails: what can't be
// read of an explanation is left out.
func (r *refusalItems) UnmarshalJSON(b []byte) error {
	var raw []json.RawMessage
	if json.Unmarshal(b, &raw) != nil {
		var one string
		if json.Unmarshal(b, &one) == nil && one != "" {
			*r = append(*r, refusalItem{Message: one})
		}
		return nil
	}
	for _, m := range raw {
		var item refusalItem
		if json.Unmarshal(m, &item) != nil {
			_ = json.Unmarshal(m, &item.Message)
		}
		*r = append(*r, item)
	}
	return nil
}

// refused is the cause inside a forge.Error: the words and codes of GitHub.
type refused struct {
	text  string
	items []refusalItem
}

// Error implements error.
func (r *refused) Error() string { return r.text }

// classify decides on status and headers, and on the codes in the body; never
// on its prose.
func classify(resp *http.Response, body []byte, now time.Time) *forge.Error {
	var r refusal
	_ = json.Unmarshal(body, &r) // an HTML page leaves it empty
	e := &forge.Error{Status: resp.StatusCode, Err: r.cause(resp)}
	switch code := resp.StatusCode; {
	case limited(resp, r):
		e.Kind, e.RetryAfter = forge.KindRateLimited, retryAfter(resp.Header, now)
	case code == http.StatusUnauthorized, code == http.StatusForbidden, code == http.StatusUnavailableForLegalReasons:
		e.Kind, e.Needs = forge.KindDenied, resp.Header.Get("X-Accepted-GitHub-Permissions")
	case code == http.StatusNotFound, code == http.StatusGone:
		e.Kind, e.Needs = forge.KindNotFound, resp.Header.Get("X-Accepted-GitHub-Permissions")
	case code == http.StatusConflict, code == http.StatusUnprocessableEntity && r.exists():
		e.Kind = forge.KindConflict
	case code == http.StatusRequestTimeout, code >= 500 && code != http.StatusNotImplemented, code == http.StatusNotModified:
		e.Kind = forge.KindTransient
		if resp.Header.Get("Retry-After") != "" {
			e.RetryAfter = retryAfter(resp.Header, now)
		}
	default:
		e.Kind = forge.KindInvalid
	}
	if e.Kind == forge.KindNotFound {
		e.Needs = "" // GitHub lists what the route accepts even when nothing is missing
	}
	return e
}

func limited(resp *http.Response, r refusal) bool {
	switch resp.StatusCode {
	case http.StatusTooManyRequests:
		return true
	case http.StatusForbidden:
		return resp.Header.Get("Retry-After") != "" || resp.Header.Get("X-RateLimit-Remaining") == "0" ||
			strings.Contains(r.DocURL, "rate-limit")
	default:
		return false
	}
}

// retryAfter reads how long to wait, at least a second. The reset is an
// instant of the server's clock, so it is compared with the server's Date.
func retryAfter(h http.Header, now time.Time) time.Duration {
	if v := strings.TrimSpace(h.Get("Retry-After")); v != "" {
		if secs, err := strconv.ParseInt(v, 10, 32); err == nil {
			return max(time.Duration(secs)*time.Second, time.Second)
		}
		if at, err := http.ParseTime(v); err == nil {
			return max(at.Sub(serverNow(h, now)), time.Second)
		}
	}
	if h.Get("X-RateLimit-Remaining") == "0" {
		if at, ok := resetAt(h); ok {
			return max(at.Sub(serverNow(h, now)), time.Second)
		}
	}
	return unknownWait
}

func resetAt(h http.Header) (time.Time, bool) {
	secs, err := strconv.ParseInt(h.Get("X-RateLimit-Reset"), 10, 64)
	if err != nil || secs <= 0 || secs > 1<<40 {
		return time.Time{}, false
	}
	return time.Unix(secs, 0), true
}

func serverNow(h http.Header, now time.Time) time.Time {
	if at, err := http.ParseTime(h.Get("Date")); err == nil {
		return at
	}
	return now
}

func (r refusal) exists() bool {
	for _, i := range r.Errors {
		if i.Code == "already_exists" {
			return true
		}
	}
	return false
}

// cause puts GitHub's explanation into one bounded line.
func (r refusal) cause(resp *http.Response) *refused {
	parts := []string{}
	if r.Message != "" {
		parts = append(parts, r.Message)
	}
	for _, i := range r.Errors {
		switch {
		case i.Message != "":
			parts = append(parts, i.Message)
		case i.Code != "":
			parts = append(parts, fmt.Sprintf("%s %s: %s", i.Resource, i.Field, i.Code))
		}
	}
	text := strings.Join(parts, "; ")
	if text == "" {
		text = "no explanation given"
		if resp.StatusCode == http.StatusNotModified {
			text = "answered not modified, though nothing was cached"
		}
	}
	return &refused{text: oneLine(text, 500), items: r.Errors}
}

// oneLine bounds untrusted text for an error message.
func oneLine(s string, most int) string {
	s = strings.Join(strings.Fields(s), " ")
	if r := []rune(s); len(r) > most {
		s = string(r[:most]) + "…"
	}
	return s
}
