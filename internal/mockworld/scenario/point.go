package scenario

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/pipelinebot/pipelinebot/internal/mockworld"
)

// Point is an instant of a story at which the bot may die, or be told to stop:
// after a commit, before or after a command, a request that writes, a push or
// a model call.
type Point struct {
	// Kind is commit, command, request or model.
	Kind string `json:"kind"`
	// Stage is before or after; a commit has only after.
	Stage string `json:"stage"`
	// Name is the store's method, the program, the request's method and path
	// with ids masked, or the prompt.
	Name string `json:"name"`
	// Nth counts the points of the same kind, stage and name from 1.
	Nth int `json:"nth"`
}

// String is the point as ParsePoint reads it, e.g.
// "after request POST /repos/acme/shop/pulls 1".
func (p Point) String() string { return fmt.Sprintf("%s %s %s %d", p.Stage, p.Kind, p.Name, p.Nth) }

// ParsePoint reads what String wrote.
func ParsePoint(text string) (Point, error) {
	bad := fmt.Errorf(`point %q: want it as it was printed, e.g. "after commit Commit 3"`, text)
	stage, rest, _ := strings.Cut(strings.TrimSpace(text), " ")
	kind, rest, _ := strings.Cut(rest, " ")
	cut := strings.LastIndexByte(rest, ' ')
	if cut < 0 || stage != "before" && stage != "after" {
		return Point{}, bad
	}
	switch kind {
	case "commit", "command", "request", "model":
	default:
		return Point{}, bad
	}
	n, err := strconv.Atoi(rest[cut+1:])
	if err != nil || n < 1 {
		return Point{}, bad
	}
	return Point{Kind: kind, Stage: stage, Name: rest[:cut], Nth: n}, nil
}

// Distinct leaves out points at which a death can do nothing that it cannot do
// at another one that is left in: the store's methods that only say "still
// here" are repeated by the clock, and whatever they wrote is void as soon as
// the next process opens the file. The first of each stays.
func Distinct(all []Point) []Point {
	var out []Point
	for _, p := range all {
		if p.Kind == "commit" && p.Nth > 1 && beats(p.Name) {
			continue
		}
		out = append(out, p)
	}
	return out
}

// beats are the store's methods that the clock calls: renewing a lease, which
// the next process ends by ExpireAll, and looking for lost tokens, which makes
// a token once more.
func beats(method string) bool { return method == "Renew" || method == "Sweep" }

// asks tells whether the points of this story are wanted.
func (r *running) asks() bool { return r.o.Points || r.o.Crash != nil || r.o.Stop != nil }

// reached counts a point and lets there happen what is to happen. It is true
// when the process that is at it was killed.
func (r *running) reached(ctx context.Context, kind, stage, name string) bool {
	if !r.asks() {
		return false
	}
	if stage == "before" && (kind == "command" || kind == "model") {
		r.outside("%s %s", kind, name)
	}
	up, _, _ := r.bots.state()
	r.mu.Lock()
	if !up {
		r.early++
		r.mu.Unlock()
		return false
	}
	p := Point{Kind: kind, Stage: stage, Name: name}
	r.counts[p]++
	p.Nth = r.counts[p]
	r.points = append(r.points, p)
	crash := r.o.Crash != nil && *r.o.Crash == p && !r.struck
	stop := r.o.Stop != nil && r.o.Stop.At == p && !r.struck
	r.struck = r.struck || crash || stop
	if kind == "command" || kind == "commit" && name == "Commit" {
		r.worked = time.Now()
	}
	if kind != "request" && kind != "model" {
		r.noteLocked("point", p.String())
	}
	r.mu.Unlock()
	if stop {
		r.halt(ctx, p)
	}
	if crash {
		r.note("bot", "dies %s", p)
		r.model.Rewind()
		r.bots.killed(ctx, false)
	}
	return crash
}

// maskedIDs are parts of paths that differ from one run of a story to the next.
var maskedIDs = regexp.MustCompile(`[0-9a-f]{40}|[0-9]{5,}|0[0-9a-z]{25}|(pipelinebot/(?:wip/)?\d+-)[0-9a-z-]+`)

// requestName is a request as a point's name.
func requestName(q mockworld.Request) string {
	return q.Method + " " + maskedIDs.ReplaceAllString(q.Path, "${1}ID")
}

// moments takes what the program tells of commits and commands.
func (r *running) moments(ctx context.Context) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		var m struct{ Kind, Stage, Name string }
		if err := json.NewDecoder(io.LimitReader(req.Body, 4096)).Decode(&m); err != nil {
			r.complain("a moment that cannot be read: %v", err)
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		r.reached(ctx, m.Kind, m.Stage, m.Name)
	})
}

var askedPrompt = regexp.MustCompile(`\[prompt ([A-Za-z0-9_./-]+)`)

// asking makes points of model calls.
func (r *running) asking(ctx context.Context, h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, err := io.ReadAll(req.Body)
		if err != nil {
			return // the client is gone
		}
		req.Body = io.NopCloser(bytes.NewReader(body))
		prompt := "unknown"
		if m := askedPrompt.FindSubmatch(body); m != nil {
			prompt = string(m[1])
		}
		if r.reached(ctx, "model", "before", prompt) {
			panic(http.ErrAbortHandler)
		}
		h.ServeHTTP(w, req)
		r.reached(ctx, "model", "after", prompt)
	})
}
