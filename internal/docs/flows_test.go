package docs_test

import (
	"bytes"
	stdcmp "cmp"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"

	"github.com/pipelinebot/pipelinebot/flows"
	"github.com/pipelinebot/pipelinebot/flows/templates"
	"github.com/pipelinebot/pipelinebot/internal/app"
	"github.com/pipelinebot/pipelinebot/internal/cli"
	"github.com/pipelinebot/pipelinebot/internal/docs"
	"github.com/pipelinebot/pipelinebot/internal/flowscript"
	"github.com/pipelinebot/pipelinebot/labels"
	"github.com/pipelinebot/pipelinebot/phases/delivery"
)

func read(t *testing.T, name string) string {
	t.Helper()
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(page)
}

func registry(t testing.TB) *flows.Registry {
	t.Helper()
	reg, err := app.Registry()
	if err != nil {
		t.Fatal(err)
	}
	return reg
}

// examples are the whole flows of the guide by name.
func examples(t *testing.T) map[string]*flows.Flow {
	t.Helper()
	found := map[string]*flows.Flow{}
	for _, f := range docs.Fences(read(t, "flows.md")) {
		if f.Lang != "yaml" || !strings.HasPrefix(f.Text, "apiVersion:") {
			continue
		}
		flow, problems := flows.Load("docs/flows.md", []byte(f.Text), registry(t))
		if len(problems) > 0 {
			t.Errorf("the example at line %d (add that to the lines below) is refused:\n%v", f.Line-1, problems)
			continue
		}
		found[flow.Name()] = flow
	}
	if len(found) < 3 && !t.Failed() {
		t.Fatalf("only %d whole flows found: the walk is broken", len(found))
	}
	return found
}

var scriptName = regexp.MustCompile(`^# script: ([a-z0-9-]+)\n`)

// The guide's flows are those that a new user copies; each is played by
// a script that stands there too.
func TestGuidesFlowsArePlayed(t *testing.T) {
	t.Parallel()
	all := examples(t)
	played := map[string]bool{}
	for _, f := range docs.Fences(read(t, "flows.md")) {
		m := scriptName.FindStringSubmatch(f.Text)
		if m == nil {
			continue
		}
		flow := all[m[1]]
		if flow == nil {
			t.Errorf("line %d: there is no flow %s to play", f.Line, m[1])
			continue
		}
		script, err := flowscript.Load("docs/flows.md", []byte(f.Text))
		if err != nil {
			t.Errorf("the script at line %d is refused:\n%v", f.Line-1, err)
			continue
		}
		if script.Expect == nil {
			t.Errorf("line %d: the script expects nothing", f.Line)
		}
		rep, err := flowscript.Run(t.Context(), flow, registry(t), script)
		if err != nil {
			t.Errorf("the script at line %d: %v", f.Line-1, err)
			continue
		}
		if !rep.OK() {
			t.Errorf("the script at line %d:\n%s\n%s", f.Line, strings.Join(rep.Unmet, "\n"), rep)
		}
		played[m[1]] = true
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if !played[name] {
			t.Errorf("the flow %s has no script", name)
		}
	}
}

// Parts of flows in the guide have the keys of the format.
func TestGuidesPartsAreYAMLOfTheFormat(t *testing.T) {
	t.Parallel()
	known := map[string]bool{}
	for _, o := range objects(t) {
		for _, key := range o.keys {
			known[key] = true
		}
	}
	key := regexp.MustCompile(`(?m)^(?:- \{?)?([a-z_]+): `)
	for _, f := range docs.Fences(read(t, "flows.md")) {
		if f.Lang == "yaml" {
			var v any
			if err := yaml.Unmarshal([]byte(f.Text), &v); err != nil {
				t.Errorf("the block at line %d is no YAML: %v", f.Line, err)
			}
		}
		if f.Lang != "yaml" || strings.HasPrefix(f.Text, "apiVersion:") || scriptName.MatchString(f.Text) {
			continue
		}
		for _, m := range key.FindAllStringSubmatch(f.Text, -1) {
			if !known[m[1]] {
				t.Errorf("the block at line %d has the key %s, which the format lacks", f.Line, m[1])
			}
		}
	}
}

// object is a mapping of the format: the section that explains it, its keys,
// and the words that their values may be.
type object struct {
	section     string
	keys, words []string
}

type schema struct {
	Properties           map[string]schema `json:"properties"`
	AdditionalProperties json.RawMessage   `json:"additionalProperties"`
	Items                *schema           `json:"items"`
	OneOf                []schema          `json:"oneOf"`
	Enum                 []string          `json:"enum"`
	Const                string            `json:"const"`
}

// UnmarshalJSON implements json.Unmarshaler; the schema true allows anything.
func (s *schema) UnmarshalJSON(raw []byte) error {
	if string(raw) == "true" {
		return nil
	}
	type plain schema
	return json.Unmarshal(raw, (*plain)(s))
}

// objects are those of the JSON Schema.
func objects(t *testing.T) []object {
	t.Helper()
	raw, err := flows.JSONSchema()
	if err != nil {
		t.Fatal(err)
	}
	var top, field schema
	if err := json.Unmarshal(raw, &top); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(top.Properties["state"].AdditionalProperties, &field); err != nil {
		t.Fatal(err)
	}
	all := []object{
		top.object("Top of the file"), field.object("State"),
		top.Properties["limits"].object("Limits"), top.Properties["concurrency"].object("Concurrency"),
		top.Properties["edges"].Items.object("Edges"),
	}
	for _, node := range top.Properties["nodes"].Items.OneOf {
		kind := node.Properties["kind"].Const
		if kind == "step" {
			all = append(all, node.Properties["budget"].object("Budget"), node.Properties["retry"].object("Retry"))
		}
		o := node.object("`" + kind + "`")
		o.words = append(o.words, kind)
		all = append(all, o)
	}
	for _, o := range all {
		if len(o.keys) == 0 {
			t.Fatalf("the schema has no keys for %s: the walk is broken", o.section)
		}
	}
	return all
}

func (s schema) object(section string) object {
	o := object{section: section, keys: slices.Sorted(maps.Keys(s.Properties))}
	for _, p := range s.Properties {
		o.words = append(o.words, p.Enum...)
		if p.Items != nil {
			o.words = append(o.words, p.Items.Enum...)
		}
	}
	return o
}

// Every key of the format is explained in the section of the guide that is
// about its mapping, with every word that its value may be.
func TestGuideExplainsEveryKey(t *testing.T) {
	t.Parallel()
	text := map[string]string{}
	for _, s := range docs.Sections(read(t, "flows.md")) {
		if text[s.Title] != "" {
			t.Errorf("two sections are called %s", s.Title)
		}
		text[s.Title] = s.Text
	}
	nodes, ok := text["Nodes"]
	if !ok {
		t.Fatal("there is no section Nodes")
	}
	for _, o := range objects(t) {
		section, ok := text[o.section]
		if !ok {
			t.Errorf("there is no section %s", o.section)
			continue
		}
		for _, word := range append(o.keys, o.words...) {
			if !strings.Contains(section, "`"+word+"`") && !strings.Contains(o.section, "`"+word+"`") && (word != "id" && word != "kind" || !strings.Contains(nodes, "`"+word+"`")) {
				t.Errorf("the section %s does not explain `%s`", o.section, word)
			}
		}
	}
}

// Every problem code stands in the guide with what to do about it, and no
// other does.
func TestGuideExplainsEveryCode(t *testing.T) {
	t.Parallel()
	_, page, ok := strings.Cut(read(t, "flows.md"), "\n## Problem codes\n")
	if !ok {
		t.Fatal("there is no section Problem codes")
	}
	found := map[string]string{}
	for _, m := range regexp.MustCompile("(?m)^\\| `([a-z-]+)` \\| (.+?) \\| (.+) \\|$").FindAllStringSubmatch(page, -1) {
		if strings.TrimSpace(m[3]) == "" {
			t.Errorf("nothing says what to do about %s", m[1])
		}
		found[m[1]] = m[2]
	}
	if diff := cmp.Diff(flows.Codes(), found); diff != "" {
		t.Errorf("codes (-program +guide):\n%s", diff)
	}
}

// Every outcome of the program stands in the guide's table of them.
func TestGuideExplainsEveryOutcome(t *testing.T) {
	t.Parallel()
	page := read(t, "flows.md")
	for _, o := range []flows.Outcome{
		flows.OK, flows.Failed, flows.Timeout, flows.Budget, flows.Denied, flows.Exhausted, flows.Skipped, flows.Stopped,
	} {
		if !strings.Contains(page, "| `"+string(o)+"` | ") {
			t.Errorf("no row explains the outcome %s", o)
		}
	}
}

// Every command about flows and runs is in the guide, and no other.
func TestGuideNamesEveryCommand(t *testing.T) {
	t.Parallel()
	page := read(t, "flows.md")
	named := map[string]bool{}
	for _, m := range regexp.MustCompile("`pipelinebot (flow|runs) ([a-z]+)").FindAllStringSubmatch(page, -1) {
		named[m[1]+" "+m[2]] = true
	}
	for _, group := range []string{"flow", "runs"} {
		for _, name := range subcommands(t, group) {
			if !named[group+" "+name] {
				t.Errorf("the guide does not name `pipelinebot %s %s`", group, name)
			}
			delete(named, group+" "+name)
			for _, flag := range flags(t, group, name) {
				if !strings.Contains(page, "`--"+flag+"`") && !strings.Contains(page, "`--"+flag+" ") && !strings.Contains(page, " --"+flag+" ") {
					t.Errorf("the guide does not explain --%s of `pipelinebot %s %s`", flag, group, name)
				}
			}
		}
	}
	for name := range named {
		t.Errorf("the guide names `pipelinebot %s`, which there is not", name)
	}
}

// help is what a command says of itself, cut off before a heading.
func help(t *testing.T, after string, command ...string) string {
	t.Helper()
	var out bytes.Buffer
	none := func(string) (string, bool) { return "", false }
	if code := cli.Main(t.Context(), append(command, "--help"), cli.IO{In: strings.NewReader(""), Out: &out, Err: &out, Env: none}); code != cli.ExitOK {
		t.Fatalf("%s --help ends with %d: %s", command, code, out.String())
	}
	_, rest, ok := strings.Cut(out.String(), "\n"+after+"\n")
	if !ok {
		t.Fatalf("%s --help has no %s: %s", command, after, out.String())
	}
	list, _, _ := strings.Cut(rest, "\n\n")
	return list
}

func subcommands(t *testing.T, group string) []string {
	t.Helper()
	var names []string
	for line := range strings.Lines(help(t, "Available Commands:", group)) {
		names = append(names, strings.Fields(line)[0])
	}
	if len(names) < 2 {
		t.Fatalf("only %v found: the walk is broken", names)
	}
	return names
}

// flags are the long names of a command's own flags.
func flags(t *testing.T, command ...string) []string {
	t.Helper()
	var names []string
	for _, m := range regexp.MustCompile(`(?m)^ .*?--([a-z-]+)`).FindAllStringSubmatch(help(t, "Flags:", command...), -1) {
		if m[1] != "help" {
			names = append(names, m[1])
		}
	}
	return names
}

// Every template is in the guide, and no other.
func TestGuideNamesEveryTemplate(t *testing.T) {
	t.Parallel()
	_, rest, ok := strings.Cut(read(t, "flows.md"), "| template | what |\n|---|---|\n")
	if !ok {
		t.Fatal("there is no table of templates")
	}
	table, _, _ := strings.Cut(rest, "\n\n")
	var named, want []string
	for line := range strings.Lines(table) {
		named = append(named, strings.Split(line, "`")[1])
	}
	all, err := templates.All()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range all {
		want = append(want, a.Name)
	}
	if diff := cmp.Diff(want, named); diff != "" {
		t.Errorf("templates (-program +guide):\n%s", diff)
	}
}

// What a result does to the issue is what the label machine says, for every
// phase and also for words that no phase knows.
func TestGuideSaysWhatResultsDo(t *testing.T) {
	t.Parallel()
	section := sectionOf(t, "What a result does to the issue")
	rows := map[string]string{} // phase/result → the label afterwards
	for _, m := range regexp.MustCompile("(?m)^\\| (`[a-z]+`|any) \\| (.+?) \\| (.+?) \\|$").FindAllStringSubmatch(section, -1) {
		for _, result := range strings.Fields(strings.ReplaceAll(m[2], "any other", "other")) {
			rows[strings.Trim(m[1], "`")+"/"+strings.Trim(result, "`")] = m[3]
		}
	}
	names, told := labels.Default(), map[string]bool{}
	say := func(tr labels.Transition) string {
		switch {
		case tr.To == nil:
			return "none"
		case tr.Next != "":
			return "`" + tr.To(names) + "`, and the " + string(tr.Next) + " phase begins"
		}
		return "`" + tr.To(names) + "`"
	}
	other := rows["any/other"]
	for _, tr := range labels.Transitions() {
		key := stdcmp.Or(string(tr.Phase), "any") + "/" + tr.Result
		row, is := rows[key]
		told[key] = is
		if !is {
			row = other
		}
		if tr.Result == labels.Skipped || tr.Result == "cancelled" {
			continue // no flow ends with that
		}
		if row != say(tr) {
			t.Errorf("%s leads to %s, the guide says %q", key, say(tr), row)
		}
	}
	for key := range rows {
		if !told[key] && key != "any/other" {
			t.Errorf("the guide has %s, which no phase knows", key)
		}
	}
	for _, own := range []string{"ok", "changed", "declined"} {
		if got := labels.After(labels.Implement, own); say(got) != other || got.Completes() {
			t.Errorf("%s of an implement flow leads to %s", own, say(got))
		}
	}
	for result, kept := range map[string]bool{"needs_human": true, "no_progress": true, "declined": true, "changed": true, "pr_opened": false} {
		if got := delivery.WorthSaving(&flows.Ended{How: "sink", Result: result}, 0); got != kept {
			t.Errorf("work of a flow that ends with %s is saved: %t", result, got)
		}
	}
	for _, how := range []string{"error", "halted", "cancelled"} {
		if !delivery.WorthSaving(&flows.Ended{How: how}, 0) {
			t.Errorf("work of a flow that is %s is not saved", how)
		}
	}
}

// The mark that the program gives the edge of early ends is explained.
func TestGuideExplainsTheStopEdge(t *testing.T) {
	t.Parallel()
	m := regexp.MustCompile(`(?m)^any node -> done  \[(.+)\]$`).FindStringSubmatch(flows.Layers(examples(t)["tidy-docs"]))
	if m == nil {
		t.Fatal("the layers show no such edge")
	}
	if !strings.Contains(sectionOf(t, "Top of the file"), "`"+m[1]+"`") {
		t.Errorf("the guide does not explain %s", m[1])
	}
}

// A required field is an input, whether it says so or not.
func TestRequiredIsInput(t *testing.T) {
	t.Parallel()
	flow := examples(t)["tidy-docs"]
	if f, ok := flow.Field("issue"); !ok || !f.Required || f.Input {
		t.Fatal("the example has no required field that does not say input")
	}
	if _, err := flowscript.Run(t.Context(), flow, registry(t), flowscript.Script{
		Input: map[string]any{"issue": 7}, Nodes: map[string][]flowscript.Line{
			"issue": {{Delta: map[string]any{"result": "closed"}, Stop: &flowscript.StopLine{Code: "closed"}}},
		},
	}); err != nil {
		t.Error(err)
	}
}

func sectionOf(t *testing.T, title string) string {
	t.Helper()
	for _, s := range docs.Sections(read(t, "flows.md")) {
		if s.Title == title {
			return s.Text
		}
	}
	t.Fatalf("there is no section %s", title)
	return ""
}

// Links within docs/ lead somewhere.
func TestLinksOfThePages(t *testing.T) {
	t.Parallel()
	link := regexp.MustCompile(`\]\(([^)#\s]*)(#[^)\s]+)?\)`)
	for _, name := range []string{"flows.md", "actions.md", "benchmarks.md"} {
		page := read(t, name)
		for _, m := range link.FindAllStringSubmatch(page, -1) {
			target, anchor := m[1], strings.TrimPrefix(m[2], "#")
			if strings.Contains(target, "://") {
				continue
			}
			text := page
			if target != "" {
				raw, err := os.ReadFile(filepath.Join("..", "..", "docs", filepath.FromSlash(target)))
				if err != nil && !errors.Is(err, io.EOF) {
					t.Errorf("%s links to %s: %v", name, target, err)
					continue
				}
				text = string(raw)
			}
			if anchor != "" && !slices.ContainsFunc(docs.Sections(text), func(s docs.Section) bool { return docs.Anchor(s.Title) == anchor }) {
				t.Errorf("%s links to #%s, which is no heading", name, anchor)
			}
		}
	}
}
