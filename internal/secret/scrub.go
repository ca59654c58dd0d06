package secret

import (
	"regexp"
	"sort"
	"strings"
	"sync"
)

// shapes are token formats that are replaced even when nobody registered the
// value: GitHub (https://github.blog/2021-04-05-behind-githubs-new-authentication-token-formats/),
// Anthropic and OpenAI keys, bearer headers, URL credentials and PEM keys.
var shapes = []*regexp.Regexp{
	regexp.MustCompile(`\bgh[pousr]_[A-Za-z0-9]{16,255}\b`),
	regexp.MustCompile(`\bgithub_pat_[A-Za-z0-9_]{22,255}\b`),
	regexp.MustCompile(`\bsk-[A-Za-z0-9_-]{20,255}`),
	regexp.MustCompile(`(?i)\bbearer\s+[A-Za-z0-9._~+/=-]{16,}`),
	regexp.MustCompile(`://[^/\s:@]+:[^/\s@]+@`),
	regexp.MustCompile(`-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?-----END [A-Z ]*PRIVATE KEY-----`),
}

// minRegistered is the shortest registered value that is replaced; shorter
// ones would turn ordinary words into stars.
const minRegistered = 6

// Scrubber replaces secrets in text by Stars. It is safe for concurrent use.
type Scrubber struct {
	mu     sync.RWMutex
	values []string // longest first, so that a secret inside another leaves no rest
}

// NewScrubber knows the given values from the start.
func NewScrubber(values ...Value) *Scrubber {
	s := &Scrubber{}
	s.Add(values...)
	return s
}

// Add registers further values, such as a token minted at run time.
func (s *Scrubber) Add(values ...Value) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, v := range values {
		if len(v.text) >= minRegistered && !contains(s.values, v.text) {
			s.values = append(s.values, v.text)
		}
	}
	sort.Slice(s.values, func(i, j int) bool { return len(s.values[i]) > len(s.values[j]) })
}

// Scrub returns text with every registered value and every known token shape
// replaced. A nil Scrubber still replaces the shapes.
func (s *Scrubber) Scrub(text string) string {
	text = s.Known(text)
	for _, re := range shapes {
		text = re.ReplaceAllStringFunc(text, func(m string) string {
			if strings.HasPrefix(m, "://") {
				return "://" + Stars + "@"
			}
			return Stars
		})
	}
	return text
}

// Known replaces only registered values. It is for content that must stay
// exact otherwise, such as a patch: a token in somebody's documentation is
// not ours to change.
func (s *Scrubber) Known(text string) string {
	if s == nil {
		return text
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, v := range s.values {
		text = strings.ReplaceAll(text, v, Stars)
	}
	return text
}

func contains(list []string, v string) bool {
	for _, x := range list {
		if x == v {
			return true
		}
	}
	return false
}
