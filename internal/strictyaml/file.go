package strictyaml

import (
	"io"
	"os"
)

// ReadFile reads a document that somebody named. Of what Decode refuses as too
// large it reads no more than the beginning, since a device has no end.
func ReadFile(path string) ([]byte, error) {
	f, err := os.Open(path) //nolint:gosec // whoever named it may read it
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // read only
	return io.ReadAll(io.LimitReader(f, maxBytes+1))
}
