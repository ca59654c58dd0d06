package artifacts_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"github.com/pipelinebot/pipelinebot/checkpoints"
	"github.com/pipelinebot/pipelinebot/checkpoints/artifacts"
)

func open(t testing.TB, o artifacts.Options) *artifacts.Store {
	t.Helper()
	if o.Dir == "" {
		o.Dir = t.TempDir()
	}
	s, err := artifacts.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func put(t testing.TB, s *artifacts.Store, content string) checkpoints.Artifact {
	t.Helper()
	a, err := s.Put(t.Context(), strings.NewReader(content))
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func read(t testing.TB, s *artifacts.Store, a checkpoints.Artifact) (string, error) {
	t.Helper()
	r, err := s.Open(t.Context(), a)
	if err != nil {
		return "", err
	}
	defer r.Close()
	b, err := io.ReadAll(r)
	return string(b), err
}

// files lists the files below a folder.
func files(t *testing.T, dir string) (names []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			rel, _ := filepath.Rel(dir, path)
			names = append(names, filepath.ToSlash(rel))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

func TestRoundTrip(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, artifacts.Options{Dir: dir})
	a := put(t, s, "hello")
	want := checkpoints.Artifact{
		Path:   "2c/f24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824",
		SHA256: "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824", Bytes: 5,
	}
	if diff := cmp.Diff(want, a); diff != "" {
		t.Fatalf("artifact (-want +got):\n%s", diff)
	}
	put(t, s, "hello")
	if diff := cmp.Diff([]string{a.Path}, files(t, dir)); diff != "" {
		t.Fatalf("files (-want +got):\n%s", diff)
	}
	if got, err := read(t, s, a); err != nil || got != "hello" {
		t.Fatalf("got %q, %v", got, err)
	}
	empty := put(t, s, "")
	if got, err := read(t, s, empty); err != nil || got != "" || empty.Bytes != 0 {
		t.Fatalf("empty content: %+v, %q, %v", empty, got, err)
	}
}

func TestReadsInAnyPortions(t *testing.T) {
	t.Parallel()
	s := open(t, artifacts.Options{})
	a := put(t, s, strings.Repeat("0123456789", 1000))
	r, err := s.Open(t.Context(), a)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if got, err := io.ReadAll(iotest.OneByteReader(r)); err != nil || int64(len(got)) != a.Bytes {
		t.Fatalf("%d bytes, %v", len(got), err)
	}
}

func TestDamage(t *testing.T) {
	t.Parallel()
	for name, content := range map[string]string{
		"changed": "hellO", "shorter": "hell", "longer": "hello!", "empty": "",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			s := open(t, artifacts.Options{Dir: dir})
			a := put(t, s, "hello")
			if err := os.WriteFile(filepath.Join(dir, filepath.FromSlash(a.Path)), []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := read(t, s, a); !errors.Is(err, artifacts.ErrDamaged) {
				t.Fatalf("error: %v", err)
			}
			put(t, s, "hello") // mends it
			if got, err := read(t, s, a); err != nil || got != "hello" {
				t.Fatalf("after putting it again: %q, %v", got, err)
			}
		})
	}
}

// No path leads out of the folder, or to a file that is no artifact.
func TestUntrustedPaths(t *testing.T) {
	t.Parallel()
	outer := t.TempDir()
	s := open(t, artifacts.Options{Dir: filepath.Join(outer, "artifacts")})
	if err := os.WriteFile(filepath.Join(outer, "secret"), []byte("hello"), 0o600); err != nil {
		t.Fatal(err)
	}
	good := put(t, s, "hello")
	for _, change := range []func(*checkpoints.Artifact){
		func(a *checkpoints.Artifact) { a.Path = "../secret" },
		func(a *checkpoints.Artifact) { a.Path = "/etc/passwd" },
		func(a *checkpoints.Artifact) { a.Path = "" },
		func(a *checkpoints.Artifact) { a.Path = "./" + a.Path },
		func(a *checkpoints.Artifact) { a.SHA256 = "../secret"; a.Path = "../secret" },
		func(a *checkpoints.Artifact) { a.SHA256 = "" },
		func(a *checkpoints.Artifact) { a.SHA256 = strings.ToUpper(a.SHA256) },
		func(a *checkpoints.Artifact) {
			a.SHA256 = ".." + a.SHA256[2:]
			a.Path = "../" + a.SHA256[2:]
		},
		func(a *checkpoints.Artifact) {
			a.SHA256 = strings.Repeat("0", 64)
			a.Path = "00/" + strings.Repeat("0", 62)
		},
	} {
		a := good
		change(&a)
		if _, err := s.Open(t.Context(), a); !errors.Is(err, checkpoints.ErrNotFound) {
			t.Errorf("%+v: %v", a, err)
		}
	}
}

func TestCap(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, artifacts.Options{Dir: dir, Max: 5})
	put(t, s, "12345")
	before := files(t, dir)
	if _, err := s.Put(t.Context(), strings.NewReader("123456")); !errors.Is(err, artifacts.ErrTooLarge) {
		t.Fatalf("error: %v", err)
	}
	if diff := cmp.Diff(before, files(t, dir)); diff != "" {
		t.Fatalf("files (-want +got):\n%s", diff)
	}
}

func TestScrub(t *testing.T) {
	t.Parallel()
	s := open(t, artifacts.Options{Scrub: func(b []byte) []byte {
		return bytes.ReplaceAll(b, []byte("hunter2"), []byte("***"))
	}})
	a := put(t, s, "password: hunter2\n")
	if got, err := read(t, s, a); err != nil || got != "password: ***\n" || a.Bytes != int64(len(got)) {
		t.Fatalf("text: %q, %v, %+v", got, err, a)
	}
	binary := "\x00\xffhunter2"
	if got, err := read(t, s, put(t, s, binary)); err != nil || got != binary {
		t.Fatalf("binary: %q, %v", got, err)
	}
}

func TestFailures(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, artifacts.Options{Dir: dir})
	boom := errors.New("boom")
	if _, err := s.Put(t.Context(), iotest.ErrReader(boom)); !errors.Is(err, boom) {
		t.Fatalf("a reader that fails: %v", err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(boom)
	if _, err := s.Put(ctx, strings.NewReader("x")); !errors.Is(err, boom) {
		t.Fatalf("a context that has ended: %v", err)
	}
	if got := files(t, dir); len(got) > 0 {
		t.Fatalf("files left: %v", got)
	}
	if _, err := artifacts.New(artifacts.Options{}); err == nil {
		t.Fatal("no folder, no error")
	}
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := artifacts.New(artifacts.Options{Dir: file}); err == nil {
		t.Fatal("a file for a folder, no error")
	}
}

func TestConcurrentPuts(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, artifacts.Options{Dir: dir})
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			a, err := s.Put(t.Context(), strings.NewReader("the same"))
			if err != nil {
				t.Error(err)
				return
			}
			if got, err := read(t, s, a); err != nil || got != "the same" {
				t.Errorf("%q, %v", got, err)
			}
		})
	}
	wg.Wait()
	if got := files(t, dir); len(got) != 1 {
		t.Fatalf("files: %v", got)
	}
}

func FuzzOpen(f *testing.F) {
	s := open(f, artifacts.Options{})
	a := put(f, s, "hello")
	f.Add(a.Path, a.SHA256, a.Bytes)
	f.Add("../x", "../x", int64(1))
	f.Fuzz(func(t *testing.T, path, hash string, size int64) {
		got, err := read(t, s, checkpoints.Artifact{Path: path, SHA256: hash, Bytes: size})
		if err == nil && got != "hello" {
			t.Fatalf("read %q from %q", got, path)
		}
	})
}
