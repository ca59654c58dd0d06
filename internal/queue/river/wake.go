package river

import (
	"context"
	"fmt"

	"github.com/riverqueue/river/riverdriver"
	"github.com/riverqueue/river/riverdriver/riversqlite"

	"github.com/pipelinebot/pipelinebot/internal/queue"
)

// insertTopic is the topic on which River's producers listen.
const insertTopic = "river_insert"

// driver is River's SQLite driver with notifications that stay in the
// process. River's own are rows of a table that is polled twenty times a
// second; one daemon a file has no need of them.
type driver struct {
	*riversqlite.Driver
	wake *wake
}

// GetListener implements riverdriver.Driver.
func (d driver) GetListener(p *riverdriver.GetListenenerParams) riverdriver.Listener {
	return listener{wake: d.wake, schema: p.Schema}
}

// SupportsListenNotify implements riverdriver.Driver: nothing is written.
func (driver) SupportsListenNotify() bool { return false }

// wake says that a queue may have a new token; saying it twice before
// somebody listens is saying it once.
//
// It is said inside the transaction that inserts the token. The producer then
// asks for tokens through the one connection, which is free when that
// transaction has ended: it can't look too early.
type wake struct{ run, event chan struct{} }

func newWake() *wake { return &wake{make(chan struct{}, 1), make(chan struct{}, 1)} }

func (w *wake) say(k queue.Kind) {
	c := w.run
	if k == queue.Event {
		c = w.event
	}
	select {
	case c <- struct{}{}:
	default:
	}
}

// listener implements riverdriver.Listener over a wake.
type listener struct {
	wake   *wake
	schema string
}

func (listener) Close(context.Context) error            { return nil }
func (listener) Connect(context.Context) error          { return nil }
func (listener) Listen(context.Context, string) error   { return nil }
func (listener) Ping(context.Context) error             { return nil }
func (l listener) Schema() string                       { return l.schema }
func (listener) SetAfterConnectExec(string)             {}
func (listener) Unlisten(context.Context, string) error { return nil }

func (l listener) WaitForNotification(ctx context.Context) (*riverdriver.Notification, error) {
	kind := queue.Run
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-l.wake.run:
	case <-l.wake.event:
		kind = queue.Event
	}
	return &riverdriver.Notification{Topic: insertTopic, Payload: fmt.Sprintf(`{"queue":%q}`, kind)}, nil
}
