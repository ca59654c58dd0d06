package labels

import (
	"fmt"

	"github.com/pipelinebot/pipelinebot/internal/forge"
)

// Rule is one row of the table: the first rule that matches decides.
type Rule struct {
	Name string
	// When and Then say in words what the functions do; docs/states.md is
	// made from them.
	When, Then string
	match      func(m Machine, in Input) bool
	decide     func(m Machine, in Input) Decision
}

// Machine decides with given names and policy.
type Machine struct {
	Names  Names
	Policy Policy
}

// Decide returns what in means. It is total: no input is without an answer,
// and an input that no rule knows is ignored.
func (m Machine) Decide(in Input) Decision {
	for _, r := range Rules() {
		if r.match(m, in) {
			d := r.decide(m, in)
			d.Rule = r.Name
			return d
		}
	}
	return Decision{Action: Ignore, Rule: "none", Why: "nothing in this event concerns the pipeline"}
}

func ignore(format string, args ...any) Decision {
	return Decision{Action: Ignore, Why: fmt.Sprintf(format, args...)}
}

func refuse(format string, args ...any) Decision {
	return Decision{Action: Refuse, Tell: true, Why: fmt.Sprintf(format, args...)}
}

// may reports that the actor has at least permission p. Bots that are listed
// are judged by their permission like people.
func may(in Input, p forge.Permission) bool {
	return in.Actor.Operator || in.Actor.Permission >= p
}

func lacks(in Input, what string, p forge.Permission) Decision {
	return refuse("@%s may not %s: it needs the %s permission or more, and they have %s",
		in.Actor.Login, what, p, in.Actor.Permission)
}

// open reports that there is a run which is neither halted nor ending.
func open(in Input) bool {
	return in.Run != nil && in.Run.Status != "halted" && in.Run.Status != "ending"
}

func halted(in Input) bool { return in.Run != nil && in.Run.Status == "halted" }

// planning reports that an approval can reach the run: it waits for one, or is
// on its way there. The store keeps an event that comes before the wait, so a
// person who is quicker than the bot is heard.
func planning(in Input) bool { return open(in) && in.Run.Phase == Plan }

func awaits(in Input, kind string) bool {
	return in.Run != nil && in.Run.Status == "waiting" && in.Run.Awaits == kind
}

// shown reports that a plan waits which people can see.
func shown(m Machine, in Input) bool {
	return awaits(in, "approval") || planning(in) && Has(in.Issue.Labels, m.Names.AwaitingApproval)
}
