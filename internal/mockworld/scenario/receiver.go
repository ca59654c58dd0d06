package scenario

import (
	"io"
	"net/http"
	"net/http/httputil"
	"net/url"
)

// receiver is the fixed address that webhooks go to. It hands them to the
// process that runs at the moment; while none does, the connection breaks, as
// it would at a closed port.
type receiver struct{ bots *keeper }

// ServeHTTP implements http.Handler.
func (r receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	target, err := url.Parse(r.bots.webhookURL())
	if err != nil || target.Host == "" {
		panic(http.ErrAbortHandler)
	}
	proxy := &httputil.ReverseProxy{
		Rewrite: func(p *httputil.ProxyRequest) {
			p.Out.URL = target
			p.Out.Host = target.Host
		},
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
		ErrorLog:     discardLog(),
	}
	proxy.ServeHTTP(w, req)
	_, _ = io.Copy(io.Discard, req.Body)
}
