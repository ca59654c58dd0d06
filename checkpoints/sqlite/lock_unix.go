//go:build unix

package sqlite

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// tryLock takes an exclusive lock on the whole file without waiting.
func tryLock(f *os.File) (bool, error) { return flock(f, unix.LOCK_EX) }

// tryShared takes a lock that only an exclusive one hinders, without waiting.
func tryShared(f *os.File) (bool, error) { return flock(f, unix.LOCK_SH) }

func flock(f *os.File, how int) (bool, error) {
	for {
		err := unix.Flock(int(f.Fd()), how|unix.LOCK_NB)
		switch {
		case err == nil:
			return true, nil
		case errors.Is(err, unix.EWOULDBLOCK):
			return false, nil
		case !errors.Is(err, unix.EINTR):
			return false, err
		}
	}
}
