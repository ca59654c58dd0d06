package scenario

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/pipelinebot/pipelinebot/internal/mockworld"
)

// newestDelivery finds what was delivered last of an event such as
// "issues.labeled".
func (r *running) newestDelivery(event string) (mockworld.Delivery, error) {
	for _, d := range slices.Backward(r.world.Deliveries()) {
		if deliveryName(d) == event || d.Event == event {
			return d, nil
		}
	}
	return mockworld.Delivery{}, fmt.Errorf("no delivery of %s yet", event)
}

// redeliver sends a delivery again, several times at once.
func (r *running) redeliver(rd Redeliver) error {
	d, err := r.newestDelivery(rd.Event)
	if err != nil {
		return err
	}
	return r.world.RedeliverTogether(d.ID, max(rd.Times, 1))
}

// sendWebhook sends what GitHub never sent and checks the answer.
func (r *running) sendWebhook(ctx context.Context, h RawWebhook) error {
	event, body := h.Event, h.Body
	if h.Replay != "" {
		d, err := r.newestDelivery(h.Replay)
		if err != nil {
			return err
		}
		event, body = d.Event, d.Payload
	}
	if pad := h.Bytes - len(body); pad > 0 {
		body += strings.Repeat(" ", pad)
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.hooks+"/webhook", strings.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "GitHub-Hookshot/scenario")
	req.Header.Set("X-GitHub-Event", event)
	req.Header.Set("X-GitHub-Delivery", fmt.Sprintf("00000000-0000-4000-8000-%012x", time.Now().UnixNano()&0xffffffffffff))
	if secret := h.Secret; secret != "" {
		if secret == "right" {
			secret = webhookSecret
		}
		mac := hmac.New(sha256.New, []byte(secret))
		mac.Write([]byte(body))
		req.Header.Set("X-Hub-Signature-256", "sha256="+hex.EncodeToString(mac.Sum(nil)))
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return fmt.Errorf("sending a webhook: %w", err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(resp.Body, 1000))
	if err != nil {
		return fmt.Errorf("sending a webhook: %w", err)
	}
	if resp.StatusCode != h.Status {
		return fmt.Errorf("sending a webhook: answered %d (%s), want %d", resp.StatusCode, strings.TrimSpace(string(text)), h.Status)
	}
	return nil
}
