package replay

import (
	"bytes"
	"encoding/json"
	"net/http"
	"time"

	"github.com/pipelinebot/pipelinebot/internal/app"
)

// momentTime bounds the wait for whoever is told of a moment; a replay that is
// gone must not keep the program.
const momentTime = 30 * time.Second

// Tell is what a program started by a replay calls at each of its moments: it
// posts the moment to url and waits for the answer, which may never come since
// the process was killed. It is nil when url is empty.
func Tell(url string) func(app.Moment) {
	if url == "" {
		return nil
	}
	client := &http.Client{Timeout: momentTime}
	return func(m app.Moment) {
		b, err := json.Marshal(m)
		if err != nil {
			return
		}
		//nolint:noctx // bounded by the client's timeout
		resp, err := client.Post(url, "application/json", bytes.NewReader(b))
		if err == nil { // a replay that is gone wants to know nothing any more
			_ = resp.Body.Close()
		}
	}
}
