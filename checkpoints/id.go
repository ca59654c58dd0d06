package checkpoints

import (
	"crypto/rand"
	"encoding/base32"
	"encoding/binary"
	"time"
)

// idAlphabet is Crockford's base32 in lower case: its order is the order of
// the values, and no letter looks like a digit.
const idAlphabet = "0123456789abcdefghjkmnpqrstvwxyz"

// NewID returns an id that sorts by time: 26 characters of lower-case base32
// that hold the microseconds since 1970 of at (64 bits, big endian) and 64
// random bits. All drivers take the ids of runs, inbox events and
// reservations from here. Ids of one microsecond are in no order.
func NewID(at time.Time) string {
	var b [16]byte
	binary.BigEndian.PutUint64(b[:8], uint64(max(at.UnixMicro(), 0))) //nolint:gosec // not negative
	rand.Read(b[8:])                                                  // never fails, see crypto/rand
	return base32.NewEncoding(idAlphabet).WithPadding(base32.NoPadding).EncodeToString(b[:])
}
