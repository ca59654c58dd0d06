package gh

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"time"
)

// baseTransport is the bottom of the chain: the given one or an own one, with
// the extra certificate authorities.
func baseTransport(o Options) (http.RoundTripper, error) {
	if o.Transport != nil && o.CAFile == "" {
		return o.Transport, nil
	}
	t := &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
		ForceAttemptHTTP2:     true,
		MaxIdleConnsPerHost:   16,
		IdleConnTimeout:       90 * time.Second,
		TLSHandshakeTimeout:   10 * time.Second,
		ResponseHeaderTimeout: 30 * time.Second,
	}
	if given, ok := o.Transport.(*http.Transport); ok {
		t = given.Clone()
	} else if o.Transport != nil {
		return nil, fmt.Errorf("certificate file %s: the given transport (%T) can't take certificate authorities", o.CAFile, o.Transport)
	}
	if o.CAFile == "" {
		return t, nil
	}
	pem, err := os.ReadFile(o.CAFile)
	if err != nil {
		return nil, fmt.Errorf("reading the certificate authorities: %w", err)
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool() // no system pool: the file alone counts
	}
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("certificate file %s: it holds no PEM certificate", o.CAFile)
	}
	if t.TLSClientConfig == nil {
		t.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	t.TLSClientConfig.RootCAs = pool
	return t, nil
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return strings.EqualFold(host, "localhost") || ip != nil && ip.IsLoopback()
}
