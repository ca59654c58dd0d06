package config

import (
	"fmt"
	"strconv"
)

// Unlimited is the word for no limit. Zero means zero.
const Unlimited = "unlimited"

// Amount is a limit as written: a number not below 0, or "unlimited".
type Amount struct {
	set   bool
	none  bool
	value float64
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (a *Amount) UnmarshalText(text []byte) error {
	if string(text) == Unlimited {
		*a = Amount{set: true, none: true}
		return nil
	}
	v, err := strconv.ParseFloat(string(text), 64)
	if err != nil || !(v >= 0 && v <= 1e15) {
		return fmt.Errorf("want a number not below 0 or the word %q, got %q", Unlimited, text)
	}
	*a = Amount{set: true, value: v}
	return nil
}

// MarshalText implements encoding.TextMarshaler.
func (a Amount) MarshalText() ([]byte, error) {
	switch {
	case !a.set:
		return nil, nil
	case a.none:
		return []byte(Unlimited), nil
	}
	return []byte(strconv.FormatFloat(a.value, 'f', -1, 64)), nil
}

// limit returns the amount times scale, nil for unlimited, and fallback when
// not written.
func (a Amount) limit(scale float64, fallback *int64) *int64 {
	switch {
	case !a.set:
		return fallback
	case a.none:
		return nil
	}
	v := int64(a.value*scale + 0.5)
	return &v
}
