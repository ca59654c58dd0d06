package app

import "errors"

// ErrSetup marks what an operator must correct before the program can start:
// the data folder, the database file, the address. The text of the error says
// what, where, and what to do.
var ErrSetup = errors.New("app: cannot start as configured")

// setupError is an ErrSetup that keeps its text.
type setupError struct{ error }

func (e setupError) Unwrap() error        { return e.error }
func (e setupError) Is(target error) bool { return target == ErrSetup }

// setup marks an error, if there is one.
func setup(err error) error {
	if err == nil {
		return nil
	}
	return setupError{err}
}
