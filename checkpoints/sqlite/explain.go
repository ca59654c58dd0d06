package sqlite

import (
	"errors"
	"fmt"

	sqlite "modernc.org/sqlite"
	lib "modernc.org/sqlite/lib"
)

// explain puts in front of an error of SQLite what it means to the operator.
func explain(err error) error {
	var e *sqlite.Error
	if !errors.As(err, &e) {
		return err
	}
	switch e.Code() & 0xff { // the primary code
	case lib.SQLITE_FULL:
		return fmt.Errorf("the disk is full, nothing was changed: %w", err)
	case lib.SQLITE_READONLY:
		return fmt.Errorf("the file can't be written, nothing was changed: %w", err)
	case lib.SQLITE_BUSY:
		return fmt.Errorf("another process has kept the file locked, nothing was changed: %w", err)
	case lib.SQLITE_NOTADB:
		return fmt.Errorf("this is no SQLite database, or it is encrypted: choose another path or restore a backup: %w", err)
	case lib.SQLITE_CORRUPT:
		return fmt.Errorf("the file is damaged: stop the daemon, keep a copy and restore a backup: %w", err)
	case lib.SQLITE_CANTOPEN:
		return fmt.Errorf("the file can't be opened; check that it and its folder may be written: %w", err)
	default:
		return err
	}
}
