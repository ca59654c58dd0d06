package gh

import (
	"bytes"
	"container/list"
	"io"
	"net/http"
	"sync"
)

const (
	etagEntries   = 1024
	etagBodyBytes = 2 << 20  // a larger body is not kept
	etagAllBytes  = 32 << 20 // of all bodies together
)

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
}

type tagged struct {
	key, tag string
	header   http.Header
	body     []byte
}

func newETags(next http.RoundTripper) *etags {
	return &etags{next: next, order: list.New(), byKey: map[string]*list.Element{}}
}

// RoundTrip implements http.RoundTripper.
func (c *etags) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Method != http.MethodGet {
		return c.next.RoundTrip(req)
	}
	key := req.Header.Get("Accept") + " " + req.URL.String()
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
		return c.keep(key, resp)
	default:
		return resp, nil
	}
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
	resp.Header, resp.StatusCode, resp.Status = h, http.StatusOK, "200 OK"
	resp.Body, resp.ContentLength = io.NopCloser(bytes.NewReader(known.body)), int64(len(known.body))
	return resp
}

// keep reads the body and, if it is whole and small, keeps it.
func (c *etags) keep(key string, resp *http.Response) (*http.Response, error) {
	head, err := io.ReadAll(io.LimitReader(resp.Body, etagBodyBytes+1))
	if err != nil {
		_ = resp.Body.Close()
		return nil, err
	}
	if len(head) > etagBodyBytes {
		resp.Body = &joined{io.MultiReader(bytes.NewReader(head), resp.Body), resp.Body}
		return resp, nil
	}
	_ = resp.Body.Close()
	if len(head) > 0 {
		c.put(&tagged{key, resp.Header.Get("ETag"), resp.Header.Clone(), head})
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
	for c.order.Len() > etagEntries || c.bytes > etagAllBytes {
		c.drop(c.order.Back())
	}
}

func (c *etags) drop(e *list.Element) {
	t := c.order.Remove(e).(*tagged)
	delete(c.byKey, t.key)
	c.bytes -= len(t.body)
}
