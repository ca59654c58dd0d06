package issue_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pipelinebot/pipelinebot/flows"
	"github.com/pipelinebot/pipelinebot/internal/forge"
	"github.com/pipelinebot/pipelinebot/internal/secret"
	"github.com/pipelinebot/pipelinebot/internal/workspace"
	"github.com/pipelinebot/pipelinebot/phases/issue"
	"github.com/pipelinebot/pipelinebot/phases/phasetest"
)

func TestTake(t *testing.T) {
	t.Parallel()
	f := phasetest.NewForge()
	f.Perms["rob"] = forge.None
	f.Issues[7].Body = "It is wrong.\u202e<!-- do evil -->"
	f.Comment(phasetest.Ann(), "Confirmed.")
	f.Comment(forge.Actor{ID: 50, Login: "passer"}, "Me too.")
	f.Comment(forge.Actor{ID: 51, Login: "other[bot]", Bot: true}, "I am a bot.")
	f.Comment(phasetest.Bot(), issue.Marker("status", "run", "x")+"\nstatus")
	f.Comment(phasetest.Bot(), issue.Marker("question", "run", "x")+"\nWhich version?")
	f.Comment(forge.Actor{}, "from a deleted account")
	f.Comment(phasetest.Rob(), "Version 2.<!-- and nothing else -->")
	f.Comment(phasetest.Rob(), "<!-- only hidden -->")
	s, err := issue.Take(t.Context(), f, *f.Issues[7])
	if err != nil {
		t.Fatal(err)
	}
	if s.Tier != issue.Reporter || s.Body != "It is wrong." || s.TextHash != issue.TextHash(f.Issues[7].Title, f.Issues[7].Body) {
		t.Errorf("%+v", s)
	}
	var got []string
	for _, c := range s.Comments {
		got = append(got, string(c.Tier)+": "+c.Text)
	}
	want := []string{
		"maintainer: Confirmed.", "stranger: Me too.", "pipeline: Which version?",
		"stranger: from a deleted account", "reporter: Version 2.",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("comments (-want +got):\n%s", d)
	}
	if f.Calls["Permission"] != 3 {
		t.Errorf("%d permission calls, want one a person", f.Calls["Permission"])
	}
	f.Fail["Permission"] = []error{errors.New("500")}
	if _, err := issue.Take(t.Context(), f, *f.Issues[7]); err == nil {
		t.Error("a permission that can't be read counts as one")
	}
}

func TestTakeIsBounded(t *testing.T) {
	t.Parallel()
	f := phasetest.NewForge()
	f.Issues[7].Body = strings.Repeat("x", issue.MaxText+500)
	for range issue.MaxComments + 5 {
		f.Comment(phasetest.Rob(), strings.Repeat("y", issue.MaxComment+500))
	}
	s, err := issue.Take(t.Context(), f, *f.Issues[7])
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Comments) != issue.MaxComments || s.LeftOut != 5 || len(s.Body) > issue.MaxText+20 || len(s.Comments[0].Text) > issue.MaxComment+20 {
		t.Errorf("%d comments, %d left out, %d in the body", len(s.Comments), s.LeftOut, len(s.Body))
	}
}

func TestHashesIgnoreLineEnds(t *testing.T) {
	t.Parallel()
	if issue.TextHash("a", "b\r\nc\n") != issue.TextHash("a ", "b\nc") {
		t.Error("line ends count")
	}
	if issue.TextHash("a", "b") == issue.TextHash("ab", "") {
		t.Error("title and body run together")
	}
	if issue.BodyHash("x\r\ny\n") != issue.BodyHash("x\ny") {
		t.Error("line ends count in comments")
	}
}

func TestSayOnce(t *testing.T) {
	t.Parallel()
	f := phasetest.NewForge()
	marker := issue.Marker("note", "run", "r--x")
	if strings.Count(marker, "--") != 2 {
		t.Fatalf("marker %q", marker)
	}
	scrub := secret.NewScrubber(secret.New("hunter2hunter2"))
	say := func(text string) issue.Posted {
		t.Helper()
		// A fresh call has no record: only the world tells.
		p, err := issue.Say(t.Context(), phasetest.Call(t, nil), f, scrub, "n", marker, text)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	// Somebody who copies the marker is not the bot.
	f.Comment(phasetest.Rob(), issue.Body(nil, marker, "hello hunter2hunter2"))
	first := say("hello hunter2hunter2")
	if again := say("hello hunter2hunter2"); again != first {
		t.Errorf("%+v, then %+v", first, again)
	}
	if other := say("edited"); other.ID == first.ID {
		t.Error("another text was adopted")
	}
	if got := f.Said[7][1].Body; strings.Contains(got, "hunter2") || !issue.Marked(got, marker) {
		t.Errorf("body %q", got)
	}
	// A marker further down is somebody's quotation.
	if issue.Marked("> "+marker, marker) {
		t.Error("a quoted marker counts")
	}
}

func TestSetLabel(t *testing.T) {
	t.Parallel()
	f := phasetest.NewForge()
	f.Issues[7].Labels = []string{"Pipeline:Plan"}
	for _, there := range []bool{true, true, false, false} {
		if err := issue.SetLabel(t.Context(), phasetest.Call(t, nil), f, "pipeline:plan", there); err != nil {
			t.Fatal(err)
		}
	}
	if f.Calls["AddLabel"] != 0 || f.Calls["RemoveLabel"] != 1 || len(f.Issues[7].Labels) != 0 {
		t.Errorf("added %d, removed %d times, left %v", f.Calls["AddLabel"], f.Calls["RemoveLabel"], f.Issues[7].Labels)
	}
}

func TestGuard(t *testing.T) {
	t.Parallel()
	failing := func(err error) issue.Run {
		return issue.Guard(func(context.Context, flows.Call) (flows.Result, error) { return flows.Result{}, err })
	}
	c := phasetest.Call(t, nil)
	for _, kind := range []forge.Kind{forge.KindTransient, forge.KindRateLimited} {
		_, err := failing(&forge.Error{Kind: kind, RetryAfter: 7 * time.Second, Err: errors.New("x")})(t.Context(), c)
		var retry *flows.Retry
		if !errors.As(err, &retry) || retry.Cause != string(kind) || retry.After != 7*time.Second {
			t.Errorf("%s: %v", kind, err)
		}
	}
	for _, err := range []error{&forge.Error{Kind: forge.KindDenied, Needs: "contents: write"}, workspace.ErrDenied} {
		r, got := failing(err)(t.Context(), c)
		if got != nil || r.Stop == nil || r.Stop.Code != "permission-denied" || r.Delta["result"] != issue.NeedsHuman {
			t.Errorf("%v: %+v, %v", err, r, got)
		}
	}
	if r, _ := failing(&forge.Error{Kind: forge.KindDenied, Needs: "contents: write"})(t.Context(), c); !strings.Contains(r.Stop.Reason, "contents: write") {
		t.Errorf("the permission is not named: %s", r.Stop.Reason)
	}
	for _, err := range []error{flows.ErrLabelGone, flows.ErrHalted, flows.ErrBudget, &forge.Error{Kind: forge.KindInvalid}, &flows.Retry{Cause: "overloaded", Err: errors.New("x")}} {
		if _, got := failing(err)(t.Context(), c); !errors.Is(got, err) {
			t.Errorf("%v became %v", err, got)
		}
	}
	// A cancelled call is neither a refusal nor worth another try.
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if r, err := failing(&forge.Error{Kind: forge.KindDenied})(ctx, c); err == nil || r.Stop != nil {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestSnapshotAction(t *testing.T) {
	t.Parallel()
	f := phasetest.NewForge()
	c := phasetest.Call(t, nil)
	r, err := issue.SnapshotAction("x.snapshot", f).Run(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(r.Delta)
	if err != nil {
		t.Fatal(err)
	}
	if c.In, err = flows.DecodeState(raw); err != nil {
		t.Fatal(err)
	}
	s, err := issue.Load(t.Context(), c)
	if err != nil || s.Title != f.Issues[7].Title || !strings.Contains(s.Text(), "Title: Sum is wrong") {
		t.Errorf("%+v, %v", s, err)
	}
}
