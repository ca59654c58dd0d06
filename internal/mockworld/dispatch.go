package mockworld

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
)

// maxRequest bounds a request body; pushes may be large.
const maxRequest = 256 << 20

// reply is an answer before it is written.
type reply struct {
	status int
	header http.Header
	body   []byte
}

func (r *reply) set(k, v string) {
	if r.header == nil {
		r.header = http.Header{}
	}
	r.header.Set(k, v)
}

// call is one request with what has been found out about it.
type call struct {
	world *World
	r     *http.Request
	raw   []byte
	path  string // below the prefix, escaped
	tok   *token
	by    *account
	who   string // key of rate limits
	route *route
	vars  map[string]string
	repo  *repository
	query url.Values
	body  map[string]json.RawMessage
	hdr   http.Header // of the answer
}

func (w *World) serveHTTP(rw http.ResponseWriter, r *http.Request) {
	w.mu.Lock()
	closed := w.closed
	if !closed {
		w.wg.Add(1)
	}
	w.mu.Unlock()
	if closed {
		http.Error(rw, errClosed.Error(), http.StatusServiceUnavailable)
		return
	}
	defer w.wg.Done()
	path, ok := strings.CutPrefix(r.URL.EscapedPath(), w.prefix+"/")
	if !ok {
		http.NotFound(rw, r)
		return
	}
	raw, err := io.ReadAll(http.MaxBytesReader(rw, r.Body, maxRequest))
	if err != nil {
		http.Error(rw, "reading the request: "+err.Error(), http.StatusBadRequest)
		return
	}
	if what, mine := strings.CutPrefix("/"+path, controlPath); mine {
		w.control(rw, r, what, raw)
		return
	}
	c := &call{world: w, r: r, raw: raw, path: "/" + path, query: r.URL.Query(), hdr: http.Header{}}
	w.serveCall(rw, c) //nolint:contextcheck // c holds the request, and with it the context
}

// serveCall takes a request through hook, faults, handling and hook.
func (w *World) serveCall(rw http.ResponseWriter, c *call) {
	rest := c.path == "/api/v3" || strings.HasPrefix(c.path, "/api/v3/")
	if c.path = strings.TrimPrefix(c.path, "/api/v3"); c.path == "" {
		c.path = "/"
	}
	log, seq := w.begin(c, rest)
	defer w.leave(c)
	w.callHook(Before, log)

	w.mu.Lock()
	s := strikeable{method: c.r.Method, path: log.Path, actor: log.Actor}
	f := w.strike(s, FaultHold, FaultDropRequest, FaultDropResponse, FaultRefuse, FaultDelay)
	w.mu.Unlock()
	if f != nil {
		w.mark(seq, f.Kind)
		log.Fault = f.Kind
		switch {
		case f.Kind == FaultDropRequest,
			f.Kind == FaultDelay && !w.pause(c.r.Context(), f.Delay),
			f.Kind == FaultHold && !f.After && !f.wait(c.r.Context(), w.ctx):
			w.finish(seq, 0)
			panic(http.ErrAbortHandler)
		}
	}
	var out *reply
	switch {
	case f != nil && f.Kind == FaultRefuse:
		out = f.refusal()
	case rest:
		out = w.handleREST(c)
		w.keepBody(seq, c, out)
	case strings.HasPrefix(c.path, "/git/"):
		out = w.handleGit(c)
	default:
		out = w.handlePage(c)
	}
	log.Status = out.status
	w.finish(seq, out.status)
	w.callHook(After, log)
	if f != nil && (f.Kind == FaultDropResponse || f.Kind == FaultHold && f.After && !f.wait(c.r.Context(), w.ctx)) {
		panic(http.ErrAbortHandler)
	}
	for k, v := range out.header {
		rw.Header()[k] = v
	}
	rw.WriteHeader(out.status)
	// A client that is gone is its own affair.
	_, _ = io.Copy(rw, bytes.NewReader(out.body))
}

func (f *faultState) refusal() *reply {
	out := &reply{status: f.Status, header: http.Header{}, body: []byte(f.Body)}
	if out.status == 0 {
		out.status = http.StatusServiceUnavailable
	}
	for k, v := range f.Headers {
		out.header[http.CanonicalHeaderKey(k)] = v
	}
	if out.header.Get("Content-Type") == "" {
		out.header.Set("Content-Type", "application/json; charset=utf-8")
	}
	return out
}

// begin finds out who asks and logs the request.
func (w *World) begin(c *call, rest bool) (Request, int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.base == "" {
		w.base = "http://" + c.r.Host + w.prefix
	}
	c.tok = w.tokens[secretOf(c.r)]
	if c.tok != nil {
		c.by = c.tok.account
	}
	c.who = w.identity(c)
	w.inflight[c.who]++
	path, err := url.PathUnescape(c.path)
	if err != nil {
		path = c.path
	}
	log := Request{Seq: len(w.requests) + 1, At: w.clock.Now().UTC(), Method: c.r.Method, Path: path, Query: c.r.URL.RawQuery}
	if rest && len(c.raw) > 0 {
		log.Body = string(c.raw)
		if strings.HasSuffix(path, "/access_tokens") || len(c.raw) > 1<<20 {
			log.Body = ""
		}
	}
	if c.by != nil {
		log.Actor = c.by.login
	}
	w.requests = append(w.requests, log)
	return log, log.Seq
}

// keepBody keeps what was answered, when that is asked for.
func (w *World) keepBody(seq int, c *call, out *reply) {
	if !w.opts.KeepBodies {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	r := &w.requests[seq-1]
	r.Accept = c.r.Header.Get("Accept")
	if c.r.Method != http.MethodHead {
		r.Response = string(out.body)
	}
	if c.route != nil {
		r.Route = c.route.pattern
	}
}

func (w *World) leave(c *call) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.inflight[c.who]--
}

func (w *World) mark(seq int, k FaultKind) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.requests[seq-1].Fault = k
}

func (w *World) finish(seq, status int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.requests[seq-1].Status = status
	w.touch()
}

func (w *World) callHook(stage Stage, r Request) {
	w.hookMu.Lock()
	h := w.hook
	w.hookMu.Unlock()
	if h != nil {
		h(stage, r)
	}
}

// violation records what the world does not know, and is the 501.
func (w *World) violation(c *call, format string, args ...any) *apiErr {
	what := c.r.Method + " " + c.path + ": " + fmt.Sprintf(format, args...)
	w.violations = append(w.violations, what)
	w.log.Warn("unknown to the world", "request", what)
	return refuse(http.StatusNotImplemented, "mockworld: %s", what)
}

// handleREST answers an API call; the world is locked from here on.
func (w *World) handleREST(c *call) *reply {
	w.mu.Lock()
	defer w.mu.Unlock()
	out, err := w.rest(c)
	if err != nil {
		out = errorReply(err)
		if out.status == http.StatusInternalServerError {
			w.log.Error("handling a request", "method", c.r.Method, "path", c.path, "error", err)
		}
	}
	for k, v := range c.hdr {
		if out.header == nil {
			out.header = http.Header{}
		}
		out.header[k] = v
	}
	out.set("X-GitHub-Media-Type", "github.v3; format=json")
	out.set("X-GitHub-Request-Id", fmt.Sprintf("%04X:%06X", 0xC0DE, len(w.requests)))
	out.set("Date", w.now().Format(http.TimeFormat))
	return w.conditional(c, out)
}

func errorReply(err error) *reply {
	var e *apiErr
	if !errors.As(err, &e) {
		e = refuse(http.StatusInternalServerError, "Server Error: %v", err)
	}
	out := jsonReply(e.status, e.body())
	for k, v := range e.header {
		out.header[k] = v
	}
	return out
}

func jsonReply(status int, v any) *reply {
	if v == nil {
		return &reply{status: status, header: http.Header{}}
	}
	body, err := json.Marshal(v)
	if err != nil {
		return errorReply(fmt.Errorf("rendering the answer: %w", err))
	}
	return &reply{status: status, body: body, header: http.Header{
		"Content-Type": {"application/json; charset=utf-8"}, "Content-Length": {strconv.Itoa(len(body))}}}
}
