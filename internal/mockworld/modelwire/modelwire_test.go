package modelwire

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pipelinebot/pipelinebot/internal/clock"
)

const key = "sk-test"

func start(t *testing.T, script Script, clk clock.Clock) (*Server, string) {
	t.Helper()
	s, err := New(Options{Script: script, Key: key, Clock: clk})
	if err != nil {
		t.Fatal(err)
	}
	h := httptest.NewServer(s)
	t.Cleanup(h.Close)
	return s, h.URL
}

func request(t *testing.T, ctx context.Context, url, body string) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("X-Api-Key", key)
	r.Header.Set("Authorization", "Bearer "+key)
	r.Header.Set("Anthropic-Version", "2023-06-01")
	return r
}

func post(t *testing.T, url, body string) (int, http.Header, string) {
	t.Helper()
	resp, err := http.DefaultClient.Do(request(t, t.Context(), url, body))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, resp.Header, string(b)
}

const (
	anthropicAsk = `{"model":"m","max_tokens":9,"system":"[prompt triage/classify@1]\nBe brief.","messages":[{"role":"user","content":"hello"}]%s}`
	openaiAsk    = `{"model":"m","max_tokens":9,"messages":[{"role":"system","content":"[prompt triage/classify@1]\nBe brief."},{"role":"user","content":"hello"}]%s}`
	closed       = `{"type":"object","properties":{"ok":{"type":"boolean"}},"required":["ok"],"additionalProperties":false}`
)

func ask(format, extra string) string { return strings.Replace(format, "%s", extra, 1) }

func TestStructuredAnswers(t *testing.T) {
	t.Parallel()
	yes := map[string]any{"ok": true}
	for name, c := range map[string]struct {
		path, body string
		reply      Reply
		want       []string
	}{
		"anthropic format": {PathMessages, ask(anthropicAsk, `,"output_config":{"format":{"type":"json_schema","schema":`+closed+`}}`), Reply{JSON: yes},
			[]string{`"type":"text"`, `{\"ok\":true}`, `"stop_reason":"end_turn"`}},
		"anthropic forced tool": {PathMessages, ask(anthropicAsk, `,"tools":[{"name":"answer","input_schema":`+closed+`}],"tool_choice":{"type":"tool","name":"answer"}`), Reply{JSON: yes},
			[]string{`"type":"tool_use"`, `"name":"answer"`, `"input":{"ok":true}`, `"stop_reason":"tool_use"`}},
		"anthropic finish": {PathMessages, ask(anthropicAsk, `,"tools":[{"name":"finish","input_schema":`+closed+`}]`), Reply{JSON: yes},
			[]string{`"name":"finish"`, `"input":{"ok":true}`}},
		"anthropic malformed call": {PathMessages, ask(anthropicAsk, `,"tools":[{"name":"finish","input_schema":`+closed+`}]`), Reply{JSON: yes, Malformed: true},
			[]string{`INVALID_JSON`}},
		"anthropic usage": {PathMessages, ask(anthropicAsk, ""), Reply{Text: "hi", Usage: &Usage{Input: 100, Output: 7, Cached: 60}},
			[]string{`"input_tokens":40`, `"cache_read_input_tokens":60`, `"output_tokens":7`}},
		"openai format": {PathCompletions, ask(openaiAsk, `,"response_format":{"type":"json_schema","json_schema":{"name":"a","strict":true,"schema":`+closed+`}}`), Reply{JSON: yes},
			[]string{`"content":"{\"ok\":true}"`, `"finish_reason":"stop"`}},
		"openai forced tool": {PathCompletions, ask(openaiAsk, `,"tools":[{"type":"function","function":{"name":"answer","parameters":`+closed+`}}],"tool_choice":{"type":"function","function":{"name":"answer"}}`), Reply{JSON: yes},
			[]string{`"tool_calls"`, `"name":"answer"`, `"arguments":"{\"ok\":true}"`, `"finish_reason":"tool_calls"`}},
		"openai malformed call": {PathCompletions, ask(openaiAsk, `,"tools":[{"type":"function","function":{"name":"finish","parameters":`+closed+`}}]`), Reply{JSON: yes, Malformed: true},
			[]string{`"arguments":"{\"ok\":true"`}},
		"openai usage": {PathCompletions, ask(openaiAsk, ""), Reply{Text: "hi", Usage: &Usage{Input: 100, Output: 7, Cached: 60}},
			[]string{`"prompt_tokens":100`, `"cached_tokens":60`, `"completion_tokens":7`}},
		"truncated": {PathMessages, ask(anthropicAsk, ""), Reply{Text: "hi", Truncated: true}, []string{`"stop_reason":"max_tokens"`}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, url := start(t, Script{"triage/classify": {c.reply}}, nil)
			status, _, body := post(t, url+c.path, c.body)
			if status != 200 {
				t.Fatalf("status %d: %s", status, body)
			}
			for _, want := range c.want {
				if !strings.Contains(body, want) {
					t.Errorf("body lacks %s:\n%s", want, body)
				}
			}
			if v := s.Violations(); len(v) > 0 {
				t.Errorf("violations: %q", v)
			}
			if r := s.Records(); len(r) != 1 || !r[0].Done || r[0].Status != 200 || r[0].Prompt != "triage/classify" || r[0].Turn != 1 {
				t.Errorf("records: %+v", r)
			}
		})
	}
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	tool := `,"tools":[{"name":"run","input_schema":` + closed + `}]`
	turn := func(rest string) string {
		return `{"model":"m","max_tokens":9,"system":"[prompt triage/classify@1]","messages":[{"role":"user","content":"x"}` + rest + `]}`
	}
	for name, c := range map[string]struct{ path, body, want string }{
		"not JSON":             {PathMessages, `{`, "not valid JSON"},
		"no max_tokens":        {PathMessages, `{"model":"m","system":"[prompt a@1]","messages":[{"role":"user","content":"x"}]}`, "max_tokens: Field required"},
		"zero max_tokens":      {PathMessages, strings.Replace(ask(anthropicAsk, ""), `"max_tokens":9`, `"max_tokens":0`, 1), "max_tokens"},
		"unknown field":        {PathMessages, ask(anthropicAsk, `,"heat":1`), "heat: Extra inputs"},
		"bad role":             {PathMessages, turn(`,{"role":"system","content":"y"}`), "role: Input should be"},
		"prefill":              {PathMessages, turn(`,{"role":"assistant","content":"y"}`), "prefill"},
		"empty text":           {PathMessages, turn(`,{"role":"user","content":[{"type":"text","text":""}]}`), "at least 1 character"},
		"result without use":   {PathMessages, turn(`,{"role":"user","content":[{"type":"tool_result","tool_use_id":"a"}]}`), "unexpected `tool_use_id`"},
		"use without result":   {PathMessages, turn(`,{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"run","input":{}}]},{"role":"user","content":"y"}`), "without `tool_result`"},
		"text before result":   {PathMessages, turn(`,{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"run","input":{}}]},{"role":"user","content":[{"type":"text","text":"y"},{"type":"tool_result","tool_use_id":"a"}]}`), "must come before text"},
		"unknown forced tool":  {PathMessages, ask(anthropicAsk, tool+`,"tool_choice":{"type":"tool","name":"nope"}`), "not found in provided tools"},
		"choice without tools": {PathMessages, ask(anthropicAsk, `,"tool_choice":{"type":"auto"}`), "while providing tools"},
		"open schema":          {PathMessages, ask(anthropicAsk, `,"output_config":{"format":{"type":"json_schema","schema":{"type":"object","properties":{}}}}`), "additionalProperties"},
		"bounded schema":       {PathMessages, ask(anthropicAsk, `,"output_config":{"format":{"type":"json_schema","schema":{"type":"object","additionalProperties":false,"properties":{"a":{"type":"string","maxLength":3}}}}}`), "'maxLength' is not supported"},
		"no prompt mark":       {PathMessages, strings.Replace(ask(anthropicAsk, ""), "[prompt triage/classify@1]", "Hi", 1), "does not open with"},
		"no reply":             {PathMessages, strings.Replace(ask(anthropicAsk, ""), "triage/classify", "plan/draft", 1), "no reply left"},
		"openai empty":         {PathCompletions, `{"model":"m","messages":[]}`, "empty array"},
		"openai stray result":  {PathCompletions, `{"model":"m","messages":[{"role":"tool","tool_call_id":"a","content":"x"}]}`, "must be a response"},
		"openai no result":     {PathCompletions, `{"model":"m","messages":[{"role":"user","content":"x"},{"role":"assistant","tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{}"}}]}]}`, "did not have response messages"},
		"openai optional key":  {PathCompletions, ask(openaiAsk, `,"response_format":{"type":"json_schema","json_schema":{"name":"a","strict":true,"schema":{"type":"object","additionalProperties":false,"properties":{"a":{"type":"string"}}}}}`), "Missing 'a'"},
		"openai both limits":   {PathCompletions, ask(openaiAsk, `,"max_completion_tokens":9`), "at the same time"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, url := start(t, Script{"triage/classify": {{Text: "hi", Repeat: true}}}, nil)
			status, _, body := post(t, url+c.path, c.body)
			if status != 400 || !strings.Contains(body, c.want) {
				t.Errorf("status %d, body %s, want 400 and %q", status, body, c.want)
			}
			if len(s.Violations()) == 0 {
				t.Error("no violation was recorded")
			}
		})
	}
}

func TestRepliesInOrder(t *testing.T) {
	t.Parallel()
	s, url := start(t, Script{
		"triage/classify@1": {{Text: "one", Times: 2}, {Status: 429, RetryAfter: Duration(1500 * time.Millisecond)}, {Text: "last", Repeat: true}},
		"triage/classify":   {{Text: "of another version"}},
	}, nil)
	var got []string
	for range 5 {
		status, header, body := post(t, url+PathMessages, ask(anthropicAsk, ""))
		switch {
		case status == 429:
			got = append(got, "429 after "+header.Get("Retry-After"))
		case strings.Contains(body, "one"):
			got = append(got, "one")
		case strings.Contains(body, "last"):
			got = append(got, "last")
		}
	}
	if d := cmp.Diff([]string{"one", "one", "429 after 2", "last", "last"}, got); d != "" {
		t.Errorf("replies (-want +got):\n%s", d)
	}
	if n := s.Calls("triage/classify@7"); n != 5 {
		t.Errorf("calls = %d, want 5", n)
	}
}

func TestClaims(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		reply Reply
		good  bool
	}{
		"last holds":     {Reply{Text: "x", IfLastContains: "hello"}, true},
		"last lacks":     {Reply{Text: "x", IfLastContains: "Be brief"}, false},
		"request holds":  {Reply{Text: "x", IfContains: "Be brief"}, true},
		"request has it": {Reply{Text: "x", Unless: "hello"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, url := start(t, Script{"triage/classify": {c.reply}}, nil)
			status, _, _ := post(t, url+PathMessages, ask(anthropicAsk, ""))
			if (status == 200) != c.good || (len(s.Violations()) == 0) != c.good {
				t.Errorf("status %d, violations %q, want good = %v", status, s.Violations(), c.good)
			}
		})
	}
}

func TestScriptThatTheSchemaRefuses(t *testing.T) {
	t.Parallel()
	body := ask(anthropicAsk, `,"output_config":{"format":{"type":"json_schema","schema":`+closed+`}}`)
	wrong := Reply{JSON: map[string]any{"ok": "maybe"}}
	s, url := start(t, Script{"triage/classify": {wrong}}, nil)
	if status, _, b := post(t, url+PathMessages, body); status != 400 || len(s.Violations()) != 1 {
		t.Errorf("status %d (%s), want 400 and a violation", status, b)
	}
	wrong.OffSchema = true
	_, url = start(t, Script{"triage/classify": {wrong}}, nil)
	if status, _, b := post(t, url+PathMessages, body); status != 200 {
		t.Errorf("off_schema: status %d: %s", status, b)
	}
}

func TestDelayEndsWithTheClockOrTheClient(t *testing.T) {
	t.Parallel()
	clk := clock.NewFake(time.Unix(0, 0))
	s, url := start(t, Script{"triage/classify": {{Text: "late", Delay: Duration(10 * time.Minute), Repeat: true}}}, clk)
	until := func(what string, ok func() bool) {
		for deadline := time.After(5 * time.Second); ; {
			changed := s.Changed()
			if ok() {
				return
			}
			select {
			case <-changed:
			case <-deadline:
				t.Errorf("waited in vain: %s", what)
				return
			}
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	failed := make(chan error, 1)
	go func() {
		_, err := http.DefaultClient.Do(request(t, ctx, url+PathMessages, ask(anthropicAsk, "")))
		failed <- err
	}()
	until("the request arrives", func() bool { return s.InFlight("triage/classify") == 1 })
	cancel()
	if err := <-failed; !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled request: %v", err)
	}
	until("the cancel is seen", func() bool { return s.InFlight("") == 0 })
	if r := s.Records(); !r[0].Cancelled {
		t.Errorf("record: %+v, want cancelled", r[0])
	}

	answered := make(chan int, 1)
	go func() {
		resp, err := http.DefaultClient.Do(request(t, t.Context(), url+PathMessages, ask(anthropicAsk, "")))
		if err != nil {
			answered <- 0
			return
		}
		resp.Body.Close()
		answered <- resp.StatusCode
	}()
	for clk.Waiting() == 0 {
		until("the second arrives", func() bool { return s.InFlight("") == 1 })
		runtime.Gosched() // the timer follows at once
	}
	clk.Advance(10 * time.Minute)
	if got := <-answered; got != 200 {
		t.Errorf("after the delay: status %d, want 200", got)
	}
}

func TestCut(t *testing.T) {
	t.Parallel()
	for _, stream := range []string{"", `,"stream":true`} {
		for path, format := range map[string]string{PathMessages: anthropicAsk, PathCompletions: openaiAsk} {
			s, url := start(t, Script{"triage/classify": {{Text: "a long answer", Cut: true}}}, nil)
			resp, err := http.DefaultClient.Do(request(t, t.Context(), url+path, ask(format, stream)))
			if err != nil {
				t.Fatal(err)
			}
			b, err := io.ReadAll(resp.Body)
			resp.Body.Close()
			if !errors.Is(err, io.ErrUnexpectedEOF) || len(b) == 0 {
				t.Errorf("%s%s: %d bytes, err %v, want part of an answer and a cut", path, stream, len(b), err)
			}
			if r := s.Records(); !r[0].Cut {
				t.Errorf("record %+v, want cut", r[0])
			}
		}
	}
}

func TestStreams(t *testing.T) {
	t.Parallel()
	tool := map[string]string{
		PathMessages:    `,"stream":true,"tools":[{"name":"run","input_schema":{"type":"object"}}]`,
		PathCompletions: `,"stream":true,"stream_options":{"include_usage":true},"tools":[{"type":"function","function":{"name":"run","parameters":{"type":"object"}}}]`,
	}
	reply := Reply{Text: "Grüße", Calls: []Call{{Name: "run", Input: map[string]any{"a": "ß"}}}, Usage: &Usage{Input: 5, Output: 3}}
	for path, format := range map[string]string{PathMessages: anthropicAsk, PathCompletions: openaiAsk} {
		_, url := start(t, Script{"triage/classify": {reply}}, nil)
		_, header, body := post(t, url+path, ask(format, tool[path]))
		if ct := header.Get("Content-Type"); !strings.HasPrefix(ct, "text/event-stream") {
			t.Errorf("%s: content type %s", path, ct)
		}
		text, args := joinStream(t, body)
		if text != "Grüße" || args != `{"a":"ß"}` {
			t.Errorf("%s: text %q, arguments %q:\n%s", path, text, args, body)
		}
	}
}

// joinStream adds up the deltas of either vendor.
func joinStream(t *testing.T, body string) (text, args string) {
	t.Helper()
	for sc := bufio.NewScanner(strings.NewReader(body)); sc.Scan(); {
		data, ok := strings.CutPrefix(sc.Text(), "data: ")
		if !ok || data == "[DONE]" {
			continue
		}
		var e struct {
			Delta struct {
				Text string `json:"text"`
				Part string `json:"partial_json"`
			}
			Choices []struct {
				Delta struct {
					Content string
					Calls   []struct{ Function struct{ Arguments string } } `json:"tool_calls"`
				}
			}
		}
		if err := json.Unmarshal([]byte(data), &e); err != nil {
			t.Fatalf("%s: %v", data, err)
		}
		text += e.Delta.Text
		args += e.Delta.Part
		for _, c := range e.Choices {
			text += c.Delta.Content
			for _, call := range c.Delta.Calls {
				args += call.Function.Arguments
			}
		}
	}
	return text, args
}

func TestKey(t *testing.T) {
	t.Parallel()
	s, url := start(t, Script{"triage/classify": {{Text: "hi"}}}, nil)
	for path, format := range map[string]string{PathMessages: anthropicAsk, PathCompletions: openaiAsk} {
		r := request(t, t.Context(), url+path, ask(format, ""))
		r.Header.Set("X-Api-Key", "wrong")
		r.Header.Set("Authorization", "Bearer wrong")
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != 401 {
			t.Errorf("%s: status %d, want 401", path, resp.StatusCode)
		}
	}
	if n := s.Calls("triage/classify"); n != 0 {
		t.Errorf("calls = %d, want 0", n)
	}
}

func TestToolLoopCountsTurns(t *testing.T) {
	t.Parallel()
	s, url := start(t, Script{"triage/classify": {{Text: "x", IfLastContains: "3 passed"}}}, nil)
	body := `{"model":"m","max_tokens":9,"system":[{"type":"text","text":"[prompt triage/classify@1]","cache_control":{"type":"ephemeral"}}],"messages":[
		{"role":"user","content":"x"},
		{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"run","input":{}}]},
		{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":[{"type":"text","text":"3 passed, 0 failed"}],"is_error":false}]}]}`
	if status, _, b := post(t, url+PathMessages, body); status != 200 {
		t.Fatalf("status %d: %s", status, b)
	}
	if r := s.Records(); r[0].Turn != 2 {
		t.Errorf("turn = %d, want 2", r[0].Turn)
	}
}

func TestScriptCheck(t *testing.T) {
	t.Parallel()
	err := Script{
		"a": {},
		"b": {{}, {Text: "x", Repeat: true}, {JSON: 1, Status: 429}},
		"c": {{Status: 200}, {Text: "x", RetryAfter: 1}},
	}.Check()
	for _, want := range []string{"a: no replies", "b, reply 1: says nothing", "b, reply 2: repeat", "b, reply 3: json, calls and status", "c, reply 1: status 200", "c, reply 2: retry_after"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error lacks %q: %v", want, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(ask(anthropicAsk, "")))
	f.Add([]byte(ask(openaiAsk, `,"tools":[{"type":"function","function":{"name":"f"}}]`)))
	f.Add([]byte(`{"messages":[{"role":"user","content":[{"type":"tool_result"}]}]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, v := range []vendor{anthropic{}, openai{}} {
			q, err := v.parse(b)
			if err == nil && q.model == "" {
				t.Errorf("%s took a request without a model", v.name())
			}
		}
	})
}
