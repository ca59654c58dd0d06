package bench_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/pipelinebot/pipelinebot/checkpoints/sqlite"
)

// peerDir, in the environment, is a folder in which the peer is installed or
// is to be; without it, it is installed anew into a temporary one.
const peerDir = "PIPELINEBOT_BENCH_PEER"

// installed is the folder with the peer, or why there is none.
var installed = sync.OnceValues(func() (string, error) {
	npm, err := exec.LookPath("npm")
	if err != nil {
		return "", fmt.Errorf("npm is not here: %w", err)
	}
	if _, err := exec.LookPath("node"); err != nil {
		return "", fmt.Errorf("node is not here: %w", err)
	}
	dir := os.Getenv(peerDir)
	if dir == "" {
		root, err := scratch()
		if err != nil {
			return "", err
		}
		dir = filepath.Join(root, "peer")
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	for _, name := range []string{"package.json", "peer.mjs"} { // anew, also where the peer was kept
		text, err := os.ReadFile(filepath.Join("testdata/peer", name))
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), text, 0o600)
		}
		if err != nil {
			return "", err
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "node_modules", "better-sqlite3", "build", "Release", "better_sqlite3.node")); err == nil {
		return dir, nil
	}
	fmt.Fprintln(os.Stderr, "installing the peer, which takes minutes where its driver must be compiled; set", peerDir, "to keep it")
	cmd := exec.Command(npm, "install", "--no-package-lock", "--no-audit", "--no-fund", "--loglevel=error")
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("npm install: %w: %s", err, out)
	}
	return dir, nil
})

// peer is a running node process, see testdata/peer/peer.mjs.
type peer struct {
	b     *testing.B
	in    io.Writer
	out   *json.Decoder
	level sqlite.Synchronous
}

// peerAnswer is what it says of a command: the time by its own clock, and by
// how many bytes its file has grown.
type peerAnswer struct {
	Nodes       int    `json:"nodes"`
	NS          int64  `json:"ns"`
	Bytes       int64  `json:"bytes"`
	Rows        int    `json:"rows"`
	Synchronous string `json:"synchronous"`
}

func (a *peerAnswer) add(c peerAnswer) {
	a.Nodes, a.NS, a.Bytes = a.Nodes+c.Nodes, a.NS+c.NS, a.Bytes+c.Bytes
}

// startPeer returns an error where the peer can't be had.
func startPeer(b *testing.B, level sqlite.Synchronous) (*peer, error) {
	b.Helper()
	dir, err := installed()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command("node", "peer.mjs", file(b), string(level))
	cmd.Dir, cmd.Stderr = dir, os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Wait()
	})
	return &peer{b, in, json.NewDecoder(bufio.NewReader(out)), level}, nil
}

// ask has it do something and checks that it was as durable as ours.
func (p *peer) ask(command string) peerAnswer {
	p.b.Helper()
	if _, err := fmt.Fprintln(p.in, command); err != nil {
		p.b.Fatal(err)
	}
	var a peerAnswer
	if err := p.out.Decode(&a); err != nil {
		p.b.Fatalf("the peer on %q: %v", command, err)
	}
	if a.Synchronous != string(p.level) || a.Nodes == 0 || a.Rows < a.Nodes {
		p.b.Fatalf("the peer on %q: %+v", command, a)
	}
	return a
}
