package bench

// Aim is what a figure, or the ratio of two, should be.
type Aim struct {
	What string
	// Of is the figure; Per, when set, what it is divided by.
	Of, Per Figure
	// Unit stands behind the value: "nodes/s", "ms". "×" for ratios.
	Unit string
	// AtLeast or AtMost is the aim; both nil where there is none and the figure
	// is for information. Scale multiplies the figure first; 0 means 1.
	AtLeast, AtMost *float64
	Scale           float64
}

// Aims are the rows of the table, in order.
func Aims() []Aim {
	var aims []Aim
	for _, level := range []string{"FULL", "NORMAL"} {
		at := "Sequence/" + level + "/rewritten"
		aims = append(
			aims,
			Aim{
				What: "one run at a time, " + level + ": checkpoints, of the raw floor",
				Of:   Figure{at, "checkpoints/s"}, Per: Figure{at, "floor-checkpoints/s"}, Unit: "×", AtLeast: limit(0.8),
			},
			Aim{
				What: "one run at a time, " + level + ": nodes, of LangGraph.js",
				Of:   Figure{at, "nodes/s"}, Per: Figure{at, "peer-nodes/s"}, Unit: "×", AtLeast: limit(4),
			},
		)
	}
	return append(
		aims,
		Aim{What: "64 runs at once, FULL", Of: Figure{"Together/FULL", "nodes/s"}, Unit: "nodes/s", AtLeast: limit(5000)},
		Aim{What: "a node without a store", Of: Figure{"flows/engine.WalkNoStore", "ns/node"}, Unit: "µs", Scale: 1e-3, AtMost: limit(1.5)},
		Aim{What: "allocations a node without a store", Of: Figure{"flows/engine.WalkNoStore", "allocs/node"}, Unit: "allocations", AtMost: limit(10)},
		Aim{What: "on disk a node that rewrites 2 KB of state", Of: Figure{"Sequence/FULL/rewritten", "disk-B/node"}, Unit: "bytes", AtMost: limit(3072)},
		Aim{What: "the same in LangGraph.js", Of: Figure{"Sequence/FULL/rewritten", "peer-disk-B/node"}, Unit: "bytes"},
		Aim{What: "on disk a node that keeps 2 KB of state", Of: Figure{"Sequence/FULL/kept", "disk-B/node"}, Unit: "bytes", AtMost: limit(3072)},
		Aim{What: "the same in LangGraph.js", Of: Figure{"Sequence/FULL/kept", "peer-disk-B/node"}, Unit: "bytes"},
		Aim{What: "loading and validating 200 nodes", Of: Figure{"flows.Load", "ns/op"}, Unit: "ms", Scale: 1e-6, AtMost: limit(10)},
		Aim{What: "a guard", Of: Figure{"flows.Guard/long", "ns/op"}, Unit: "µs", Scale: 1e-3, AtMost: limit(1)},
		Aim{What: "1,000 visits of a loop over 2 KB of state, on disk a visit", Of: Figure{"Growth/kept/pipelinebot", "disk-B/visit"}, Unit: "bytes"},
		Aim{What: "the second 500 of them beside the first (1 is linear)", Of: Figure{"Growth/kept/pipelinebot", "second/first-half"}, Unit: "×", AtMost: limit(1.1)},
		Aim{What: "the same loop in LangGraph.js, on disk a visit", Of: Figure{"Growth/kept/langgraph", "disk-B/visit"}, Unit: "bytes"},
		Aim{What: "start-up with 100,000 parked runs", Of: Figure{"Parked/runs=100000", "ms/start"}, Unit: "ms", AtMost: limit(2000)},
		Aim{What: "waking one of them, to its end", Of: Figure{"Parked/runs=100000", "ms/wake"}, Unit: "ms", AtMost: limit(20)},
		Aim{What: "most memory resident", Of: Figure{"Parked/runs=100000", "MiB-resident"}, Unit: "MiB", AtMost: limit(150)},
		Aim{What: "memory a parked run holds", Of: Figure{"ParkedMemory", "heap-B/run"}, Unit: "bytes", AtMost: limit(4096)},
		Aim{What: "goroutines a parked run holds", Of: Figure{"ParkedMemory", "goroutines/run"}, Unit: "goroutines", AtMost: limit(0)},
		Aim{What: "50 resumes of one run at once, until its end", Of: Figure{"Resume", "ms/round"}, Unit: "ms"},
		Aim{What: "stop label → last process gone, in bubblewrap", Of: Figure{"cmd/pipelinebot.Stop/bubblewrap/label", "ms-worst"}, Unit: "ms", AtMost: limit(2000)},
		Aim{What: "the same, under landlock", Of: Figure{"cmd/pipelinebot.Stop/landlock/label", "ms-worst"}, Unit: "ms", AtMost: limit(2000)},
		Aim{What: "the same, without a sandbox", Of: Figure{"cmd/pipelinebot.Stop/none/label", "ms-worst"}, Unit: "ms", AtMost: limit(2000)},
	)
}

func limit(v float64) *float64 { return &v }

// Value is the figure or the ratio; ok is false when a part was not measured.
func (a Aim) Value(r Results) (v float64, ok bool) {
	v, ok = r.Median(a.Of)
	if !ok {
		return 0, false
	}
	if a.Per != (Figure{}) {
		per, ok := r.Median(a.Per)
		if !ok || per == 0 {
			return 0, false
		}
		v /= per
	}
	if a.Scale != 0 {
		v *= a.Scale
	}
	return v, true
}

// Met says whether the aim is met: "met", "not met", "not measured", or "" for
// a figure without one.
func (a Aim) Met(r Results) string {
	v, ok := a.Value(r)
	switch {
	case !ok:
		return "not measured"
	case a.AtLeast == nil && a.AtMost == nil:
		return ""
	case a.AtLeast != nil && v < *a.AtLeast, a.AtMost != nil && v > *a.AtMost:
		return "not met"
	default:
		return "met"
	}
}
