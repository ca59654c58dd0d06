package scenario

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pipelinebot/pipelinebot/internal/mockworld"
)

func TestPointIsReadAsItIsWritten(t *testing.T) {
	t.Parallel()
	for _, p := range []Point{
		{"commit", "after", "Commit", 3},
		{"request", "before", "POST /repos/acme/shop/pulls", 1},
		{"model", "after", "implement/code", 12},
		{"command", "before", "sh", 1},
	} {
		got, err := ParsePoint(p.String())
		if err != nil || got != p {
			t.Errorf("%s was read as %v, %v", p, got, err)
		}
	}
	for _, bad := range []string{"", "after", "after commit 3", "within commit Commit 3", "after lunch soup 1", "after commit Commit x", "after commit Commit 0"} {
		if p, err := ParsePoint(bad); err == nil && p.Name != "" {
			t.Errorf("%q was read as %v", bad, p)
		}
	}
}

func FuzzParsePoint(f *testing.F) {
	f.Add("after commit Commit 3")
	f.Fuzz(func(t *testing.T, text string) {
		p, err := ParsePoint(text)
		if err != nil {
			return
		}
		if again, err := ParsePoint(p.String()); err != nil || again != p {
			t.Errorf("%q was read as %v, and that as %v, %v", text, p, again, err)
		}
	})
}

// TestDistinct leaves out only what the clock repeats.
func TestDistinct(t *testing.T) {
	t.Parallel()
	all := []Point{
		{"commit", "after", "Renew", 1},
		{"commit", "after", "Renew", 2},
		{"commit", "after", "Commit", 1},
		{"commit", "after", "Commit", 2},
		{"commit", "after", "Sweep", 2},
		{"model", "before", "Renew", 2},
	}
	want := []Point{all[0], all[2], all[3], all[5]}
	if diff := cmp.Diff(want, Distinct(all)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// world is a small end of a story.
func endWith(comment, label string, sha string, status string) Seen {
	return Seen{
		Repo: "acme/shop", Bot: BotLogin,
		World: mockworld.Snapshot{Repos: map[string]mockworld.RepoState{"acme/shop": {
			Issues: []mockworld.IssueState{{Number: 1, State: "open", Labels: []string{label},
				Comments: []mockworld.CommentState{{Author: BotLogin, Body: comment}}}},
			Branches: map[string]mockworld.BranchState{"pipelinebot/1-" + sha[:8]: {SHA: sha, Commits: 2}},
		}}},
		Runs: []RunView{{Repo: "acme/shop", Issue: 1, Phase: "triage", Status: status}},
	}
}

// TestNormal sees through what is drawn and counted, and through nothing else.
func TestNormal(t *testing.T) {
	t.Parallel()
	one, two := strings.Repeat("ab12", 10), strings.Repeat("cd34", 10)
	base := Normal(endWith("Pushed "+one+"\nCost $0.0125, 1,234 tokens, 5 model calls\n- [x] code: done (2.1s)", "pipeline:done", one, "done"))
	same := Normal(endWith("Pushed "+two+"\nCost $0.02, 99 tokens, 7 model calls\n- [x] code: done", "pipeline:done", two, "done"))
	if d := Diff(base, same); d != "" {
		t.Errorf("what is drawn counts as a difference:\n%s", d)
	}
	for name, other := range map[string]Seen{
		"text":   endWith("Pushed nothing", "pipeline:done", one, "done"),
		"label":  endWith("Pushed "+one, "pipeline:failed", one, "done"),
		"run":    endWith("Pushed "+one, "pipeline:done", one, "failed"),
		"branch": {World: mockworld.Snapshot{}, Bot: BotLogin},
	} {
		if Diff(base, Normal(other)) == "" {
			t.Errorf("%s: a difference was not seen", name)
		}
	}
}

func TestDiffShowsTheLinesThatDiffer(t *testing.T) {
	t.Parallel()
	got := Diff([]string{"comment:\na\nb\nc", "gone"}, []string{"comment:\na\nx\nc", "new", "new"})
	want := "  comment:\n- b\n+ x\n- gone\n+ new\n+ new\n"
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestShuffle hands on every delivery once, in the order that was asked for.
func TestShuffle(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		how  Shuffle
		want string
	}{
		{Shuffle{Swap: 1}, "bacd"},
		{Shuffle{Swap: 3}, "abdc"},
		{Shuffle{Swap: 4}, "abcd"}, // nothing comes after it
		{Shuffle{Reverse: true}, "dcba"},
		{Shuffle{Seed: 7}, ""},
	} {
		t.Run(tt.how.String(), func(t *testing.T) {
			t.Parallel()
			var got []byte
			bot := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				var b bytes.Buffer
				_, _ = b.ReadFrom(r.Body)
				got = append(got, b.Bytes()...)
			}))
			defer bot.Close()
			r := &running{o: Options{Shuffle: &tt.how}, bots: &keeper{current: fixed(bot.URL)}}
			net := httptest.NewServer(r.receiver(t.Context()))
			defer net.Close()
			for _, body := range []string{"a", "b", "c", "d"} {
				resp, err := http.Post(net.URL, "text/plain", strings.NewReader(body))
				if err != nil {
					t.Fatal(err)
				}
				_ = resp.Body.Close()
				for tt.how.Swap > 0 && tt.how.Swap != r.shuffled.seen && !r.calm() {
					<-time.After(time.Millisecond) // keeps the order of those that are not swapped
				}
			}
			for !r.calm() {
				<-time.After(time.Millisecond)
			}
			if tt.want != "" && string(got) != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
			slices.Sort(got)
			if string(got) != "abcd" {
				t.Errorf("handed on %s", got)
			}
		})
	}
}

// fixed is a process that only has an address.
type fixed string

func (fixed) Kill()                {}
func (fixed) Terminate()           {}
func (f fixed) WebhookURL() string { return string(f) }

// Wait and Runs are not called.
func (fixed) Wait(context.Context) error              { return nil }
func (fixed) Runs(context.Context) ([]RunView, error) { return nil, nil }
