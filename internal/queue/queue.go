// Package queue is the contract of the wake-up queue. A job says only "look
// at run R": truth, mutual exclusion and fencing live in checkpoints, so a
// queue may deliver a token twice, late or in another order.
//
// It must not know runs, stores or drivers and imports only the standard
// library.
package queue

import (
	"context"
	"errors"
)

// Kind says what a Token wakes.
type Kind string

// The kinds of token.
const (
	// Run wakes a worker for a run.
	Run Kind = "run"
	// Event wakes the dispatcher for an inbox row.
	Event Kind = "event"
)

// Token is the whole content of a job: ids only, since large job arguments
// stall SQLite.
type Token struct {
	Kind Kind `json:"kind"`
	// ID is a run id or an inbox event id.
	ID string `json:"id"`
	// Epoch is the run's epoch when the token was written; a worker whose
	// token is older than the run gives up. Zero for events.
	Epoch int64 `json:"epoch"`
}

// Handler works on one token. A returned error is logged by the queue and the
// token is dropped: the sweeper, not the queue, brings back work that was
// lost. The context ends when the queue stops hard.
type Handler func(context.Context, Token) error

// Queue delivers tokens to one Handler. Tokens are inserted by the store, in
// the transaction that makes them true; see checkpoints/sqlite.
type Queue interface {
	// Start begins delivery and returns; it may be called once.
	Start(ctx context.Context, h Handler) error
	// Stop takes no new token and waits for the handlers in flight until ctx
	// ends, then cancels them and waits for their return.
	Stop(ctx context.Context) error
}

// ErrStarted is returned by a second Start.
var ErrStarted = errors.New("queue: started already")
