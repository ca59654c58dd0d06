package sqlite

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/pipelinebot/pipelinebot/checkpoints"
)

// fileLock is a lock of the operating system on a file beside the database.
// It ends with the process that holds it, however that ends; the file's
// content only says who it is.
type fileLock struct{ file *os.File }

// holder is the content of the file.
type holder struct {
	PID   int       `json:"pid"`
	Host  string    `json:"host"`
	Owner string    `json:"owner,omitempty"`
	Since time.Time `json:"since"`
}

func (h holder) String() string {
	s := fmt.Sprintf("process %d on %s, since %s", h.PID, h.Host, h.Since.UTC().Format(time.RFC3339))
	if h.Owner != "" {
		s = h.Owner + ", " + s
	}
	return s
}

// lookTime is much longer than Held has the lock.
const lookTime = 20 * time.Millisecond

// Held reports whether a daemon holds the file, and which.
func Held(path string) (by string, held bool, err error) {
	path, err = filepath.Abs(path)
	if err != nil {
		return "", false, fmt.Errorf("looking who holds the store: %w", err)
	}
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	f, err := openLock(path+lockSuffix, os.O_RDONLY)
	if errors.Is(err, fs.ErrNotExist) {
		return "", false, nil
	}
	if err != nil {
		return "", false, fmt.Errorf("looking who holds the store: %w", err)
	}
	defer func() { _ = f.Close() }() // gives the lock up as well
	free, err := tryShared(f)
	if err != nil {
		return "", false, fmt.Errorf("looking who holds the store: %w", err)
	}
	if free {
		return "", false, nil
	}
	return readHolder(f), true, nil
}

// lockSuffix makes the name of the lock's file of the database's.
const lockSuffix = ".lock"

// openLock opens the lock's file. Whatever else lies in its place is refused:
// opening a pipe waits for its other end.
func openLock(path string, flags int) (*os.File, error) {
	info, err := os.Stat(path)
	switch {
	case err == nil && !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s is no regular file; remove it", path)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	return os.OpenFile(path, flags, 0o600)
}

// takeLock fails with ErrInUse, naming the holder, when another process, or
// another store of this one, has the lock.
func takeLock(path, owner string, now time.Time) (*fileLock, error) {
	f, err := openLock(path, os.O_RDWR|os.O_CREATE)
	if err != nil {
		return nil, err
	}
	taken, err := tryLock(f)
	if err == nil && !taken { // maybe somebody only looks who holds it
		time.Sleep(lookTime) //nolint:forbidigo // nothing signals the release of another process's lock
		taken, err = tryLock(f)
	}
	if err != nil || !taken {
		defer func() { _ = f.Close() }()
	}
	switch {
	case err != nil:
		return nil, fmt.Errorf("locking %s: %w", path, err)
	case !taken:
		return nil, fmt.Errorf("%w by %s; stop it first, or give this one a path of its own", checkpoints.ErrInUse, readHolder(f))
	}
	l := &fileLock{f}
	if err := l.name(owner, now); err != nil {
		_ = l.release()
		return nil, fmt.Errorf("writing %s: %w", path, err)
	}
	return l, nil
}

// name writes who holds the lock.
func (l *fileLock) name(owner string, now time.Time) error {
	host, err := os.Hostname()
	if err != nil {
		host = "an unknown host"
	}
	b, err := json.Marshal(holder{PID: os.Getpid(), Host: host, Owner: owner, Since: now})
	if err != nil {
		return err
	}
	if err := l.file.Truncate(0); err != nil {
		return err
	}
	_, err = l.file.WriteAt(b, 0)
	return err
}

func readHolder(f *os.File) string {
	var h holder
	if err := json.NewDecoder(f).Decode(&h); err != nil {
		return "another process that has not written its name yet"
	}
	return h.String()
}

// release gives the lock up; the file stays, since removing it would race
// with the next holder.
func (l *fileLock) release() error { return l.file.Close() }
