package strictyaml

import (
	"errors"
	"io"
	"io/fs"
	"os"
)

// ErrNotRegular means that a path names a folder, a pipe or a device.
var ErrNotRegular = errors.New("it is no regular file")

// ReadFile reads a document that somebody named. Only regular files are opened,
// since a pipe nobody writes to and a device have no end; of what Decode refuses
// as too large no more than the beginning is read.
func ReadFile(path string) ([]byte, error) {
	fi, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, err
	case !fi.Mode().IsRegular():
		return nil, &fs.PathError{Op: "read", Path: path, Err: ErrNotRegular}
	}
	f, err := os.Open(path) //nolint:gosec // whoever named it may read it
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // read only
	return io.ReadAll(io.LimitReader(f, maxBytes+1))
}
