package intake_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/pipelinebot/pipelinebot/checkpoints/memory"
	"github.com/pipelinebot/pipelinebot/internal/intake"
)

const (
	// examplesPackage is the example payloads that GitHub's clients are tested
	// with.
	examplesPackage = "@octokit/webhooks-examples@7.6.1"
	// examplesDir, in the environment, is a folder in which it is installed;
	// without it, it is installed anew.
	examplesDir = "PIPELINEBOT_EXAMPLES"
)

// ignoredOf says why an example leaves nothing behind: its kind means nothing
// to the pipeline, or its action does not. Whatever is not listed here must be
// stored or noted.
func ignoredOf() map[string]string {
	return map[string]string{
		"issue_comment deleted": "what a comment asked for is not undone by deleting it",
		"issues":                "these change nothing that starts or ends work",
		"issues assigned":       "", "issues unassigned": "", "issues milestoned": "", "issues demilestoned": "",
		"issues pinned": "", "issues unpinned": "", "issues unlocked": "", "issues typed": "", "issues untyped": "",
		"pull_request":          "labels, people and drafts of a pull request start nothing; its reviews, checks and pushes come by themselves",
		"pull_request assigned": "", "pull_request unassigned": "", "pull_request labeled": "", "pull_request unlabeled": "",
		"pull_request opened": "", "pull_request reopened": "", "pull_request edited": "", "pull_request locked": "", "pull_request unlocked": "",
		"pull_request ready_for_review": "", "pull_request converted_to_draft": "", "pull_request review_requested": "",
		"pull_request review_request_removed": "", "pull_request auto_merge_enabled": "", "pull_request auto_merge_disabled": "",
		"pull_request milestoned": "", "pull_request demilestoned": "", "pull_request dequeued": "", "pull_request enqueued": "",
		"check_run requested_action": "a button on the check run of another App",
	}
}

// examples returns the folder of the package, or skips.
func examples(t *testing.T) string {
	t.Helper()
	dir := os.Getenv(examplesDir)
	if dir == "" {
		if testing.Short() {
			t.Skip("the example payloads are not installed in a short run")
		}
		npm, err := exec.LookPath("npm")
		if err != nil {
			t.Skipf("the example payloads need npm to be installed: %v", err)
		}
		dir = t.TempDir()
		cmd := exec.Command(npm, "install", "--prefix", dir, "--no-package-lock", "--no-audit", "--no-fund", "--loglevel=error", examplesPackage)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Skipf("the example payloads can't be installed: %v: %s", err, out)
		}
	}
	return filepath.Join(dir, "node_modules", "@octokit", "webhooks-examples")
}

// Every published example is stored, noted, or ignored for a reason that is
// stated here; none is refused and none panics.
func TestThePublishedExamplesAreTaken(t *testing.T) {
	t.Parallel()
	root := examples(t)
	sets, err := filepath.Glob(filepath.Join(root, "*", "index.json"))
	if err != nil || len(sets) == 0 {
		t.Fatalf("no examples in %s: %v", root, err)
	}
	reasons := ignoredOf()
	for _, set := range sets {
		data, err := os.ReadFile(set)
		if err != nil {
			t.Fatal(err)
		}
		var kinds []struct {
			Name     string            `json:"name"`
			Examples []json.RawMessage `json:"examples"`
		}
		if err := json.Unmarshal(data, &kinds); err != nil {
			t.Fatal(err)
		}
		counts, total, known := map[string]int{}, 0, map[string]bool{}
		for _, kind := range intake.Kinds() {
			known[kind] = true
		}
		for _, kind := range kinds {
			for i, body := range kind.Examples {
				var head struct{ Action string }
				_ = json.Unmarshal(body, &head)
				action := strings.TrimSpace(kind.Name + " " + head.Action)
				outcome := ""
				store := memory.New(memory.Options{})
				h := handler(store, func(o *intake.Options) { o.Observe = func(_, what string) { outcome = what } })
				w := httptest.NewRecorder()
				h.ServeHTTP(w, delivery(kind.Name, fmt.Sprintf("%s-%d", kind.Name, i), string(body)))
				total++
				counts[outcome]++
				if w.Code != http.StatusAccepted && w.Code != http.StatusOK {
					t.Errorf("%s, example %d: answered %d %s", action, i, w.Code, w.Body)
				}
				if _, stated := reasons[action]; outcome == "ignored" && known[kind.Name] && !stated {
					t.Errorf("%s, example %d: ignored without a stated reason", action, i)
				}
				if n := len(rows(t, store)); (outcome == "stored") != (n == 1) {
					t.Errorf("%s, example %d: %s with %d rows", action, i, outcome, n)
				}
			}
		}
		var line []string
		for _, outcome := range slices.Sorted(maps.Keys(counts)) {
			line = append(line, fmt.Sprintf("%s %d", outcome, counts[outcome]))
		}
		t.Logf("%s: %d examples of %d kinds: %s", filepath.Base(filepath.Dir(set)), total, len(kinds), strings.Join(line, ", "))
	}
}
