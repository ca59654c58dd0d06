package artifacts

import (
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"

	"github.com/pipelinebot/pipelinebot/checkpoints"
)

// verified reads a file and compares its hash at the end.
type verified struct {
	file *os.File
	hash hash.Hash
	read int64
	want checkpoints.Artifact
}

// Read implements io.Reader. It returns ErrDamaged instead of io.EOF when the
// content differs, and as soon as it is longer than it should be.
func (v *verified) Read(p []byte) (int, error) {
	n, err := v.file.Read(p)
	v.hash.Write(p[:n])
	v.read += int64(n)
	over := v.read > v.want.Bytes
	if over || errors.Is(err, io.EOF) && (v.read != v.want.Bytes || hex.EncodeToString(v.hash.Sum(nil)) != v.want.SHA256) {
		return n, fmt.Errorf("%w: %s", ErrDamaged, v.want.SHA256)
	}
	return n, err
}

// Close implements io.Closer.
func (v *verified) Close() error { return v.file.Close() }
