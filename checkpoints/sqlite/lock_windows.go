package sqlite

import (
	"errors"
	"os"

	"golang.org/x/sys/windows"
)

// tryLock takes an exclusive lock on one byte far behind the content, which
// stays readable: on Windows a lock keeps others from reading what it covers.
func tryLock(f *os.File) (bool, error) { return lockByte(f, windows.LOCKFILE_EXCLUSIVE_LOCK) }

// tryShared takes a lock that only an exclusive one hinders, without waiting.
func tryShared(f *os.File) (bool, error) { return lockByte(f, 0) }

func lockByte(f *os.File, how uint32) (bool, error) {
	at := windows.Overlapped{OffsetHigh: 1 << 20}
	err := windows.LockFileEx(windows.Handle(f.Fd()), how|windows.LOCKFILE_FAIL_IMMEDIATELY, 0, 1, 0, &at)
	switch {
	case err == nil:
		return true, nil
	case errors.Is(err, windows.ERROR_LOCK_VIOLATION), errors.Is(err, windows.ERROR_IO_PENDING):
		return false, nil
	default:
		return false, err
	}
}
