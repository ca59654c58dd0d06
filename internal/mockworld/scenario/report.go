package scenario

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Report is how a scenario went.
type Report struct {
	Name   string        `json:"name"`
	File   string        `json:"file"`
	Passed bool          `json:"passed"`
	Took   time.Duration `json:"took_ns"`
	// Mismatches are the claims that did not hold, each with its place.
	Mismatches []Placed `json:"mismatches,omitempty"`
	// Events is everything that happened, in order.
	Events []Event `json:"events"`
	// Seen is the world at the end.
	Seen Seen `json:"seen"`
	// Points are those that were reached, in order; Early counts those before
	// the program was up, where nothing is tried. Struck reports that the one
	// that was asked for was reached.
	Points []Point `json:"points,omitempty"`
	Early  int     `json:"early,omitempty"`
	Struck bool    `json:"struck,omitempty"`
}

// Placed is a mismatch with the place of its claim, "file:line:column".
type Placed struct {
	Mismatch
	Place string `json:"place"`
}

// report judges the end.
func (r *running) report(ctx context.Context) Report {
	r.mu.Lock()
	r.runsAt = time.Time{} // the books as they are now
	r.mu.Unlock()
	for _, name := range r.faultsLeft() {
		r.complainOnce("fault %s never struck", name)
	}
	if _, exited, _ := r.bots.state(); exited && !r.s.awaitsExit() {
		r.complainOnce("the bot ended by itself")
	}
	seen, err := r.look(ctx)
	if err != nil {
		r.complain("%v", err)
		seen.Trouble = append(seen.Trouble, err.Error())
	}
	rep := Report{Name: r.s.Name, File: r.s.File, Took: time.Since(r.began), Seen: seen}
	for _, m := range r.judge(seen) {
		rep.Mismatches = append(rep.Mismatches, Placed{m, r.s.Place(m.Path)})
	}
	rep.Passed = len(rep.Mismatches) == 0
	r.mu.Lock()
	defer r.mu.Unlock()
	rep.Points, rep.Struck, rep.Early = r.points, r.struck, r.early
	rep.Events = append(rep.Events, r.events...)
	return rep
}

func (r *running) complainOnce(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, t := range r.trouble {
		if t == text {
			return
		}
	}
	r.trouble = append(r.trouble, text)
}

func (s *Scenario) awaitsExit() bool {
	for _, st := range s.Timeline {
		if st.After.BotExited {
			return true
		}
	}
	return false
}

// poll tells the many requests that only look.
func (e Event) poll() bool { return e.Kind == "request" && strings.HasPrefix(e.Text, "GET ") }

// String is the report for people: one line when it passed, else every
// mismatch and the last events before the end, reads aside.
func (r Report) String() string {
	var b strings.Builder
	verdict := "ok  "
	if !r.Passed {
		verdict = "FAIL"
	}
	fmt.Fprintf(&b, "%s %s (%s, %.1fs)\n", verdict, r.Name, r.File, r.Took.Seconds())
	if r.Passed {
		return b.String()
	}
	for _, m := range r.Mismatches {
		fmt.Fprintf(&b, "  %s: %s\n", m.Place, strings.ReplaceAll(m.String(), "\n", "\n  "))
	}
	const most = 40
	events := slices.DeleteFunc(slices.Clone(r.Events), Event.poll)
	if len(events) > most {
		fmt.Fprintf(&b, "  the last %d of %d events:\n", most, len(events))
		events = events[len(events)-most:]
	} else {
		b.WriteString("  what happened:\n")
	}
	for _, e := range events {
		fmt.Fprintf(&b, "    %s %-8s %s\n", e.At.Format("15:04:05.000"), e.Kind, e.Text)
	}
	return b.String()
}
