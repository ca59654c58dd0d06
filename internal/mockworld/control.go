package mockworld

import (
	"encoding/json"
	"net/http"
	"strconv"
)

// controlPath lies below the prefix, beside api and git.
const controlPath = "/_world/"

// control lets another process look at a served world and act on it where
// GitHub has no API: GET snapshot, requests, deliveries and violations as
// JSON, POST redeliver?id=, release?name= and fault (a Fault as JSON). It is
// no part of GitHub: it is neither logged nor limited, and faults spare it.
func (w *World) control(rw http.ResponseWriter, r *http.Request, what string, body []byte) {
	var out any = obj{"ok": true}
	var err error
	switch r.Method + " " + what {
	case "GET snapshot":
		out, err = w.Snapshot()
	case "GET requests":
		out = w.Requests()
	case "GET deliveries":
		out = w.Deliveries()
	case "GET violations":
		out = append([]string{}, w.Violations()...)
	case "POST redeliver":
		var id int64
		if id, err = strconv.ParseInt(r.URL.Query().Get("id"), 10, 64); err == nil {
			err = w.Redeliver(id)
		}
	case "POST release":
		err = w.Release(r.URL.Query().Get("name"))
	case "POST fault":
		var f Fault
		if err = json.Unmarshal(body, &f); err == nil {
			err = w.AddFault(f)
		}
	default:
		http.NotFound(rw, r)
		return
	}
	if err != nil {
		http.Error(rw, err.Error(), http.StatusBadRequest)
		return
	}
	rw.Header().Set("Content-Type", "application/json")
	// A client that is gone is its own affair.
	_ = json.NewEncoder(rw).Encode(out)
}
