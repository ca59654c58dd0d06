// Package intake brings what happens on the forge into the inbox: by a
// webhook handler and by a poller, as one type of event, durable before it is
// acknowledged.
//
// It must not know what events mean (internal/dispatch decides), nor
// go-github or any database. It may import checkpoints and
// internal/{clock,forge,secret}.
package intake

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/pipelinebot/pipelinebot/checkpoints"
	"github.com/pipelinebot/pipelinebot/internal/forge"
)

// The keys by which both sources name the same thing.

func commentKey(id int64) string { return "comment/" + strconv.FormatInt(id, 10) }

func commentEditKey(id int64, updated time.Time) string { return commentKey(id) + "@" + stamp(updated) }

func issueEditKey(id int64, updated time.Time) string {
	return "issue-edit/" + strconv.FormatInt(id, 10) + "@" + stamp(updated)
}

func logKey(kind forge.EventKind, id int64) string {
	if kind == forge.Labeled || kind == forge.Unlabeled {
		return "label-event/" + strconv.FormatInt(id, 10)
	}
	return "issue-event/" + strconv.FormatInt(id, 10)
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// ToldLater is the name of the cursor that says that a webhook told of the
// event of that key after it was known; its value is the delivery.
func ToldLater(key string) string { return "webhook/" + key }

// receive makes an event durable. fresh is false when it was known.
func receive(ctx context.Context, inbox checkpoints.Inbox, ev forge.Event, delivery, key string, now time.Time) (fresh bool, err error) {
	body, err := json.Marshal(ev)
	if err != nil {
		return false, fmt.Errorf("encoding an event of %s: %w", ev.Issue, err)
	}
	fresh, err = inbox.Receive(ctx, checkpoints.InboxEvent{Delivery: delivery, Key: key, Kind: string(ev.Kind), Body: body, At: now})
	if err != nil {
		return false, fmt.Errorf("storing an event of %s: %w", ev.Issue, err)
	}
	return fresh, nil
}
