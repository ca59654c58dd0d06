package labels

import "github.com/pipelinebot/pipelinebot/internal/forge"

func phaseRules() []Rule {
	return []Rule{
		{
			Name: "approved", When: "the approved or the auto label is added while a plan waits", Then: "approve the plan if the actor may",
			match: func(m Machine, in Input) bool {
				// A label names no hash: it counts only once the plan is shown.
				return in.Event.Kind == forge.Labeled && shown(m, in) &&
					(Same(in.Event.Label, m.Names.Approved) || Same(in.Event.Label, m.Names.Auto))
			},
			decide: func(m Machine, in Input) Decision {
				if !may(in, m.Policy.Approve) {
					d := lacks(in, "approve a plan", m.Policy.Approve)
					if Has(in.Issue.Labels, in.Event.Label) {
						d.Deltas = []Delta{{Label: in.Event.Label, Reason: d.Why}}
					}
					return d
				}
				return Decision{
					Action: Deliver, Deliver: "approval", Why: "@" + in.Actor.Login + " approved the plan by label",
					Data: map[string]any{"by": in.Actor.Login, "via": "label", "hash": ""},
				}
			},
		},
		{
			Name: "phase", When: "a phase label is added", Then: "start, resume, or say why not",
			match: func(m Machine, in Input) bool {
				if in.Event.Kind != forge.Labeled && in.Event.Kind != forge.ManualRun {
					return false
				}
				_, ok := m.Names.Of(in.Event.Label)
				return ok && !Same(in.Event.Label, m.Names.AwaitingApproval)
			},
			decide: begin,
		},
		{
			Name: "withdrawn", When: "a person removes the label of the run's phase", Then: "cancel, work saved",
			match: func(m Machine, in Input) bool {
				p, ok := m.Names.Of(in.Event.Label)
				return in.Event.Kind == forge.Unlabeled && ok && in.Run != nil && in.Run.Phase == p
			},
			decide: func(m Machine, in Input) Decision {
				switch {
				case m.Names.Holds(in.Issue.Labels, in.Run.Phase):
					return ignore("the %s label is on the issue again", in.Run.Phase)
				case halted(in):
					return ignore("the work is halted anyway; add the label again to resume it")
				case in.Run.Status == "ending":
					return ignore("the phase is over already")
				}
				return Decision{
					Action: Cancel, Why: "@" + in.Actor.Login + " removed the " + in.Event.Label + " label",
					Data: map[string]any{"result": "cancelled"},
				}
			},
		},
	}
}

// begin decides on an added phase label.
func begin(m Machine, in Input) Decision {
	p, _ := m.Names.Of(in.Event.Label)
	need := m.Policy.Start[p]
	present := m.Names.present(in.Issue.Labels)
	manual := in.Event.Kind == forge.ManualRun
	switch {
	case !manual && !Has(in.Issue.Labels, in.Event.Label):
		return ignore("the %s label is gone again", in.Event.Label)
	case in.Issue.Pull:
		return refuse("the pipeline starts from an issue, and this is a pull request")
	case !in.Issue.Open:
		return ignore("the issue is closed")
	case in.Issue.Locked:
		return refuse("the issue is locked")
	case !may(in, need):
		d := lacks(in, "start the "+string(p)+" phase", need)
		d.Deltas = []Delta{{Label: in.Event.Label, Reason: d.Why}}
		return d
	case in.Stopped:
		return refuse("a stop is in force: remove the %s or %s label first", m.Names.Stop, m.Names.StopAll)
	case in.Run != nil && in.Run.Status == "ending":
		return Decision{Action: Later, Why: "the " + string(in.Run.Phase) + " phase is just ending"}
	case open(in) && in.Run.Phase == p:
		return ignore("the %s phase is running already", p)
	case open(in):
		d := refuse("the issue is in the %s phase: let it end or remove its label first", in.Run.Phase)
		d.Deltas = []Delta{{Label: in.Event.Label, Reason: d.Why}}
		return d
	}
	d := Decision{Action: Start, Phase: p, Why: "@" + in.Actor.Login + " asked for the " + string(p) + " phase"}
	if manual && !Has(in.Issue.Labels, in.Event.Label) {
		d.Deltas = []Delta{{Add: true, Label: in.Event.Label, Reason: d.Why}}
	}
	// The earliest phase wins: it skips no check.
	if len(present) > 1 {
		d.Tell = true
		d.Phase = present[0]
		d.Why = "the issue has several phase labels; the earliest, " + m.Names.For(d.Phase) + ", wins over"
		for _, other := range present[1:] {
			for _, l := range in.Issue.Labels {
				if q, ok := m.Names.Of(l); ok && q == other {
					d.Why += " " + l
					d.Deltas = append(d.Deltas, Delta{Label: l, Reason: "an earlier phase goes first"})
				}
			}
		}
	}
	if halted(in) {
		d.Action = Resume
		if in.Run.Phase != d.Phase {
			d.Action = Replace
		}
	}
	return d
}
