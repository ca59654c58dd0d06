package mockworld

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// handleGit is git smart HTTP: the advertisement and the two services, each
// run by git itself.
func (w *World) handleGit(c *call) *reply {
	if strings.EqualFold(c.r.Header.Get("Content-Encoding"), "gzip") {
		z, err := gzip.NewReader(bytes.NewReader(c.raw))
		if err == nil {
			c.raw, err = io.ReadAll(io.LimitReader(z, maxRequest))
		}
		if err != nil {
			return textReply(http.StatusBadRequest, "bad gzip body\n")
		}
	}
	rest := strings.TrimPrefix(c.path, "/git/")
	parts := strings.SplitN(rest, "/", 3)
	if len(parts) != 3 {
		return textReply(http.StatusNotFound, "Not Found\n")
	}
	service, advertise := strings.TrimPrefix(parts[2], "git-"), false
	switch {
	case parts[2] == "info/refs" && c.r.Method == http.MethodGet:
		service, advertise = strings.TrimPrefix(c.query.Get("service"), "git-"), true
	case c.r.Method != http.MethodPost:
		return textReply(http.StatusNotFound, "Not Found\n")
	}
	if service != "upload-pack" && service != "receive-pack" {
		return textReply(http.StatusForbidden, "Please upgrade your git client.\nGitHub.com no longer supports git over dumb-http.\n")
	}
	r, denied := w.gitAccess(c, parts[0]+"/"+strings.TrimSuffix(parts[1], ".git"), service)
	if denied != nil {
		return denied
	}
	switch {
	case advertise:
		return w.advertise(c, r, service)
	case service == "upload-pack":
		return w.gitService(c, r, service)
	}
	return w.receivePack(c, r)
}

func textReply(status int, text string) *reply {
	out := &reply{status: status, body: []byte(text)}
	out.set("Content-Type", "text/plain; charset=utf-8")
	return out
}

// gitAccess finds the repository and checks that the caller may do this.
func (w *World) gitAccess(c *call, full, service string) (*repository, *reply) {
	w.mu.Lock()
	defer w.mu.Unlock()
	unauthorised := func() *reply {
		out := textReply(http.StatusUnauthorized, "Repository not found.\n")
		out.set("WWW-Authenticate", `Basic realm="GitHub"`)
		return out
	}
	if c.r.Header.Get("Authorization") != "" && (c.tok == nil || !w.alive(c.tok) || c.tok.app != nil && c.tok.app.suspendedBy != nil) {
		out := unauthorised()
		out.body = []byte("Invalid username or token. Password authentication is not supported for Git operations.\n")
		return nil, out
	}
	r := w.repos[key(full)]
	if old := w.moved[key(full)]; r == nil && old != nil {
		r = old // git over HTTP follows a rename by itself
	}
	if r == nil || !w.visible(c, r) {
		if c.tok == nil {
			return nil, unauthorised()
		}
		return nil, textReply(http.StatusNotFound, "Repository not found.\n")
	}
	if service == "upload-pack" {
		if r.private && !w.granted(c.tok, r, "contents", "read") {
			return nil, textReply(http.StatusForbidden, "Write access to repository not granted.\n")
		}
		return r, nil
	}
	switch {
	case c.tok == nil:
		return nil, unauthorised()
	case r.archived:
		return nil, textReply(http.StatusForbidden, "This repository was archived so it is read-only.\n")
	case !w.atLeast(r, c.by, RoleWrite) || !w.granted(c.tok, r, "contents", "write"):
		return nil, textReply(http.StatusForbidden, fmt.Sprintf("Permission to %s.git denied to %s.\n", r.full(), c.by.login))
	}
	return r, nil
}

func (w *World) gitReply(kind string, body []byte) *reply {
	out := &reply{status: http.StatusOK, body: body}
	out.set("Content-Type", "application/x-git-"+kind)
	out.set("Cache-Control", "no-cache, max-age=0, must-revalidate")
	return out
}

func protocol(c *call) []string {
	if p := c.r.Header.Get("Git-Protocol"); p != "" && !strings.ContainsAny(p, "\x00\n") {
		return []string{"GIT_PROTOCOL=" + p}
	}
	return nil
}

func (w *World) advertise(c *call, r *repository, service string) *reply {
	out, err := r.git.runEnv(c.r.Context(), protocol(c), nil, service, "--stateless-rpc", "--advertise-refs", ".")
	if err != nil {
		return textReply(http.StatusInternalServerError, err.Error()+"\n")
	}
	return w.gitReply(service+"-advertisement", append([]byte(pkt("# service=git-"+service+"\n")+"0000"), out...))
}

func (w *World) gitService(c *call, r *repository, service string) *reply {
	cmd := r.git.cmd(c.r.Context(), protocol(c), service, "--stateless-rpc", ".")
	var out, errOut bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(c.raw), &out, &errOut
	if err := cmd.Run(); err != nil {
		// The client is told by the protocol itself; a status would hide it.
		w.log.Debug("git service", "service", service, "error", err, "stderr", errOut.String())
		if out.Len() == 0 {
			return textReply(http.StatusInternalServerError, errOut.String())
		}
	}
	return w.gitReply(service+"-result", out.Bytes())
}

// pkt is a pkt-line.
func pkt(s string) string { return fmt.Sprintf("%04x%s", len(s)+4, s) }
