package sqlite

import (
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"

	sqlite "modernc.org/sqlite" // registers the driver by its own init
)

// connect opens a pool of size connections. None is made yet, so errors of
// the file show on first use.
//
// Commits sync with fdatasync where there is one, for the whole process: as
// durable as fsync, which the driver takes by default, and without the wait
// for the file's timestamps.
func connect(path string, o Options, readOnly bool, size int) (*sql.DB, error) {
	if _, err := sqlite.Fdatasync(true); err != nil && !errors.Is(err, sqlite.ErrFdatasyncUnavailable) {
		return nil, err
	}
	connector, err := sqlite.NewConnector(dsn(path, o, readOnly))
	if err != nil {
		return nil, err
	}
	db := sql.OpenDB(connector)
	db.SetMaxOpenConns(size)
	db.SetMaxIdleConns(size)
	return db, nil
}

// dsn is the URI of a connection. The driver sorts _pragma values and runs
// them before the named keys, so page_size, which must come before WAL, is a
// _pragma and the journal mode a key.
func dsn(path string, o Options, readOnly bool) string {
	q := url.Values{}
	q.Set("mode", "rw") // never creates: an empty file is there, or it's an error
	q.Set("_busy_timeout", strconv.FormatInt(o.Busy.Milliseconds(), 10))
	q.Set("_error_rc", "1")
	q.Set("_dqs", "0")
	if readOnly {
		q.Set("_query_only", "1")
	} else {
		q.Set("_pragma", "page_size(8192)")
		q.Set("_foreign_keys", "1")
		q.Set("_journal_mode", "WAL")
		q.Set("_synchronous", string(o.Synchronous))
		q.Set("_txlock", "immediate")
	}
	slashed := filepath.ToSlash(path)
	if !strings.HasPrefix(slashed, "/") {
		slashed = "/" + slashed // C:/x is file:///C:/x
	}
	return fmt.Sprintf("file://%s?%s", (&url.URL{Path: slashed}).EscapedPath(), q.Encode())
}
