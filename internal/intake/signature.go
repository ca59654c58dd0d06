package intake

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"github.com/pipelinebot/pipelinebot/internal/secret"
)

// signed reports that header ("sha256=<hex>") is the HMAC-SHA-256 of body
// under one of the secrets. Every secret is tried in constant time; an empty
// secret signs nothing.
func signed(secrets []secret.Value, body []byte, header string) bool {
	text, ok := strings.CutPrefix(header, "sha256=")
	got, err := hex.DecodeString(text)
	if !ok || err != nil || len(got) != sha256.Size {
		return false
	}
	match := false
	for _, s := range secrets {
		if s.Empty() {
			continue
		}
		mac := hmac.New(sha256.New, []byte(s.Reveal()))
		mac.Write(body)
		if hmac.Equal(mac.Sum(nil), got) {
			match = true
		}
	}
	return match
}
