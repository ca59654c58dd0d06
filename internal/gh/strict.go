package gh

import (
	"fmt"
	"io"
	"net/http"

	"github.com/pipelinebot/pipelinebot/internal/clock"
	"github.com/pipelinebot/pipelinebot/internal/forge"
)

const (
	// maxBody bounds an answer. A page of 100 issues whose bodies are at
	// their limit of 65,536 characters fits.
	maxBody = 64 << 20
	// maxErrorBody is as much of an error's body as is looked at.
	maxErrorBody = 64 << 10
)

// strict is the transport that turns a refusal into a typed error and bounds
// what is read. go-github never sees an answer that is an error, so none of
// its own classification, waiting or reading happens.
type strict struct {
	next  http.RoundTripper
	clock clock.Clock
}

// RoundTrip implements http.RoundTripper.
func (s *strict) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := s.next.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	if passes(req, resp) {
		resp.Body = &bounded{ReadCloser: resp.Body, left: maxBody}
		return resp, nil
	}
	defer func() { _ = resp.Body.Close() }()
	body, _ := io.ReadAll(io.LimitReader(resp.Body, maxErrorBody)) // half an explanation is one, too
	return nil, classify(resp, body, s.clock.Now())
}

func passes(req *http.Request, resp *http.Response) bool {
	switch code := resp.StatusCode; {
	case code >= 200 && code < 300:
		return true
	case code == http.StatusNotModified:
		return req.Header.Get("If-None-Match") != ""
	default:
		return code >= 300 && code < 400 && resp.Header.Get("Location") != ""
	}
}

// bounded fails a read that passes the limit: a cut-off list would look whole.
type bounded struct {
	io.ReadCloser
	left int64
}

// Read implements io.Reader.
func (b *bounded) Read(p []byte) (int, error) {
	if int64(len(p)) > b.left+1 {
		p = p[:b.left+1]
	}
	n, err := b.ReadCloser.Read(p)
	b.left -= int64(n)
	if b.left < 0 {
		return n, &forge.Error{Kind: forge.KindInvalid, Err: fmt.Errorf("the answer is larger than %d MiB", maxBody>>20)}
	}
	return n, err
}
