package modelwire

import "testing"

// TestRewind gives a client that was killed in the second turn of a
// conversation the same answers again, and then what comes next.
func TestRewind(t *testing.T) {
	t.Parallel()
	s, err := New(Options{Key: "k", Script: Script{"a/b": {{Text: "one"}, {Text: "two"}, {Text: "three"}}}})
	if err != nil {
		t.Fatal(err)
	}
	ask := func(hash string, turns int, want string, nth int, again bool) {
		t.Helper()
		r, i, err := s.take(asked{prompt: "a/b@1", hash: hash, turns: turns})
		if err != nil {
			t.Fatal(err)
		}
		if rec := s.Records()[i]; r.Text != want || rec.Nth != nth || rec.Again != again {
			t.Errorf("given %q as request %d, again %v; want %q as %d, %v", r.Text, rec.Nth, rec.Again, want, nth, again)
		}
	}
	ask("h1", 0, "one", 1, false)
	ask("h2", 1, "two", 2, false)
	s.Rewind()
	ask("h1", 0, "one", 1, true)
	ask("other ids", 1, "two", 2, true)
	ask("h3", 2, "three", 3, false)
	if _, _, err := s.take(asked{prompt: "a/b@1", hash: "h4"}); err == nil {
		t.Error("a request beyond the script was answered")
	}
	if got := s.Calls("a/b"); got != 4 {
		t.Errorf("%d requests counted, want 4: repeated ones are none", got)
	}
}
