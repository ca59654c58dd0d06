package scenario

import (
	"strings"

	"github.com/pipelinebot/pipelinebot/internal/mockworld"
	"github.com/pipelinebot/pipelinebot/internal/mockworld/modelwire"
)

// Seen is everything that expectations are about, at one moment. It is plain
// data, so that a claim can be judged again, or altered and judged.
type Seen struct {
	// Repo is the first repository, which claims mean when they name none;
	// Bot is the login of the bot.
	Repo string `json:"repo"`
	Bot  string `json:"bot"`

	World      mockworld.Snapshot   `json:"world"`
	Requests   []mockworld.Request  `json:"requests"`
	Deliveries []mockworld.Delivery `json:"deliveries"`
	Model      []modelwire.Record   `json:"model"`
	// ModelViolations are the model's; the world's are in World.
	ModelViolations []string `json:"model_violations"`
	// Trouble is what the runner itself could not do.
	Trouble []string  `json:"trouble"`
	Runs    []RunView `json:"runs"`
	// Files is the content at the head of each pull request: repository,
	// number and path as "owner/name#8:dir/file".
	Files map[string]string `json:"files"`
	// Starts is how often the bot was started.
	Starts int `json:"starts"`
}

// RunView is a run as the program's own books have it.
type RunView struct {
	ID     string `json:"id"`
	Repo   string `json:"repo"`
	Issue  int    `json:"issue"`
	Phase  string `json:"phase"`
	Round  int    `json:"round"`
	Status string `json:"status"` // ready, running, waiting, halted, ending, done, failed, cancelled
	Result string `json:"result"`
	Code   string `json:"code"`
	Reason string `json:"reason"`
	// Nodes counts the completed visits by node.
	Nodes map[string]int `json:"nodes"`
	// Tokens is input plus output, MicroUSD millionths of a dollar.
	Tokens     int64 `json:"tokens"`
	ModelCalls int64 `json:"model_calls"`
	MicroUSD   int64 `json:"micro_usd"`
}

func (s Seen) repo(name string) mockworld.RepoState {
	if name == "" {
		name = s.Repo
	}
	return s.World.Repos[name]
}

// who puts the bot's login for "bot".
func (s Seen) who(by string) string {
	if by == "bot" {
		return s.Bot
	}
	return by
}

// isStatus tells the status comment: by the bot, with its marker.
func (s Seen) isStatus(c mockworld.CommentState) bool {
	return c.Author == s.Bot && strings.Contains(c.Body, StatusMarker)
}

// issue finds an issue or the issue side of a pull request.
func (s Seen) issue(repo string, n int) (mockworld.IssueState, bool) {
	if n == 0 {
		n = 1
	}
	r := s.repo(repo)
	for _, i := range r.Issues {
		if i.Number == n {
			return i, true
		}
	}
	for _, p := range r.Pulls {
		if p.Number == n {
			return p.IssueState, true
		}
	}
	return mockworld.IssueState{}, false
}

// pullState is open, closed or merged.
func pullState(p mockworld.PullState) string {
	if p.Merged {
		return "merged"
	}
	return p.State
}
