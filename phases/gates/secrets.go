package gates

import (
	"fmt"
	"math"
	"strings"
	"sync"

	"github.com/spf13/viper"
	"github.com/zricethezav/gitleaks/v8/config"

	"github.com/pipelinebot/pipelinebot/internal/workspace"
)

// genericRule is the one rule that guesses by entropy alone; lock files and
// vendored folders are full of such strings, so only this rule respects the
// rule set's list of ignored paths.
const genericRule = "generic-api-key"

// secretRules are the rules embedded in gitleaks, compiled once and never
// changed: about 220 expressions.
var secretRules = sync.OnceValues(func() (config.Config, error) {
	v := viper.New()
	v.SetConfigType("toml")
	if err := v.ReadConfig(strings.NewReader(config.DefaultConfig)); err != nil {
		return config.Config{}, fmt.Errorf("reading secret rules: %w", err)
	}
	var raw config.ViperConfig
	if err := v.Unmarshal(&raw); err != nil {
		return config.Config{}, fmt.Errorf("decoding secret rules: %w", err)
	}
	rules, err := raw.Translate()
	if err != nil {
		return config.Config{}, fmt.Errorf("compiling secret rules: %w", err)
	}
	return rules, nil
})

// checkSecrets looks for credentials in the added lines. Text never repeats
// what was found. In-line allow marks are not honoured: whoever writes the
// secret could write the mark.
func checkSecrets(files []workspace.File, p patch) []Finding {
	rules, err := secretRules()
	if err != nil {
		return []Finding{{Code: CodeSecret, Text: "the secret rules could not be loaded, so nothing was checked: " + err.Error(), Fatal: true}}
	}
	var found []Finding
	for _, f := range files {
		if f.Status == "D" {
			continue
		}
		for _, id := range rules.OrderedRules {
			if r := rules.Rules[id]; r.Regex == nil && r.Path != nil && r.Path.MatchString(f.Path) {
				found = append(found, Finding{Code: CodeSecret, Path: f.Path, Text: "the file itself is a credential (rule " + id + ")", Fatal: true})
			}
		}
	}
	for _, f := range p {
		for _, block := range blocks(f.added) {
			found = append(found, scanBlock(rules, f.path, block)...)
		}
	}
	return found
}

// block is a stretch of consecutive added lines, so that a key over several
// lines is seen whole.
type block struct {
	first int
	text  string
}

func blocks(lines []addedLine) []block {
	var out []block
	for start := 0; start < len(lines); {
		end := start + 1
		for end < len(lines) && lines[end].number == lines[end-1].number+1 {
			end++
		}
		texts := make([]string, 0, end-start)
		for _, l := range lines[start:end] {
			texts = append(texts, l.text)
		}
		out = append(out, block{lines[start].number, strings.Join(texts, "\n")})
		start = end
	}
	return out
}

func scanBlock(rules config.Config, path string, b block) []Finding {
	var found []Finding
	lower := strings.ToLower(b.text)
	lines := map[int]bool{} // one finding a line: several rules often agree
	for _, id := range rules.OrderedRules {
		r := rules.Rules[id]
		if r.Regex == nil || (r.Path != nil && !r.Path.MatchString(path)) || !hasKeyword(lower, r.Keywords) {
			continue
		}
		if id == genericRule && allowedPath(rules.Allowlists, path) || allowedPath(r.Allowlists, path) {
			continue
		}
		for _, at := range r.Regex.FindAllStringIndex(b.text, -1) {
			line := b.first + strings.Count(b.text[:at[0]], "\n")
			match := strings.Trim(b.text[at[0]:at[1]], "\n")
			if lines[line] || !isSecret(rules, r, path, match, wholeLine(b.text, at[0])) {
				continue
			}
			lines[line] = true
			found = append(found, Finding{Code: CodeSecret, Path: path, Fatal: true,
				Text: fmt.Sprintf("line %d looks like a credential (rule %s); take it from the environment instead", line, id)})
		}
	}
	return found
}

func hasKeyword(lower string, keywords []string) bool {
	for _, k := range keywords {
		if strings.Contains(lower, k) {
			return true
		}
	}
	return len(keywords) == 0
}

// isSecret applies what the rule asks beyond its expression: entropy of the
// captured part and the allow lists for examples and placeholders.
func isSecret(rules config.Config, r config.Rule, path, match, line string) bool {
	text := match
	if groups := r.Regex.FindStringSubmatch(match); len(groups) > 1 {
		if r.SecretGroup > 0 && r.SecretGroup < len(groups) {
			text = groups[r.SecretGroup]
		} else {
			for _, g := range groups[1:] {
				if g != "" {
					text = g
					break
				}
			}
		}
	}
	if r.Entropy > 0 && entropy(text) <= r.Entropy {
		return false
	}
	return !allowed(rules.Allowlists, "", text, match, line) && !allowed(r.Allowlists, path, text, match, line)
}

// allowed follows the rule set's meaning: any criterion is enough, unless the
// list asks for all that it has.
func allowed(lists []*config.Allowlist, path, text, match, line string) bool {
	for _, a := range lists {
		target := text
		switch a.RegexTarget {
		case "match":
			target = match
		case "line":
			target = line
		}
		var has, met int
		check := func(present, ok bool) {
			if present {
				has++
				if ok {
					met++
				}
			}
		}
		check(len(a.Regexes) > 0, len(a.Regexes) > 0 && a.RegexAllowed(target))
		if len(a.StopWords) > 0 {
			ok, _ := a.ContainsStopWord(text)
			check(true, ok)
		}
		check(len(a.Paths) > 0, path != "" && len(a.Paths) > 0 && a.PathAllowed(path))
		check(len(a.Commits) > 0, false)
		if a.MatchCondition == config.AllowlistMatchAnd && has > 0 && met == has ||
			a.MatchCondition == config.AllowlistMatchOr && met > 0 {
			return true
		}
	}
	return false
}

// allowedPath is for lists that need nothing but the path.
func allowedPath(lists []*config.Allowlist, path string) bool {
	for _, a := range lists {
		if len(a.Paths) > 0 && a.MatchCondition == config.AllowlistMatchOr && a.PathAllowed(path) {
			return true
		}
	}
	return false
}

func wholeLine(text string, at int) string {
	from := strings.LastIndexByte(text[:at], '\n') + 1
	if to := strings.IndexByte(text[at:], '\n'); to >= 0 {
		return text[from : at+to]
	}
	return text[from:]
}

// entropy is Shannon's, in bits a character.
func entropy(s string) float64 {
	counts := map[rune]int{}
	for _, c := range s {
		counts[c]++
	}
	var bits float64
	for _, n := range counts {
		p := float64(n) / float64(len(s))
		bits -= p * math.Log2(p)
	}
	return bits
}
