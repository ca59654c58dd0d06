package gh

import (
	"bytes"
	"container/list"
	"context"
	"io"
	"net/http"
	"sync"
)

const (
	etagEntries   = 2048     // at least; Remember raises it
	etagBodyBytes = 2 << 20  // a larger body is not kept
	etagAllBytes  = 32 << 20 // of all bodies together, for etagEntries
	etagMostBytes = 256 << 20
)

// unchangedHeader is set on answers that come out of the memory: kept, or
// forgotten when only the tag was kept and the body is not the real one.
const (
	unchangedHeader = "X-Pipelinebot-Unchanged"
	kept            = "kept"
	forgotten       = "forgotten"
)

// forgetKey marks a request of whose answer only the tag is to be kept: who
// asks keeps what it needs, and a hundred events are half a megabyte.
type forgetKey struct{}

// remembers are the header's fields that are kept; the others come anew.
func remembers(h http.Header) http.Header {
	out := http.Header{}
	for _, k := range []string{"Content-Type", "Link", "Etag"} {
		if v, ok := h[k]; ok {
			out[k] = v
		}
	}
	return out
}

// etags asks again every time, but with the tag of the last answer: an
// unchanged one costs no quota. A cache that honoured GitHub's max-age=60
// would make a poller blind for a minute. Its key leaves the token out: the
// server checks access anew on every request, and tokens change hourly.
type etags struct {
	next http.RoundTripper

	mu    sync.Mutex
	order *list.List // of *tagged, the latest used first
	byKey map[string]*list.Element
	bytes int
	most  int // entries
}

type tagged struct {
	key, tag string
	header   http.Header
	body     []byte
}

func newETags(next http.RoundTripper) *etags {
	return &etags{next: next, order: list.New(), byKey: map[string]*list.Element{}, most: etagEntries}
}

// Remember sizes the memory of answers by how many addresses are asked again
// and again: a memory that is smaller than a round forgets each before its
// turn comes, and every round costs its full quota.
func (c *Client) Remember(addresses int) { c.tags.resize(addresses) }

func (c *etags) resize(entries int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.most = max(entries, etagEntries)
	c.trim()
}

func (c *etags) trim() {
	bytes := min(etagMostBytes, etagAllBytes/etagEntries*c.most)
	for c.order.Len() > c.most || c.bytes > bytes {
		c.drop(c.order.Back())
	}
}

// RoundTrip implements http.RoundTripper.
func (c *etags) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Method != http.MethodGet {
		return c.next.RoundTrip(req)
	}
	forget := forgets(req.Context())
	key := req.Header.Get("Accept") + " " + req.URL.String()
	if forget {
		key = forgotten + " " + key
	}
	known := c.get(key)
	if known != nil {
		req = req.Clone(req.Context())
		req.Header.Set("If-None-Match", known.tag)
	}
	resp, err := c.next.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	switch {
	case resp.StatusCode == http.StatusNotModified && known != nil:
		return replay(resp, known), nil
	case resp.StatusCode == http.StatusOK && resp.Header.Get("ETag") != "":
		return c.keep(key, resp, forget)
	default:
		return resp, nil
	}
}

func forgets(ctx context.Context) bool {
	forget, _ := ctx.Value(forgetKey{}).(bool)
	return forget
}

// replay is the kept answer with the fresh headers (rate limits, date) on top.
func replay(resp *http.Response, known *tagged) *http.Response {
	_ = resp.Body.Close()
	h := known.header.Clone()
	for k, v := range resp.Header {
		if k != "Content-Length" && k != "Content-Type" {
			h[k] = v
		}
	}
	h.Set(unchangedHeader, kept)
	if known.body == nil {
		h.Set(unchangedHeader, forgotten)
	}
	resp.Header, resp.StatusCode, resp.Status = h, http.StatusOK, "200 OK"
	resp.Body, resp.ContentLength = io.NopCloser(bytes.NewReader(known.body)), int64(len(known.body))
	return resp
}

// keep reads the body and, if it is whole and small, keeps it.
func (c *etags) keep(key string, resp *http.Response, forget bool) (*http.Response, error) {
	most := etagBodyBytes
	if forget {
		most = maxBody // the tag counts only once the whole was read
	}
	head, err := io.ReadAll(io.LimitReader(resp.Body, int64(most)+1))
	if err != nil {
		_ = resp.Body.Close()
		return nil, err
	}
	if len(head) > most {
		resp.Body = &joined{io.MultiReader(bytes.NewReader(head), resp.Body), resp.Body}
		return resp, nil
	}
	_ = resp.Body.Close()
	if len(head) > 0 {
		t := &tagged{key, resp.Header.Get("ETag"), remembers(resp.Header), head}
		if forget {
			t.body = nil
		}
		c.put(t)
	}
	resp.Body = io.NopCloser(bytes.NewReader(head))
	return resp, nil
}

type joined struct {
	io.Reader
	io.Closer
}

func (c *etags) get(key string) *tagged {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.byKey[key]
	if !ok {
		return nil
	}
	c.order.MoveToFront(e)
	return e.Value.(*tagged)
}

func (c *etags) put(t *tagged) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if old, ok := c.byKey[t.key]; ok {
		c.drop(old)
	}
	c.byKey[t.key] = c.order.PushFront(t)
	c.bytes += len(t.body)
	c.trim()
}

// unlearn drops the tags whose bodies were not kept: one of those could not be
// understood, and must not count as read.
func (c *etags) unlearn() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, e := range c.byKey {
		if e.Value.(*tagged).body == nil {
			c.drop(e)
		}
	}
}

func (c *etags) drop(e *list.Element) {
	t := c.order.Remove(e).(*tagged)
	delete(c.byKey, t.key)
	c.bytes -= len(t.body)
}
