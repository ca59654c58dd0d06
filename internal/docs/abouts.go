package docs

// Abouts explains every action of the program.
func Abouts() map[string]About {
	all := phaseActions()
	for name, a := range ownActions() {
		all[name] = a
	}
	return all
}

func ownActions() map[string]About {
	prompt := []Key{
		{"prompt", "The task, in your words. It takes no templates."},
		{"show", "State fields whose values the model sees, fenced as data. The node's `in` must have them; those that are not set are left out."},
		{"name", "Tells nodes apart: the prompt is called `agent/NAME` in the configuration's `models` and in scenarios."},
		{"max_turns", "The most calls of the model, 1 to 200."},
	}
	return map[string]About{
		"agent.read": {
			What: "A model looks around in the repository, can change nothing, and fills state fields with its answers. `in` needs `base_sha`, and `work_ref` to see the changes so far; `writes` are the fields of `out`. A model that gives no answer is the outcome `failed`.",
			With: append(prompt[:len(prompt):len(prompt)], Key{"out", "State field → type of the answer: `string`, `int`, `bool`, `list` (of texts) or `artifact` (a long text), or `{type: …, about: …, max: …}` with words for the model and a greatest length."}),
			Example: `{"name": "tone", "prompt": "Describe the tone of the documentation.", "show": ["issue_ref"], "max_turns": 20,
 "out": {"tone": "string", "pages": {"type": "list", "about": "paths", "max": 20}}}`,
		},
		"agent.write": {
			What:    "A model changes files in the run's worktree. `in` needs `base_sha`, and `work_ref` to go on from the changes so far. Nothing leaves the machine.",
			With:    prompt,
			Example: `{"name": "fix", "prompt": "Fix what the issue describes.", "show": ["issue_ref", "evidence_ref"], "max_turns": 80}`,
		},
		"command.run": {
			What: "What nodes of kind `command` run; use [that kind](flows.md#command) rather than the action. It works in a worktree at `base_sha` with `work_ref` applied; what the program changes there is not kept.",
			With: []Key{
				{"argv", "The program and its words."}, {"env", "Its environment."}, {"accept", "What must exit with 0 afterwards."},
			},
			Example: `{"argv": ["make", "test"], "env": {"N": "3"}, "accept": [["git", "diff", "--check"]]}`,
		},
		"flow.end": {
			What: "Ends the flow early, in your words.",
			With: []Key{
				{"result", "One of the values of the flow's `result`."}, {"code", "A stable word, such as `nothing-to-do`."}, {"reason", "For people; may have templates."},
				{"list", "A field of the node's `in`, a list of texts with which the reason ends."},
			},
			Example: `{"result": "needs_human", "code": "too-large", "reason": "These files need a person:", "list": "files"}`,
			InFlow:  "In a flow it is a gate that a guarded edge leads to. It sets the result itself. The edge that leaves it is only formal, since every node needs a way to the sink: it is never taken, what is taken is the edge that `stop: {to: done}` makes.",
			Flow: `nodes:
  - {id: too_large, kind: gate, uses: flow.end, in: [files], with: {result: needs_human, code: too-large, reason: "These files need a person:", list: files}}
edges:
  - {from: look, to: too_large, when: "len(state.files) > 40"}
  - {from: look, to: done, set: {result: ok}}
  - {from: too_large, to: done}
`,
		},
		"gates.no_progress": {What: "Keeps the history of attempts and ends the flow with the result `no_progress` when the last one led nowhere: the same content, content of an earlier attempt, or nothing passes that failed before. Put it before the loop, so that it acts before the next attempt is paid for."},
		"issue.read":        {What: "Takes a snapshot of the issue and its comments, each with its author's standing. Ends the flow with `closed` when the issue is closed."},
		"pull.open": {
			What: "Commits the work, pushes it to the branch of the issue and opens a pull request, or updates the one that is open. It refuses content on which the tests did not pass. Sets the result `pr_opened`.",
			With: []Key{
				{"title", "Of the pull request; may have templates."}, {"body", "Its text; may have templates, whose values mention nobody."},
				{"closes", "`true`: merging closes the issue."}, {"untested", "`true`: goes ahead without tests, and says so in the pull request."},
			},
			Example: `{"title": "Fix #{{state.issue}}", "body": "As discussed.", "closes": true, "untested": false}`,
		},
		"report.note": {
			What: "Writes one comment on the issue, once a visit.", With: []Key{{"text", "Markdown; may have templates, whose values are data and mention nobody."}},
			Example: `{"text": "Nothing to do: {{state.summary}}"}`,
		},
		"tests.run": {
			What: "Runs the repository's own tests, as configured or as recognised at the pinned commit, on the work so far. Zero tests is not a pass. `failing` are the tests that failed in any run, `flaky` those that failed in some and passed in others.",
			With: []Key{{"times", "How often, 1 to 50; 1 when absent."}}, Example: `{"times": 5}`,
		},
		"workspace.check": {
			What: "Judges the changes before anything of them runs or leaves: size, protected paths, secrets, binaries, links. The operator's bounds hold; `with` can only tighten them. Sets `blocked` when another attempt may settle it, and ends the flow when only a person can.",
			With: []Key{
				{"scope", "Globs; a change elsewhere is refused."}, {"max_files", "The most files."}, {"max_lines", "The most lines."},
			},
			Example: `{"scope": ["docs/**"], "max_files": 20, "max_lines": 400}`,
		},
		"workspace.pin": {
			What: "Looks whether the issue is open and settles the commit on which everything after it builds.",
			With: []Key{{"branch", "What to build on; the default branch when absent."}}, Example: `{"branch": "release-2"}`,
		},
		"workspace.save": {What: "For `finally`: keeps unfinished work on a branch of its own, `pipelinebot/wip/…`, which the status comment names: after an error, a stop or a cancel, and when the flow ends with `needs_human` or `no_progress`. After every other result the work counts as published or not wanted, and is given up."},
	}
}

func phaseActions() map[string]About {
	what := map[string]string{
		"implement.admit":       "Looks whether the approved plan still stands and settles branch and base.",
		"implement.baseline":    "Runs the tests before anything is changed, and settles how they are run.",
		"implement.check_diff":  "Judges the changes as `workspace.check` does, and against the plan's files.",
		"implement.code":        "A model carries out the plan in the run's worktree.",
		"implement.give_up":     "Ends the flow after the last attempt, with what is missing.",
		"implement.no_progress": "As `gates.no_progress`, over all rounds of the issue.",
		"implement.open_pr":     "Opens the pull request, or updates it.",
		"implement.publish":     "Commits and pushes exactly what the tests passed on.",
		"implement.save_work":   "For `finally`: keeps unfinished work on a branch of its own.",
		"implement.verify":      "Runs the tests on the changes.",

		"plan.approve":        "Ends the flow with the result `approved`.",
		"plan.auto":           "Approves by itself what the configuration lets through without a person.",
		"plan.base":           "Settles the commit that the plan is made for.",
		"plan.check":          "Looks whether the plan names files that are there and may be changed.",
		"plan.check_approval": "Looks whether an approval is of this plan, this issue text and this base.",
		"plan.critique":       "A second model looks for what the plan misses.",
		"plan.draft":          "A model writes the plan, or a better one.",
		"plan.expired":        "Ends the flow since nobody answered.",
		"plan.explore":        "A model looks for what the plan must know of the repository.",
		"plan.mark_waiting":   "Shows on the issue that a person is asked.",
		"plan.note_lapse":     "Says on the issue why an approval does not hold any more.",
		"plan.post":           "Posts the plan on the issue.",
		"plan.note_revision":  "Makes what a maintainer wants to be different the problem that the next draft answers.",
		"plan.rejected":       "Ends the flow since a person said no.",
		"plan.release":        "For `finally`: gives the worktree back.",
		"plan.snapshot":       "Takes a snapshot of the issue.",
		"plan.unapprovable":   "Ends the flow since no approval can hold.",
		"plan.unsettled":      "Ends the flow since the plan's problems could not be settled.",

		"review.admit":       "Finds the pull request and looks whether it is still to be reviewed.",
		"review.ci":          "Reads what the repository's CI says of the pinned commit.",
		"review.conclude":    "Ends the flow with the verdict.",
		"review.correctness": "A model looks whether the change does what the plan says.",
		"review.decide":      "Makes a verdict of tests, CI and findings, in code.",
		"review.fetch":       "Fetches the change at the pinned commit.",
		"review.post":        "Posts the review.",
		"review.release":     "For `finally`: gives the worktree back.",
		"review.safety":      "A model looks for what the change could break or open.",
		"review.synthesis":   "A model puts the reviewers' findings together.",
		"review.verify":      "Runs the tests on the pinned commit.",

		"triage.accept":     "Ends the flow with the result `accepted`.",
		"triage.ask":        "Asks on the issue for what is missing.",
		"triage.classify":   "A model says what the issue is, how large and how risky.",
		"triage.route":      "Decides by the model's verdict where the issue goes, in code.",
		"triage.screen":     "Refuses at once what is plainly too little to work on.",
		"triage.snapshot":   "Takes a snapshot of the issue.",
		"triage.unanswered": "Ends the flow for want of an answer.",
	}
	all := map[string]About{}
	for name, text := range what {
		all[name] = About{What: text}
	}
	unanswered := all["triage.unanswered"]
	unanswered.With, unanswered.Example = []Key{{"code", "`no-answer` or `asked-too-often`."}}, `{"code": "no-answer"}`
	all["triage.unanswered"] = unanswered
	return all
}
