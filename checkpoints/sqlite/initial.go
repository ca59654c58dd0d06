package sqlite

import (
	"bytes"
	"compress/flate"
	"encoding/json"
	"fmt"
	"io"
	"sync"
)

// What runs.first says when it is no place in the history.
const (
	emptyInitial   = 0  // the run began with {}
	unknownInitial = -1 // the run began before its start was recorded
)

// worthDeflating is the size, in bytes, from which a state at the start is
// compressed.
const worthDeflating = 512

// putInitial stores the state at the start as row 0 of a run's history and
// returns its place.
func (t *tx) putInitial(run int64, state json.RawMessage) (place int64, err error) {
	if string(state) == "{}" {
		return emptyInitial, nil
	}
	var stored any = string(state)
	if len(state) >= worthDeflating {
		if stored, err = t.deflater.deflate(state); err != nil {
			return 0, err
		}
	}
	res, err := t.ExecContext(t.ctx, `INSERT INTO history (prev, run, seq, node, kind, visit, attempt, outcome, next, delta, guards, event_key, note, usage, began_at, took, input_hash)
		VALUES (0, ?, 0, '', '', 0, 0, '', '', ?, '', '', '', '', 0, 0, '')`, run, stored)
	if err != nil {
		return 0, err
	}
	return res.LastInsertId()
}

// readInitial is the state at the start: stored is what row 0 holds, nil
// without one.
func readInitial(place int64, stored any) (json.RawMessage, error) {
	switch v := stored.(type) {
	case nil:
		if place == emptyInitial {
			return json.RawMessage("{}"), nil
		}
		if place == unknownInitial {
			return nil, nil
		}
		return nil, fmt.Errorf("the history has no row %d", place)
	case string:
		return json.RawMessage(v), nil
	case []byte:
		state, err := io.ReadAll(flate.NewReader(bytes.NewReader(v)))
		return state, err
	default:
		return nil, fmt.Errorf("a %T is no state", stored)
	}
}

// deflater compresses. It is kept, since to make one takes a megabyte and
// longer than all else that starts a run.
type deflater struct {
	mu sync.Mutex
	w  *flate.Writer // nil before its first use
}

func (d *deflater) deflate(text []byte) ([]byte, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	var b bytes.Buffer
	if d.w == nil {
		w, err := flate.NewWriter(&b, flate.BestSpeed)
		if err != nil {
			return nil, err
		}
		d.w = w
	} else {
		d.w.Reset(&b)
	}
	if _, err := d.w.Write(text); err != nil {
		return nil, err
	}
	if err := d.w.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}
