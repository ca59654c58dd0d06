package mockworld

import (
	"net/http"
	"time"
)

// FaultKind is what goes wrong.
type FaultKind string

// The kinds of faults. The first group strikes requests, the second webhook
// deliveries; delay and hold strike both.
const (
	// FaultHold keeps the request unhandled until Release or until the
	// client gives up. With After set it is handled first and the response
	// is held.
	FaultHold FaultKind = "hold"
	// FaultDropRequest cuts the connection without handling.
	FaultDropRequest FaultKind = "drop-request"
	// FaultDropResponse handles the request, then cuts the connection.
	FaultDropResponse FaultKind = "drop-response"
	// FaultRefuse answers Status, Headers and Body without handling.
	FaultRefuse FaultKind = "refuse"
	// FaultDelay waits Delay by the world's clock, then goes on.
	FaultDelay FaultKind = "delay"

	// FaultDuplicate sends a delivery twice, with one GUID.
	FaultDuplicate FaultKind = "duplicate"
	// FaultReorder sends a delivery after the one that follows it.
	FaultReorder FaultKind = "reorder"
	// FaultLose records a delivery as failed and never sends it.
	FaultLose FaultKind = "lose"
)

// Match says what a fault strikes; empty fields match everything.
type Match struct {
	// Method and Path (a regular expression, unanchored) match a request.
	// Path is as in Request.Path.
	Method string `json:"method,omitempty"`
	Path   string `json:"path,omitempty"`
	// Actor is the login that asks.
	Actor string `json:"actor,omitempty"`
	// Event matches a webhook delivery: "issues" or "issues.labeled". A
	// Match with Event never matches requests.
	Event string `json:"event,omitempty"`
	// Nth is the first of the matching ones to be struck, from 1; 0 is 1.
	Nth int `json:"nth,omitempty"`
}

// Fault is one thing that goes wrong, as data.
type Fault struct {
	// Name is for Release and for reading logs.
	Name  string    `json:"name,omitempty"`
	Match Match     `json:"match"`
	Kind  FaultKind `json:"kind,omitempty"`
	// Times is how many matching ones are struck; 0 is one, -1 all.
	Times int `json:"times,omitempty"`
	// After makes a hold come after handling.
	After bool `json:"after,omitempty"`
	// Delay is for FaultDelay; nanoseconds in JSON.
	Delay time.Duration `json:"delay,omitempty"`
	// Status, Headers and Body are for FaultRefuse; Status 0 is 503.
	Status  int         `json:"status,omitempty"`
	Headers http.Header `json:"headers,omitempty"`
	Body    string      `json:"body,omitempty"`
}
