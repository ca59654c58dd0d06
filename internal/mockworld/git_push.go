package mockworld

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// command is one reference update that a push asks for.
type command struct{ old, new, ref string }

// parsePush reads the commands at the head of a receive-pack request, and
// says where the pack begins.
func parsePush(raw []byte) (cmds []command, caps string, pack []byte, err error) {
	for {
		if len(raw) < 4 {
			return nil, "", nil, errors.New("the request ends within its commands")
		}
		n, perr := strconv.ParseUint(string(raw[:4]), 16, 16)
		if perr != nil {
			return nil, "", nil, fmt.Errorf("bad packet length %q", raw[:4])
		}
		if n == 0 {
			return cmds, caps, raw[4:], nil
		}
		if n < 4 || int(n) > len(raw) {
			return nil, "", nil, fmt.Errorf("bad packet length %d", n)
		}
		line := strings.TrimSuffix(string(raw[4:n]), "\n")
		raw = raw[n:]
		if head, tail, ok := strings.Cut(line, "\x00"); ok {
			line, caps = head, tail
		}
		f := strings.SplitN(line, " ", 3)
		if len(f) != 3 {
			if strings.HasPrefix(line, "shallow ") {
				continue
			}
			return nil, "", nil, fmt.Errorf("bad command %q", line)
		}
		cmds = append(cmds, command{old: f[0], new: f[1], ref: f[2]})
	}
}

// receivePack takes a push: it looks first, as GitHub's hooks do, and lets
// git do it then.
func (w *World) receivePack(c *call, r *repository) *reply {
	cmds, caps, pack, err := parsePush(c.raw)
	if err != nil {
		return textReply(http.StatusBadRequest, err.Error()+"\n")
	}
	refused, err := w.checkPush(c, r, cmds, pack)
	if err != nil {
		return textReply(http.StatusInternalServerError, err.Error()+"\n")
	}
	if len(refused) > 0 {
		return w.gitReply("receive-pack-result", pushReport(cmds, refused, caps))
	}
	out := w.gitService(c, r, "receive-pack")
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.reconcile(r, c.by); err != nil {
		w.log.Error("after a push", "repo", r.full(), "error", err)
		return textReply(http.StatusInternalServerError, err.Error()+"\n")
	}
	w.touch()
	return out
}

// checkPush says why references are refused. It unpacks into a folder of its
// own, which goes away again.
func (w *World) checkPush(c *call, r *repository, cmds []command, pack []byte) (map[string]string, error) {
	w.mu.Lock()
	workflows := w.granted(c.tok, r, "workflows", "write")
	what := "a Personal Access Token"
	scope := "`workflow` scope"
	if c.tok.app != nil {
		what, scope = "a GitHub App", "`workflows` permission"
	}
	def := "refs/heads/" + r.defaultBranch
	w.mu.Unlock()
	refused := map[string]string{}
	for _, cmd := range cmds {
		switch {
		case strings.HasPrefix(cmd.ref, "refs/pull/"):
			refused[cmd.ref] = "deny updating a hidden ref"
		case cmd.new == zeroSHA && cmd.ref == def:
			refused[cmd.ref] = "refusing to delete the current branch: " + def
		}
	}
	if workflows {
		return refused, nil
	}
	env, cleanup, err := w.quarantine(c.r.Context(), r, pack)
	if err != nil {
		return nil, err
	}
	defer cleanup()
	for _, cmd := range cmds {
		if cmd.new == zeroSHA || refused[cmd.ref] != "" {
			continue
		}
		path, err := r.git.newWorkflow(c.r.Context(), env, cmd.new)
		if err != nil {
			return nil, err
		}
		if path != "" {
			refused[cmd.ref] = fmt.Sprintf("refusing to allow %s to create or update workflow `%s` without %s", what, path, scope)
		}
	}
	return refused, nil
}

// quarantine unpacks a pack beside the repository's objects.
func (w *World) quarantine(ctx context.Context, r *repository, pack []byte) (env []string, cleanup func(), err error) {
	if len(pack) == 0 {
		return nil, func() {}, nil
	}
	dir, err := os.MkdirTemp(w.dir, "push-")
	if err != nil {
		return nil, nil, fmt.Errorf("looking into a push: %w", err)
	}
	cleanup = func() {
		if err := os.RemoveAll(dir); err != nil {
			w.log.WarnContext(ctx, "removing what a push left", "error", err)
		}
	}
	if err := os.MkdirAll(filepath.Join(dir, "pack"), 0o755); err != nil {
		cleanup()
		return nil, nil, fmt.Errorf("looking into a push: %w", err)
	}
	env = []string{"GIT_OBJECT_DIRECTORY=" + dir, "GIT_ALTERNATE_OBJECT_DIRECTORIES=" + filepath.Join(r.git.dir, "objects")}
	if _, err := r.git.runEnv(ctx, env, bytes.NewReader(pack), "index-pack", "--stdin", "--fix-thin"); err != nil {
		cleanup()
		return nil, nil, err
	}
	return env, cleanup, nil
}

const workflowDir = ".github/workflows/"

// newWorkflow is a workflow file that commits new to the repository touch, or
// "".
func (g *gitRepo) newWorkflow(ctx context.Context, env []string, sha string) (string, error) {
	out, err := g.runEnv(ctx, env, nil, "-c", "core.quotePath=false", "log", "--format=", "--name-only", "-m", "--no-renames", sha, "--not", "--all", "--", workflowDir)
	if err != nil {
		return "", err
	}
	first, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	return first, nil
}

// pushReport is the answer to a push of which references are refused; the
// others of the same push are refused with it.
func pushReport(cmds []command, refused map[string]string, caps string) []byte {
	var report strings.Builder
	report.WriteString(pkt("unpack ok\n"))
	for _, cmd := range cmds {
		why := refused[cmd.ref]
		if why == "" {
			why = "atomic transaction failed"
		}
		report.WriteString(pkt("ng " + cmd.ref + " " + why + "\n"))
	}
	report.WriteString("0000")
	if !oneOf("side-band-64k", strings.Fields(caps)...) {
		return []byte(report.String())
	}
	return []byte(pkt("\x01"+report.String()) + "0000")
}
