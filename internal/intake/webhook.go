package intake

import (
	"errors"
	"io"
	"log/slog"
	"mime"
	"net/http"
	"net/url"
	"strconv"

	"github.com/pipelinebot/pipelinebot/checkpoints"
	"github.com/pipelinebot/pipelinebot/internal/clock"
	"github.com/pipelinebot/pipelinebot/internal/forge"
	"github.com/pipelinebot/pipelinebot/internal/secret"
)

// maxDelivery is GitHub's own cap of a delivery,
// https://docs.github.com/webhooks/webhook-events-and-payloads#payload-cap.
const maxDelivery = 25 << 20

// Options are the parts of the webhook handler.
type Options struct {
	// Secrets are those that a delivery may be signed with; more than one
	// while a secret is being changed. Without any, everything is refused.
	Secrets []secret.Value
	Inbox   checkpoints.Inbox
	// Clock may be nil for the machine's, Log for none.
	Clock clock.Clock
	Log   *slog.Logger
	// MaxBody bounds a delivery in bytes; 0, and anything larger, is 25 MiB.
	MaxBody int64
	// Skip marks comments that are never news, such as the bot's own status
	// comment; nil for none.
	Skip func(forge.Comment) bool
	// Name reports that a repository is one to work in, and under which name
	// the bot knows it: it may have been renamed, its id stays. nil serves all
	// by the name they have. An organisation's webhook and a GitHub App tell
	// of others, too.
	Name func(now forge.Repo, id int64) (known forge.Repo, ok bool)
	// Wants reports that an event is to have a row; nil for all that name an
	// issue, a pull request or a commit. Of the others Told is all that
	// happens.
	Wants func(forge.Event) bool
	// Told is called for each event of a repository that is served (or of no
	// repository), after its row is stored; it may be nil and must be quick.
	Told func(forge.Event)
	// Observe counts: the kind of a delivery ("issues") and what became of
	// it: stored, duplicate, noted (needs no row), ignored (the kind or the
	// action means nothing), skipped, foreign, ping, malformed, unsigned,
	// too-large, busy, failed. It may be nil.
	Observe func(kind, outcome string)
}

// Handler receives GitHub's webhooks. It answers 202 only after the event's
// row is durable: 401 for a bad signature, 413 for too large a body, 405 and
// 400 for what is no delivery, 503 when the store fails or too many come at
// once. Kinds and actions that mean nothing and repositories that are not
// served are acknowledged and leave no row.
func Handler(o Options) http.Handler {
	if o.Clock == nil {
		o.Clock = clock.Real{}
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.MaxBody <= 0 || o.MaxBody > maxDelivery {
		o.MaxBody = maxDelivery
	}
	if o.Skip == nil {
		o.Skip = func(forge.Comment) bool { return false }
	}
	if o.Observe == nil {
		o.Observe = func(string, string) {}
	}
	if o.Name == nil {
		o.Name = func(now forge.Repo, _ int64) (forge.Repo, bool) { return now, true }
	}
	if o.Wants == nil {
		o.Wants = func(forge.Event) bool { return true }
	}
	if o.Told == nil {
		o.Told = func(forge.Event) {}
	}
	return &hook{o, newSlots()}
}

type hook struct {
	Options
	slots slots
}

// ServeHTTP implements http.Handler.
func (h *hook) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		http.Error(w, "webhooks are sent by POST", http.StatusMethodNotAllowed)
		return
	}
	release := h.slots.take(r.Context(), r.ContentLength)
	if release == nil {
		h.Observe("", "busy")
		http.Error(w, "too many deliveries at once; deliver it again", http.StatusServiceUnavailable)
		return
	}
	defer release()
	body, code := h.read(w, r)
	if code != 0 {
		h.Observe("", map[bool]string{true: "too-large", false: "malformed"}[code == http.StatusRequestEntityTooLarge])
		http.Error(w, http.StatusText(code), code)
		return
	}
	delivery := r.Header.Get("X-GitHub-Delivery")
	if !signed(h.Secrets, body, r.Header.Get("X-Hub-Signature-256")) {
		h.Observe("", "unsigned")
		h.Log.WarnContext(r.Context(), "webhook refused: its signature does not match", "delivery", printable(delivery), "remote", r.RemoteAddr)
		http.Error(w, "the signature does not match", http.StatusUnauthorized)
		return
	}
	outcome, code, answer := h.accept(r, delivery, body)
	h.Observe(printable(r.Header.Get("X-GitHub-Event")), outcome)
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(code)
	_, _ = io.WriteString(w, answer+"\n")
}

// read returns the body, or the status to refuse it with.
func (h *hook) read(w http.ResponseWriter, r *http.Request) ([]byte, int) {
	if r.ContentLength > h.MaxBody {
		w.Header().Set("Connection", "close") // the rest is not read
		return nil, http.StatusRequestEntityTooLarge
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, h.MaxBody))
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return nil, http.StatusRequestEntityTooLarge
	case err != nil:
		return nil, http.StatusBadRequest
	default:
		return body, 0
	}
}

// accept is what becomes of a delivery that is signed.
func (h *hook) accept(r *http.Request, delivery string, body []byte) (outcome string, code int, answer string) {
	kind := r.Header.Get("X-GitHub-Event")
	if kind == "" || delivery == "" || delivery != printable(delivery) {
		return "malformed", http.StatusBadRequest, "X-GitHub-Event and X-GitHub-Delivery are needed"
	}
	if kind == "ping" {
		return "ping", http.StatusOK, "pong"
	}
	body, err := unwrap(r.Header.Get("Content-Type"), body)
	if err != nil {
		return "malformed", http.StatusBadRequest, err.Error()
	}
	now := h.Clock.Now()
	got, ok, err := decode(kind, body, now)
	ctx := r.Context()
	log := h.Log.With("delivery", delivery)
	switch {
	case err != nil:
		log.WarnContext(ctx, "webhook refused: it can't be read", "event", printable(kind), "error", err)
		return "malformed", http.StatusBadRequest, err.Error()
	case !ok:
		return "ignored", http.StatusAccepted, "nothing to do"
	case !h.serves(&got.event):
		log.InfoContext(ctx, "webhook ignored: its repository is not in the configuration", "issue", got.event.Issue.String())
		return "foreign", http.StatusAccepted, "this repository is not served"
	case !rowed(got.event) || !h.Wants(got.event):
		h.Told(got.event)
		log.DebugContext(ctx, "webhook noted", "repo", got.event.Issue.Repo.String(), "event", string(got.event.Kind), "action", got.event.Action)
		return "noted", http.StatusAccepted, "noted"
	case got.event.Comment != nil && h.Skip(*got.event.Comment):
		return "skipped", http.StatusAccepted, "nothing to do"
	}
	fresh, err := receive(ctx, h.Inbox, got.event, delivery, got.key, now)
	switch {
	case err != nil:
		log.ErrorContext(ctx, "webhook not stored", "issue", got.event.Issue.String(), "error", err)
		return "failed", http.StatusServiceUnavailable, "not stored; deliver it again"
	case !fresh:
		h.Told(got.event)
		if got.key != "" { // for the report of what webhooks miss; it is no harm to lose it
			if err := h.Inbox.SetCursor(ctx, ToldLater(got.key), delivery); err != nil {
				log.WarnContext(ctx, "that a webhook told of a known event was not noted", "error", err)
			}
		}
		return "duplicate", http.StatusAccepted, "known already"
	default:
		h.Told(got.event)
		log.InfoContext(ctx, "webhook stored", "issue", got.event.Issue.String(), "event", string(got.event.Kind))
		return "stored", http.StatusAccepted, "stored"
	}
}

// serves gives the event's repository the name by which it is known. An
// installation's event concerns no single one. What it was called before is
// tried, too: that is how a new name is learnt.
func (h *hook) serves(ev *forge.Event) bool {
	if ev.Kind == forge.InstallationChanged {
		return true
	}
	known, ok := h.Name(ev.Issue.Repo, ev.RepoID)
	if !ok && ev.Kind == forge.RepoChanged && ev.Was != "" {
		if before, err := forge.ParseRepo(ev.Was); err == nil {
			known, ok = h.Name(before, ev.RepoID)
		}
	}
	if ok && ev.Kind != forge.RepoChanged { // that one says both names
		ev.Issue.Repo = known
	}
	return ok
}

// rowed reports that an event names something that work may be waiting for.
func rowed(ev forge.Event) bool {
	return ev.Issue.Number > 0 || ev.Pull > 0 || (ev.Kind == forge.ChecksChanged || ev.Kind == forge.Pushed) && ev.SHA != ""
}

// unwrap takes the JSON out of the two content types that GitHub offers.
func unwrap(contentType string, body []byte) ([]byte, error) {
	kind, _, err := mime.ParseMediaType(contentType)
	switch {
	case err == nil && kind == "application/json":
		return body, nil
	case err == nil && kind == "application/x-www-form-urlencoded":
		form, err := url.ParseQuery(string(body))
		if err != nil || form.Get("payload") == "" {
			return nil, errors.New("the form holds no payload")
		}
		return []byte(form.Get("payload")), nil
	default:
		return nil, errors.New("want the content type application/json, not " + strconv.Quote(printable(contentType)))
	}
}

// printable bounds a header's text for logs and counters, and refuses nothing
// that GitHub sends.
func printable(s string) string {
	const most = 100
	out := make([]byte, 0, min(len(s), most))
	for i := 0; i < len(s) && i < most; i++ {
		if c := s[i]; c > ' ' && c < 0x7f {
			out = append(out, c)
		}
	}
	return string(out)
}
