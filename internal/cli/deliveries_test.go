package cli

import (
	"testing"
	"time"
)

func TestSinceIsADurationADateOrATime(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.Local)
	for text, want := range map[string]time.Time{
		"90m": now.Add(-90 * time.Minute), "0s": now, "7d": now.AddDate(0, 0, -7),
		"2026-11-01": time.Date(2026, 11, 1, 0, 0, 0, 0, time.Local), "2026-11-30T10:00:00Z": time.Date(2026, 11, 30, 10, 0, 0, 0, time.UTC),
		"": {}, "-1h": {}, "-1d": {}, "d": {}, "1.5d": {}, "7days": {}, "yesterday": {}, "99999999d": {},
	} {
		got, err := sinceWhen(text, now)
		if want.IsZero() != (err != nil) || err == nil && !got.Equal(want) {
			t.Errorf("%q: %s, %v; want %s", text, got, err, want)
		}
	}
}
