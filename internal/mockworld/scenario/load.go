package scenario

import (
	"fmt"
	"path"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/pipelinebot/pipelinebot/internal/strictyaml"
)

// The defaults of Settle and Timeout.
const (
	defaultSettle  = 300 * time.Millisecond
	defaultTimeout = 2 * time.Minute
)

// Load reads a scenario strictly. The error is a strictyaml.Problems: every
// problem at once, each with file, line and column. name is used in messages.
func Load(name string, src []byte) (*Scenario, error) {
	s := &Scenario{File: name}
	doc, problems := strictyaml.Decode(name, src, s)
	if len(problems) > 0 && !doc.Has("") {
		return nil, problems // it is no YAML, so nothing else can be said
	}
	c := &checker{doc: doc, problems: problems}
	c.head(s)
	c.world(s)
	c.bot(s.Bot)
	for _, p := range s.Model.Problems() {
		at := "model." + p.Prompt
		if p.Reply >= 0 {
			at += fmt.Sprintf("[%d]", p.Reply)
		}
		c.add(at, "", "%s", p.Text)
	}
	for i, st := range s.Timeline {
		c.step(fmt.Sprintf("timeline[%d]", i), st)
	}
	for i, f := range s.Faults {
		c.fault(fmt.Sprintf("faults[%d]", i), f)
	}
	c.expect(s.Expect)
	if len(c.problems) > 0 {
		c.problems.Sort()
		return nil, c.problems
	}
	s.doc = doc
	if s.Settle == 0 {
		s.Settle = defaultSettle
	}
	if s.Timeout == 0 {
		s.Timeout = defaultTimeout
	}
	return s, nil
}

type checker struct {
	doc      *strictyaml.Document
	problems strictyaml.Problems
}

func (c *checker) add(path, hint, format string, args ...any) {
	c.problems = append(c.problems, c.doc.Problem(path, hint, format, args...))
}

func (c *checker) oneOf(path, value string, allowed ...string) {
	if !slices.Contains(allowed, value) {
		c.add(path, "", "%q: want one of %s", value, strings.Join(allowed, ", "))
	}
}

func (c *checker) regex(path, text string) {
	if _, err := regexp.Compile(text); err != nil {
		c.add(path, "", "not a regular expression: %v", err)
	}
}

func (c *checker) head(s *Scenario) {
	if s.Name == "" {
		c.add("name", "say in a sentence what is shown", "missing")
	}
	if len(s.Covers) == 0 {
		c.add("covers", "one of "+strings.Join(Kinds(), ", "), "missing")
	}
	for i, k := range s.Covers {
		c.oneOf(fmt.Sprintf("covers[%d]", i), k, Kinds()...)
	}
	if s.Timeout < 0 || s.Settle < 0 || (s.Timeout > 0 && s.Settle >= s.Timeout) {
		c.add("settle", "", "settle and timeout must be positive, and settle the shorter one")
	}
}

func (c *checker) world(s *Scenario) {
	w := s.World
	c.oneOf("world.auth", w.Auth, "", "token", "app")
	names := map[string]bool{}
	if len(w.Repos) == 0 {
		c.add("world.repos", "", "at least one repository is needed")
	}
	for i, r := range w.Repos {
		p := fmt.Sprintf("world.repos[%d]", i)
		owner, name, ok := strings.Cut(r.Name, "/")
		if !ok || owner == "" || name == "" || strings.Contains(name, "/") {
			c.add(p+".name", "", "%q: want owner/name", r.Name)
		}
		if names[r.Name] {
			c.add(p+".name", "", "%s is there already", r.Name)
		}
		names[r.Name] = true
		for login, role := range r.Roles {
			c.role(p+".roles."+login, role)
		}
		for _, files := range []map[string]string{r.Files, r.Executable, r.Symlinks, r.Submodules} {
			c.paths(p+".files", files)
		}
	}
	for login, typ := range w.Users {
		c.oneOf("world.users."+login, typ, "user", "bot", "organization")
	}
	for i, issue := range w.Issues {
		c.issue(fmt.Sprintf("world.issues[%d]", i), issue)
		if issue.Repo != "" && !names[issue.Repo] {
			c.add(fmt.Sprintf("world.issues[%d].repo", i), "", "%q is not a repository of this world", issue.Repo)
		}
	}
}

func (c *checker) paths(at string, files map[string]string) {
	for f := range files {
		if f != path.Clean(f) || strings.HasPrefix(f, "/") || strings.HasPrefix(f, "..") {
			c.add(at+"."+f, "", "want a clean relative path")
		}
	}
}

func (c *checker) bot(b BotSpec) {
	c.paths("bot.files", b.Files)
	for name := range b.Templates {
		if name != path.Base(name) || name == "." || name == ".." {
			c.add("bot.templates."+name, "", "want the name of a flow")
		}
	}
}

func (c *checker) role(path, role string) {
	c.oneOf(path, role, "none", "read", "triage", "write", "maintain", "admin")
}

func (c *checker) issue(path string, i Issue) {
	if i.Author == "" || i.Title == "" {
		c.add(path, "", "an issue needs an author and a title")
	}
	if i.NoBody && i.Body != "" {
		c.add(path+".no_body", "", "excludes body")
	}
}

// setFields are the json names of the fields of a struct that are set.
func setFields(v any) []string {
	var out []string
	rv := reflect.ValueOf(v)
	for i := range rv.NumField() {
		f := rv.Type().Field(i)
		if f.IsExported() && !rv.Field(i).IsZero() {
			out = append(out, f.Tag.Get("json"))
		}
	}
	return out
}

// ownActs are actions that nobody in the world does.
func ownActs() []string {
	return []string{"check_run", "set_role", "set_permissions", "redeliver", "send_webhook", "release",
		"stop_bot", "start_bot", "second_bot", "advance_clock", "revoke_token", "open_issue", "delete_user"}
}

func (c *checker) step(path string, s Step) {
	acts := setFields(s.Do)
	switch {
	case len(acts) > 1:
		c.add(path+".do", "make it several steps", "one action a step, this has %s", strings.Join(acts, " and "))
	case len(acts) == 0 && len(setFields(s.After)) == 0:
		c.add(path, "", "a step needs an action or something to wait for")
	case len(acts) == 1 && s.Who == "" && !slices.Contains(ownActs(), acts[0]):
		c.add(path+".who", "", "who does it? %s needs an account", acts[0])
	}
	c.when(path+".after", s.After)
	d := s.Do
	if d.StopBot != "" {
		c.oneOf(path+".do.stop_bot", d.StopBot, "kill", "term")
	}
	if d.Open != nil {
		c.issue(path+".do.open_issue", *d.Open)
	}
	if d.EditComment != nil && (d.EditComment.Find == "" || (d.EditComment.Body == "") == (d.EditComment.Append == "")) {
		c.add(path+".do.edit_comment", "", "needs find and one of body and append")
	}
	if d.Review != nil {
		c.oneOf(path+".do.review.event", d.Review.Event, "APPROVE", "REQUEST_CHANGES", "COMMENT")
	}
	for login, role := range d.SetRole {
		c.role(path+".do.set_role."+login, role)
	}
	if d.Forge != nil && d.Forge.Status == 0 {
		c.add(path+".do.send_webhook.status", "", "say what must be answered")
	}
	if d.OpenPull != nil {
		c.paths(path+".do.open_pull.fork_files", d.OpenPull.ForkFiles)
	}
	if d.Redeliver != nil && d.Redeliver.Event == "" {
		c.add(path+".do.redeliver.event", "e.g. issues.labeled", "missing")
	}
}

func (c *checker) when(path string, w When) {
	if w.Pull != "" {
		c.oneOf(path+".pull", w.Pull, "open", "closed", "merged")
	}
	if w.Model != nil && w.Model.Prompt == "" {
		c.add(path+".model.prompt", "", "missing")
	}
	if w.Run != nil && w.Run.Phase == "" {
		c.add(path+".run.phase", "", "missing")
	}
	if w.Request != nil {
		c.regex(path+".request.path", w.Request.Path)
	}
}

func (c *checker) fault(path string, f Fault) {
	c.regex(path+".match.path", f.Match.Path)
	switch {
	case (f.Kind == "") == (f.KillBot == ""):
		c.add(path, "", "needs either kind or kill_bot")
	case f.KillBot != "":
		c.oneOf(path+".kill_bot", f.KillBot, "before", "after")
		if f.Match.Event != "" || (f.Match.Path == "" && f.Match.Method == "") {
			c.add(path+".match", "", "kill_bot needs a request: method, path or both")
		}
	case f.Match.Event != "":
		c.oneOf(path+".kind", f.Kind, "duplicate", "reorder", "lose", "hold", "delay")
	default:
		c.oneOf(path+".kind", f.Kind, "hold", "delay", "drop-request", "drop-response", "refuse")
	}
}
