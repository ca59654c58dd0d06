package flows

import (
	"cmp"
	"math"
	"slices"
)

// Sizes of a drawing in pixels.
const (
	boxHeight  = 46
	labelGap   = 17 // between the labels of lines that leave one node
	layerGap   = 44
	columnGap  = 36
	margin     = 24
	laneGap    = 18 // between the lines that lead back, on the right
	passWidth  = 14 // of a line that passes a layer
	wideLetter = 7.6
	letter     = 6.4
	longest    = 44 // letters of a label
	// maxPassing is how many places lines that pass layers get; further ones go
	// straight, so that a drawing of any flow is there at once.
	maxPassing = 3000
)

// spot is a place in a layer: a node, or a line that passes.
type spot struct {
	node     *Node // nil for a line that passes, and for "any node"
	any      bool
	x, width float64 // x is the middle
	layer    int
	place    int // in the layer
	up, down []*spot
}

// layout is where everything of a drawing is.
type layout struct {
	layers [][]*spot
	of     map[string]*spot
	tops   []float64 // of the layers
	lines  []line
	width  float64
	height float64
}

// line is a way with the spots that it passes, from its start to its end.
type line struct {
	way
	along []*spot
	lane  int // from 0, for ways back
	index int // among the lines with labels that leave the node
	of    int // how many these are
	stop  bool
	start float64 // where it leaves the node, from its middle
}

// newLayout places a flow's nodes in layers from the top, with the few
// crossings that sorting by the middle of the neighbours leaves.
func newLayout(f *Flow) *layout {
	ways := f.ways()
	depth := f.depths(ways)
	l := &layout{of: map[string]*spot{}}
	last := 0
	for _, d := range depth {
		last = max(last, d)
	}
	l.layers = make([][]*spot, last+1)
	add := func(s *spot) *spot {
		s.place = len(l.layers[s.layer])
		l.layers[s.layer] = append(l.layers[s.layer], s)
		return s
	}
	for i := range f.nodes {
		n := &f.nodes[i]
		width := max(float64(len([]rune(n.ID)))*wideLetter, float64(len([]rune(clipText(n.what()))))*letter) + 28
		l.of[n.ID] = add(&spot{node: n, width: max(width, 90), layer: depth[n.ID]})
	}
	leaving, passing := map[string]int{}, 0
	connect := func(w way, from, to *spot, stop bool) {
		ln := line{way: w, along: []*spot{from}, index: leaving[w.from], stop: stop}
		if w.label != "" {
			leaving[w.from]++
		}
		for layer := from.layer + 1; layer < to.layer && passing < maxPassing; layer++ {
			passing++
			ln.along = append(ln.along, add(&spot{width: passWidth, layer: layer}))
		}
		ln.along = append(ln.along, to)
		for i := 1; i < len(ln.along); i++ {
			a, b := ln.along[i-1], ln.along[i]
			a.down, b.up = append(a.down, b), append(b.up, a)
		}
		l.lines = append(l.lines, ln)
	}
	lanes := 0
	for _, w := range ways {
		from, to := l.of[w.from], l.of[w.to]
		if from.layer >= to.layer {
			l.lines = append(l.lines, line{way: w, along: []*spot{from, to}, lane: lanes})
			lanes++
			continue
		}
		connect(w, from, to, false)
	}
	if sink := l.of[f.sink]; f.stop && sink.layer > 0 {
		any := add(&spot{any: true, width: 90, layer: sink.layer - 1})
		connect(way{to: f.sink, label: "_stop", dashed: true}, any, sink, true)
	}
	for i := range l.lines {
		l.lines[i].of = leaving[l.lines[i].from]
	}
	l.sort()
	l.place(lanes, leaving)
	l.ports()
	return l
}

// ports lets the lines that leave a node begin beside each other.
func (l *layout) ports() {
	leaving := map[*spot][]*line{}
	for i := range l.lines {
		if ln := &l.lines[i]; ln.along[0].layer < ln.along[len(ln.along)-1].layer {
			leaving[ln.along[0]] = append(leaving[ln.along[0]], ln)
		}
	}
	for s, lines := range leaving {
		slices.SortStableFunc(lines, func(a, b *line) int { return cmp.Compare(a.along[1].x, b.along[1].x) })
		gap := min(26, (s.width-40)/float64(len(lines)))
		for i, ln := range lines {
			ln.start = gap * (float64(i) - float64(len(lines)-1)/2)
		}
	}
}

// sort orders each layer by the middle of its neighbours, some times up and
// down.
func (l *layout) sort() {
	for round := range 8 {
		for i := range l.layers {
			layer, near := i, func(s *spot) []*spot { return s.up }
			if round%2 == 1 {
				layer, near = len(l.layers)-1-i, func(s *spot) []*spot { return s.down }
			}
			at := map[*spot]float64{}
			for place, s := range l.layers[layer] {
				at[s] = float64(place)
				if of := near(s); len(of) > 0 {
					at[s] = 0
					for _, other := range of {
						at[s] += float64(other.place) / float64(len(of))
					}
				}
			}
			slices.SortStableFunc(l.layers[layer], func(a, b *spot) int { return cmp.Compare(at[a], at[b]) })
			for place, s := range l.layers[layer] {
				s.place = place
			}
		}
	}
}

// place gives every spot its coordinates: packed, then drawn towards its
// neighbours as far as the order allows.
func (l *layout) place(lanes int, leaving map[string]int) {
	for _, layer := range l.layers {
		x := 0.0
		for _, s := range layer {
			s.x = x + s.width/2
			x += s.width + columnGap
		}
	}
	for round := range 12 {
		for i := range l.layers {
			layer := l.layers[i]
			if round%2 == 1 {
				layer = l.layers[len(l.layers)-1-i]
			}
			for _, s := range layer {
				sum, weight := 0.0, 0.0
				for _, other := range slices.Concat(s.up, s.down) {
					w := pull(s, other)
					sum, weight = sum+w*other.x, weight+w
				}
				if weight > 0 {
					s.x = sum / weight
				}
			}
			spread(layer)
		}
	}
	left, right := math.Inf(1), math.Inf(-1)
	for _, layer := range l.layers {
		for _, s := range layer {
			left, right = min(left, s.x-s.width/2), max(right, s.x+s.width/2)
		}
	}
	y := float64(margin)
	for _, layer := range l.layers {
		labels := 0
		for _, s := range layer {
			s.x += margin - left
			if s.node != nil {
				labels = max(labels, leaving[s.node.ID])
			}
		}
		l.tops = append(l.tops, y)
		y += boxHeight + layerGap + float64(labels)*labelGap
	}
	l.width = right - left + 2*margin + float64(lanes)*laneGap
	if lanes > 0 {
		l.width += laneGap
	}
	l.height = y - layerGap + margin
}

// pull is how much a spot wants to be above or below another: lines that pass
// are to be straight, and nodes follow nodes rather than lines.
func pull(s, other *spot) float64 {
	passing := func(s *spot) bool { return s.node == nil && !s.any }
	switch {
	case passing(s) && passing(other):
		return 6
	case passing(s) || passing(other):
		return 0.5
	}
	return 3
}

// spread moves apart what overlaps, from the middle to both sides.
func spread(layer []*spot) {
	for i := 1; i < len(layer); i++ {
		a, b := layer[i-1], layer[i]
		if least := a.x + (a.width+b.width)/2 + columnGap; b.x < least {
			// Half of it to the left, as far as there is room.
			shift := (least - b.x) / 2
			for j := i - 1; j >= 0; j-- {
				room := shift
				if j > 0 {
					room = min(shift, layer[j].x-layer[j-1].x-(layer[j].width+layer[j-1].width)/2-columnGap)
				}
				if room <= 0 {
					shift = 0
					break
				}
				shift = room
			}
			for j := i - 1; j >= 0 && shift > 0; j-- {
				layer[j].x -= shift
				if j > 0 && layer[j].x-layer[j-1].x >= (layer[j].width+layer[j-1].width)/2+columnGap {
					break
				}
			}
			b.x = max(b.x, a.x+(a.width+b.width)/2+columnGap)
		}
	}
}

func clipText(s string) string {
	if r := []rune(s); len(r) > longest {
		return string(r[:longest-1]) + "…"
	}
	return s
}
