// Package secret holds values that must never be printed, and the one
// scrubber that everything stored or sent passes through.
//
// It must not know where secrets come from and imports only the standard
// library.
package secret

import (
	"log/slog"
)

// Stars is what a secret prints as, whatever verb or encoder is used.
const Stars = "****"

// Value is a secret string. Every way of printing or encoding it yields
// Stars; only Reveal returns the text.
type Value struct{ text string }

// New wraps text.
func New(text string) Value { return Value{text} }

// Reveal returns the text. Call it where the secret is used, never before.
func (v Value) Reveal() string { return v.text }

// Empty reports that there is no secret.
func (v Value) Empty() bool { return v.text == "" }

// String implements fmt.Stringer.
func (v Value) String() string { return Stars }

// GoString implements fmt.GoStringer, so that %#v is safe too.
func (v Value) GoString() string { return Stars }

// MarshalText implements encoding.TextMarshaler, which JSON and YAML use.
func (v Value) MarshalText() ([]byte, error) { return []byte(Stars), nil }

// LogValue implements slog.LogValuer.
func (v Value) LogValue() slog.Value { return slog.StringValue(Stars) }
