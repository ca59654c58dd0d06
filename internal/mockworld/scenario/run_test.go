package scenario

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// The stand-in for the program: it labels an issue "seen" and comments once
// for each label "go", asks the model about it, and polls. It knows nothing of
// the pipeline; what is tested here is the runner.
type toyLauncher struct {
	mu   sync.Mutex
	done map[string]bool // comments made, kept over restarts
}

type toy struct {
	launcher *toyLauncher
	bot      Bot
	cancel   context.CancelFunc
	stop     func() // ends it once what is under way is done
	gone     chan struct{}
	url      string

	mu   sync.Mutex
	code error
}

// ends keeps how it ended: the first word counts.
func (t *toy) ends(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.code == nil {
		t.code = err
	}
}

func (l *toyLauncher) Start(ctx context.Context, b Bot) (Process, error) {
	if b.Overrides["refuse"] == true {
		return nil, errors.New("configuration is wrong")
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	life, cancel := context.WithCancel(ctx)
	asked, stop := context.WithCancel(life)
	t := &toy{launcher: l, bot: b, cancel: cancel, stop: stop, gone: make(chan struct{}), url: "http://" + ln.Addr().String() + "/hook"}
	events := make(chan struct{}, 100)
	srv := &http.Server{ReadHeaderTimeout: time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Hub-Signature-256") == "" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		events <- struct{}{}
		w.WriteHeader(http.StatusAccepted)
	})}
	go func() { _ = srv.Serve(ln) }()
	go func() {
		defer close(t.gone)
		defer srv.Close()
		poll := time.NewTicker(50 * time.Millisecond)
		defer poll.Stop()
		for {
			if err := t.look(life); err != nil && life.Err() == nil {
				t.ends(err)
				return
			}
			select {
			case <-events:
			case <-poll.C:
			case <-asked.Done():
			}
			if asked.Err() != nil {
				return
			}
		}
	}()
	return t, nil
}

func (t *toy) Kill()              { t.ends(errors.New("killed")); t.cancel() }
func (t *toy) Terminate()         { t.stop() }
func (t *toy) WebhookURL() string { return t.url }

func (t *toy) Wait(ctx context.Context) error {
	select {
	case <-t.gone:
		t.mu.Lock()
		defer t.mu.Unlock()
		return t.code
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (t *toy) Runs(context.Context) ([]RunView, error) {
	t.launcher.mu.Lock()
	defer t.launcher.mu.Unlock()
	var out []RunView
	for range t.launcher.done {
		out = append(out, RunView{Issue: 1, Phase: "toy", Status: "done"})
	}
	return out, nil
}

func (t *toy) call(ctx context.Context, method, url, body string, into any) (int, error) {
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return 0, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/vnd.github+json")
	req.Header.Set("User-Agent", "toy")
	req.Header.Set("Authorization", "Bearer "+t.bot.Token)
	if strings.HasPrefix(url, t.bot.ModelURL) {
		req.Header.Set("Authorization", "Bearer "+t.bot.ModelKey)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, err
	}
	if into != nil && resp.StatusCode < 300 {
		return resp.StatusCode, json.Unmarshal(b, into)
	}
	return resp.StatusCode, nil
}

func (t *toy) look(ctx context.Context) error {
	var issue struct {
		Labels []struct{ Name string }
	}
	api := t.bot.APIURL + "repos/" + t.bot.Repos[0] + "/issues/1"
	if _, err := t.call(ctx, "GET", api, "", &issue); err != nil {
		return err
	}
	for _, l := range issue.Labels {
		if l.Name == "crash" {
			return errors.New("crashed")
		}
		t.launcher.mu.Lock()
		done := t.launcher.done[l.Name]
		t.launcher.mu.Unlock()
		if !strings.HasPrefix(l.Name, "go") || done {
			continue
		}
		ask := `{"model":"m","messages":[{"role":"system","content":"[prompt toy/say@1]"},{"role":"user","content":"` + l.Name + `"}]}`
		var said struct {
			Choices []struct{ Message struct{ Content string } }
		}
		if status, err := t.call(ctx, "POST", t.bot.ModelURL+"/v1/chat/completions", ask, &said); err != nil || status != 200 {
			return fmt.Errorf("model: %d %w", status, err)
		}
		body, _ := json.Marshal(map[string]string{"body": said.Choices[0].Message.Content})
		if _, err := t.call(ctx, "POST", api+"/comments", string(bytes.TrimSpace(body)), nil); err != nil {
			return err
		}
		t.launcher.mu.Lock()
		t.launcher.done[l.Name] = true
		t.launcher.mu.Unlock()
	}
	return nil
}

func play(t *testing.T, src string, o Options) Report {
	t.Helper()
	s, err := Load("t.yaml", []byte(src))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Second)
	defer cancel()
	rep, err := Run(ctx, s, &toyLauncher{done: map[string]bool{}}, o)
	if err != nil {
		t.Fatal(err)
	}
	return rep
}

const toyWorld = `name: Toy
covers: [Delivery]
world:
  repos: [{name: acme/shop, files: {README.md: hi}, roles: {maria: maintain}}]
  issues: [{author: ann, title: Broken}]
`

func TestRunPassesAndEveryClaimBites(t *testing.T) {
	t.Parallel()
	var events []Event
	held := false
	rep := play(t, toyWorld+`
model: {toy/say: [{text: hello}]}
timeline:
  - {who: maria, do: {label: go}}
  - {after: {comment: hello}, do: {redeliver: {event: issues.labeled, times: 3}}}
  - do: {send_webhook: {event: issues, body: "{}", status: 401}}
expect:
  issues: [{labels: [go], comments: [{by: bot, contains: [hello], count: 1}]}]
  model: {toy/say: 1}
  runs: [{phase: toy, status: done}]
  deliveries: [{event: issues.labeled, status: 202, count: 4}]
  bot_starts: 1
  never: [{label: go}, {request: {method: PUT, path: labels}}]
`, Options{Observe: func(e Event) { events = append(events, e) }, Hold: func(_ context.Context, l Live) error {
		held = l.Report.Passed
		return nil
	}})
	if !rep.Passed || !held {
		t.Fatalf("held %v:\n%s", held, rep)
	}
	// What happens after the world was held is observed, but judged no more.
	if len(rep.Events) == 0 || len(events) < len(rep.Events) {
		t.Errorf("%d events were observed, %d reported", len(events), len(rep.Events))
	}
	s, err := Load("t.yaml", []byte(toyWorld+"expect: {issues: [{labels: [go], comments: [{by: bot, contains: [hello], count: 1}]}], model: {toy/say: 1}}"))
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range Mutate(s.Expect) {
		if len(Evaluate(v.Expect, rep.Seen)) == 0 {
			t.Errorf("%s (%s): the altered claim holds", v.Path, v.What)
		}
	}
}

func TestRunFails(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ src, want string }{
		"wrong claim": {`
timeline: [{who: maria, do: {label: bug}}]
expect: {issues: [{labels: [bug, more]}]}`, "want bug, more"},
		"model asked for what the script lacks": {`
timeline: [{who: maria, do: {label: go}}]
expect: {issues: [{labels: [go]}]}`, "no reply left"},
		"a condition that never holds": {`
timeline: [{after: {label: never}, who: maria, do: {label: bug}}]
expect: {issues: [{labels: []}]}`, "waited in vain for label never"},
		"a fault that never struck": {`
faults: [{name: f, kind: refuse, match: {path: /nowhere}}]
expect: {issues: [{labels: []}]}`, "fault f never struck"},
		"a person who may not": {`
timeline: [{who: eve, do: {label: bug}}]
expect: {issues: [{labels: []}]}`, "role triage needed"},
		"a bot that crashes": {`
timeline: [{who: maria, do: {label: crash}}]
expect: {issues: [{labels: [crash, x]}]}`, "the bot ended by itself"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rep := play(t, toyWorld+"settle: 50ms\n"+c.src, Options{Timeout: 4 * time.Second})
			if rep.Passed || !strings.Contains(rep.String(), c.want) {
				t.Errorf("want a failure with %q, got:\n%s", c.want, rep)
			}
		})
	}
}

func TestKillStopAndRestart(t *testing.T) {
	t.Parallel()
	rep := play(t, toyWorld+`
model: {toy/say: [{text: held, delay: 10m}, {text: hello}]}
timeline:
  - {who: maria, do: {label: go}}
  - {after: {model: {prompt: toy/say, in_flight: true}}, do: {stop_bot: kill}}
  - {who: maria, do: {label: bug}}
  - do: {start_bot: true}
  - {after: {comment: hello}, do: {stop_bot: term}}
  - do: {start_bot: true}
expect:
  issues: [{labels: [go, bug], comments: [{by: bot, count: 1}]}]
  model: {toy/say: 2}
  bot_starts: 3
`, Options{})
	if !rep.Passed {
		t.Error(rep)
	}
}

func TestKillByFault(t *testing.T) {
	t.Parallel()
	for stage, comments := range map[string]string{
		// Killed before the comment was made, it makes it after the restart;
		// killed after that, this simple one makes it twice.
		"before": "1", "after": "2",
	} {
		t.Run(stage, func(t *testing.T) {
			t.Parallel()
			rep := play(t, toyWorld+`
model: {toy/say: [{text: hello, repeat: true}]}
timeline: [{who: maria, do: {label: go}}]
faults: [{kill_bot: `+stage+`, match: {method: POST, path: /comments$}}]
expect:
  issues: [{comments: [{by: bot, count: `+comments+`}]}]
  model: {toy/say: 2}
  bot_starts: 2
`, Options{})
			if !rep.Passed {
				t.Error(rep)
			}
		})
	}
}

func TestAdvanceClockReleasesDelays(t *testing.T) {
	t.Parallel()
	rep := play(t, toyWorld+`
model: {toy/say: [{text: hello, delay: 10m}]}
timeline:
  - {who: maria, do: {label: go}}
  - {after: {model: {prompt: toy/say, in_flight: true}}, do: {advance_clock: 11m}}
expect: {issues: [{comments: [{by: bot, contains: [hello]}]}]}
`, Options{})
	if !rep.Passed {
		t.Error(rep)
	}
}

func TestBotThatDoesNotStartIsAnError(t *testing.T) {
	t.Parallel()
	s, err := Load("t.yaml", []byte(toyWorld+"bot: {config: {refuse: true}}\nexpect: {runs: [{count: 0}]}"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Run(t.Context(), s, &toyLauncher{}, Options{}); err == nil || !strings.Contains(err.Error(), "configuration is wrong") {
		t.Errorf("error %v, want the launcher's", err)
	}
}
