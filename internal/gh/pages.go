package gh

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/pipelinebot/pipelinebot/internal/forge"
)

// listAll reads all pages of a listing. It follows Link rel="next" verbatim:
// go-github's page numbers end after the first page where a cursor and
// `since` meet, and deep page numbers are refused.
func listAll[T any](ctx context.Context, c *Client, r request, items func([]byte) (json.RawMessage, error)) ([]T, error) {
	out := []T{}
	seen := map[string]bool{}
	for page := 1; r.path != ""; page++ {
		if page > c.maxPages {
			return nil, &forge.Error{Kind: forge.KindInvalid, Op: r.op, Err: fmt.Errorf("more than %d pages of 100; this is too much to read", c.maxPages)}
		}
		if seen[r.path] {
			return nil, &forge.Error{Kind: forge.KindTransient, Op: r.op, Err: errors.New("the pages of the listing lead in a circle")}
		}
		seen[r.path] = true
		a, err := c.send(ctx, r)
		if err != nil {
			return nil, err
		}
		raw, err := items(a.body)
		if err != nil {
			return nil, &forge.Error{Kind: forge.KindTransient, Op: r.op, Status: http.StatusOK, Err: err}
		}
		var some []T
		if err := decode(r.op, raw, &some); err != nil {
			return nil, err
		}
		out = append(out, some...)
		r.path = nextLink(a.header)
	}
	return out, nil
}

// plain listings are the array itself.
func plain(body []byte) (json.RawMessage, error) { return body, nil }

// inField listings are an object that holds the array.
func inField(name string) func([]byte) (json.RawMessage, error) {
	return func(body []byte) (json.RawMessage, error) {
		var wrapped map[string]json.RawMessage
		if err := json.Unmarshal(body, &wrapped); err != nil {
			return nil, fmt.Errorf("the answer is not what the API promises: %w", err)
		}
		return wrapped[name], nil
	}
}

// nextLink finds the target of rel="next" (RFC 8288). Targets may hold commas
// and semicolons, so the header is not split but read.
func nextLink(h http.Header) string {
	for _, line := range h.Values("Link") {
		for line != "" {
			_, rest, ok := strings.Cut(line, "<")
			if !ok {
				break
			}
			target, rest, ok := strings.Cut(rest, ">")
			if !ok {
				break
			}
			params := rest
			if i := strings.IndexByte(rest, '<'); i >= 0 {
				params, line = rest[:i], rest[i:]
			} else {
				line = ""
			}
			if isNext(params) {
				return target
			}
		}
	}
	return ""
}

func isNext(params string) bool {
	for _, p := range strings.FieldsFunc(params, func(r rune) bool { return r == ';' || r == ',' }) {
		name, value, _ := strings.Cut(strings.TrimSpace(p), "=")
		if !strings.EqualFold(strings.TrimSpace(name), "rel") {
			continue
		}
		for _, rel := range strings.Fields(strings.Trim(strings.TrimSpace(value), `"`)) {
			if strings.EqualFold(rel, "next") {
				return true
			}
		}
	}
	return false
}
