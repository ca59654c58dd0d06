// Package artifacts keeps content too large for a run's state in a folder, by
// its hash: equal content is stored once, and what is read is what was
// stored, or an error.
//
// It must not know runs or flows. It imports the standard library and
// checkpoints.
package artifacts

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"unicode/utf8"

	"github.com/pipelinebot/pipelinebot/checkpoints"
)

// DefaultMax is the cap on the size of one artifact unless another is given.
const DefaultMax = 64 << 20

// ErrTooLarge means that content is larger than the cap; nothing was stored.
var ErrTooLarge = errors.New("artifacts: content is too large")

// ErrDamaged means that the stored content is not what was put there.
var ErrDamaged = errors.New("artifacts: content does not match its hash")

// Options are what a folder needs. Only Dir must be given.
type Options struct {
	// Dir is the folder; it is created when missing, for its owner only.
	Dir string
	// Max is the cap in bytes of one artifact; DefaultMax when zero.
	Max int64
	// Scrub, when set, takes secrets out of text before it is hashed and
	// stored. Text is valid UTF-8 without NUL; other content is not scrubbed.
	Scrub func([]byte) []byte
}

// Store is a checkpoints.ArtifactStore in a folder. The file of an artifact
// is ab/cdef…, from the hex of its hash. Methods may be called concurrently,
// also by several processes.
type Store struct {
	dir   string
	max   int64
	scrub func([]byte) []byte
}

var _ checkpoints.ArtifactStore = (*Store)(nil)

// New opens the folder.
func New(o Options) (*Store, error) {
	if o.Dir == "" {
		return nil, errors.New("artifacts: no folder given")
	}
	if o.Max <= 0 {
		o.Max = DefaultMax
	}
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("opening the artifact folder: %w", err)
	}
	return &Store{dir: o.Dir, max: o.Max, scrub: o.Scrub}, nil
}

// Put implements checkpoints.ArtifactStore. Content above the cap is
// ErrTooLarge. When Put returns, the content survives a loss of power.
func (s *Store) Put(ctx context.Context, content io.Reader) (checkpoints.Artifact, error) {
	b, err := io.ReadAll(io.LimitReader(readerCtx{ctx, content}, s.max+1))
	if err != nil {
		return checkpoints.Artifact{}, fmt.Errorf("reading artifact content: %w", err)
	}
	if int64(len(b)) > s.max {
		return checkpoints.Artifact{}, fmt.Errorf("%w: more than %d bytes", ErrTooLarge, s.max)
	}
	if s.scrub != nil && isText(b) {
		b = s.scrub(b)
	}
	sum := sha256.Sum256(b)
	hash := hex.EncodeToString(sum[:])
	a := checkpoints.Artifact{Path: relative(hash), SHA256: hash, Bytes: int64(len(b))}
	if err := s.store(a, b); err != nil {
		return checkpoints.Artifact{}, fmt.Errorf("storing artifact %s: %w", hash, err)
	}
	return a, nil
}

// store writes the content unless it is there, whole.
func (s *Store) store(a checkpoints.Artifact, b []byte) error {
	path := filepath.Join(s.dir, filepath.FromSlash(a.Path))
	if there, err := os.ReadFile(path); err == nil && bytes.Equal(there, b) {
		return nil
	}
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	tmp, err := os.CreateTemp(dir, "tmp-*")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(tmp.Name()) }() // fails after the rename, as it should
	_, err = tmp.Write(b)
	err = errors.Join(err, tmp.Sync(), tmp.Close())
	if err != nil {
		return err
	}
	if err := os.Rename(tmp.Name(), path); err != nil {
		return err
	}
	return errors.Join(syncDir(dir), syncDir(s.dir))
}

// Open implements checkpoints.ArtifactStore. The path of the artifact is not
// trusted: it must be the one that its hash gives. The last read fails with
// ErrDamaged when the content is not what was stored.
func (s *Store) Open(ctx context.Context, a checkpoints.Artifact) (io.ReadCloser, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	if !hashForm.MatchString(a.SHA256) || a.Path != relative(a.SHA256) {
		return nil, fmt.Errorf("artifact %q with hash %q is not one of ours: %w", a.Path, a.SHA256, checkpoints.ErrNotFound)
	}
	f, err := os.Open(filepath.Join(s.dir, filepath.FromSlash(relative(a.SHA256))))
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("artifact %s: %w", a.SHA256, checkpoints.ErrNotFound)
	}
	if err != nil {
		return nil, fmt.Errorf("opening artifact %s: %w", a.SHA256, err)
	}
	return &verified{file: f, hash: sha256.New(), want: a}, nil
}

var hashForm = regexp.MustCompile(`^[0-9a-f]{64}$`)

// relative is the path of a hash within the folder, with forward slashes.
func relative(hash string) string { return hash[:2] + "/" + hash[2:] }

func isText(b []byte) bool { return utf8.Valid(b) && bytes.IndexByte(b, 0) < 0 }

// readerCtx stops a read at the end of its context.
type readerCtx struct {
	ctx context.Context //nolint:containedctx // lives as long as one Put
	r   io.Reader
}

func (r readerCtx) Read(p []byte) (int, error) {
	if err := context.Cause(r.ctx); err != nil {
		return 0, err
	}
	return r.r.Read(p)
}
