package flows

import (
	"fmt"
	"html"
	"math"
	"slices"
	"strings"
)

// svgStyle has colours that can be read on a light and on a dark page.
const svgStyle = `
  .page{fill:#ffffff} .box{fill:#f6f8fa;stroke:#57606a;stroke-width:1.5} .id{fill:#1f2328;font-weight:600} .what,.label{fill:#57606a;font-size:11px}
  .line{fill:none;stroke:#6e7781;stroke-width:1.4} .tip{fill:#6e7781} .back{fill:#ffffff;opacity:.85} .dashed{stroke-dasharray:5 4}
  .visited{fill:#dafbe1;stroke:#1a7f37;stroke-width:2.5} .here{fill:#fff8c5;stroke:#9a6700;stroke-width:3} .taken{stroke:#1a7f37;stroke-width:2.8} .takentip{fill:#1a7f37}
  @media (prefers-color-scheme: dark){
  .page{fill:#0d1117} .box{fill:#161b22;stroke:#8b949e} .id{fill:#e6edf3} .what,.label{fill:#9198a1}
  .line{stroke:#8b949e} .tip{fill:#8b949e} .back{fill:#0d1117}
  .visited{fill:#12261e;stroke:#3fb950} .here{fill:#272115;stroke:#d29922} .taken{stroke:#3fb950} .takentip{fill:#3fb950}}
`

// SVG draws a flow as a picture in layers from the entry at the top to the
// sink: every node and edge once, loops leading back on the right. With marks,
// what was visited and taken stands out. It needs no other file and holds no
// script.
func SVG(f *Flow, marks ...Marks) string {
	d := &drawing{flow: f, layout: newLayout(f)}
	for _, m := range marks {
		d.marks = m
	}
	if len(f.finally) > 0 {
		d.height += 20
	}
	fmt.Fprintf(d, `<svg xmlns="http://www.w3.org/2000/svg" role="img" viewBox="0 0 %s %s" width="%s" height="%s" font-family="ui-sans-serif,system-ui,sans-serif" font-size="13">`+"\n",
		px(d.width), px(d.height), px(d.width), px(d.height))
	fmt.Fprintf(d, "<title>%s</title>\n<style>%s</style>\n", xmlText(fmt.Sprintf("flow %s, version %d, phase %s", f.name, f.version, f.phase)), svgStyle)
	fmt.Fprintf(d, `<rect class="page" width="%s" height="%s"/>`+"\n", px(d.width), px(d.height))
	for _, ln := range d.lines {
		d.line(ln)
	}
	for _, layer := range d.layers {
		for _, s := range layer {
			if s.node != nil || s.any {
				d.box(s)
			}
		}
	}
	for _, ln := range d.lines {
		d.label(ln)
	}
	if len(f.finally) > 0 {
		fmt.Fprintf(d, `<text class="label" x="%d" y="%s">on every ending: %s</text>`+"\n", margin, px(d.height-14), xmlText(strings.Join(f.finally, ", ")))
	}
	d.WriteString("</svg>\n")
	return d.String()
}

type drawing struct {
	strings.Builder
	*layout
	flow   *Flow
	marks  Marks
	labels []labelled
}

// px writes a coordinate short and always the same way.
func px(v float64) string {
	return strings.TrimSuffix(strings.TrimRight(fmt.Sprintf("%.1f", v), "0"), ".")
}

// xmlText is text that means nothing but itself in XML; what XML can't hold is
// replaced.
func xmlText(s string) string {
	return html.EscapeString(strings.Map(func(r rune) rune {
		if r < ' ' || r == 0xfffe || r == 0xffff {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "?")))
}

func (d *drawing) taken(ln line) bool {
	if ln.stop {
		return d.flow.stopped(d.marks)
	}
	return d.marks.Taken[ln.on] > 0
}

type point struct{ x, y float64 }

// line draws a way: from the bottom of its node over the lines' own places in
// the layers between to the top of the next, or on the right back up.
func (d *drawing) line(ln line) {
	from, to := ln.along[0], ln.along[len(ln.along)-1]
	class, tip := "line", "tip"
	if ln.dashed {
		class += " dashed"
	}
	if d.taken(ln) {
		class, tip = class+" taken", "takentip"
	}
	var path strings.Builder
	end := point{to.x, d.tops[to.layer] - 1}
	if from.layer >= to.layer {
		d.back(ln, class, tip)
		return
	}
	points := d.points(ln)
	fmt.Fprintf(&path, "M%s %s", px(points[0].x), px(points[0].y))
	for i := 1; i < len(points); i++ {
		a, b := points[i-1], points[i]
		if a.x == b.x {
			fmt.Fprintf(&path, " V%s", px(b.y))
			continue
		}
		middle := (a.y + b.y) / 2
		fmt.Fprintf(&path, " C%s %s %s %s %s %s", px(a.x), px(middle), px(b.x), px(middle), px(b.x), px(b.y))
	}
	fmt.Fprintf(d, `<path class="%s" d="%s"/>`+"\n", class, path.String())
	fmt.Fprintf(d, `<path class="%s" d="M%s %s l-4.5 -8 h9 z"/>`+"\n", tip, px(end.x), px(end.y))
}

// back draws a way back: out of its node to the right, up in its lane and into
// the other node from the right. Where boxes stand to the right it goes round
// them, below the one and above the other.
func (d *drawing) back(ln line, class, tip string) {
	from, to := ln.along[0], ln.along[len(ln.along)-1]
	lane := d.width - margin - float64(ln.lane)*laneGap
	var path strings.Builder
	y := d.tops[from.layer] + boxHeight*0.65
	if d.boxed(from) {
		x := from.x + from.width/2 - 14
		y = d.below(ln)
		fmt.Fprintf(&path, "M%s %s V%s Q%s %s %s %s", px(x), px(d.tops[from.layer]+boxHeight), px(y-6), px(x), px(y), px(x+6), px(y))
	} else {
		fmt.Fprintf(&path, "M%s %s", px(from.x+from.width/2), px(y))
	}
	up, over := d.tops[to.layer]+boxHeight*0.35, d.boxed(to)
	if over {
		up = d.tops[to.layer] - 13 - float64(ln.lane%3)*3
	}
	fmt.Fprintf(&path, " H%s Q%s %s %s %s V%s Q%s %s %s %s", px(lane-8), px(lane), px(y), px(lane), px(y-8), px(up+8), px(lane), px(up), px(lane-8), px(up))
	end, shape := point{to.x + to.width/2 + 1, up}, "l8 -4.5 v9 z"
	if over {
		end, shape = point{to.x + to.width/2 - 14, d.tops[to.layer] - 1}, "l-4.5 -8 h9 z"
		fmt.Fprintf(&path, " H%s Q%s %s %s %s V%s", px(end.x+6), px(end.x), px(up), px(end.x), px(up+6), px(end.y-5))
	} else {
		fmt.Fprintf(&path, " H%s", px(end.x+6))
	}
	fmt.Fprintf(d, `<path class="%s" d="%s"/>`+"\n", class, path.String())
	fmt.Fprintf(d, `<path class="%s" d="M%s %s %s"/>`+"\n", tip, px(end.x), px(end.y), shape)
}

// boxed tells that a box stands to the right of a spot in its layer.
func (d *drawing) boxed(s *spot) bool {
	return slices.ContainsFunc(d.layers[s.layer], func(other *spot) bool { return (other.node != nil || other.any) && other.x > s.x })
}

// below is the height at which a way back passes under its layer.
func (d *drawing) below(ln line) float64 {
	return d.tops[ln.along[0].layer] + boxHeight + 9 + float64(ln.lane%3)*3
}

// points are where a way bends: each layer that it passes has an upper and a
// lower one, so that it goes straight beside the boxes.
func (d *drawing) points(ln line) []point {
	var points []point
	for i, s := range ln.along {
		top := d.tops[s.layer]
		if i > 0 {
			y := top
			if i == len(ln.along)-1 {
				y -= 6
			}
			points = append(points, point{s.x, y})
		}
		if i < len(ln.along)-1 {
			x := s.x
			if i == 0 {
				x += ln.start
			}
			points = append(points, point{x, top + boxHeight})
		}
	}
	return points
}

// label writes what a way says beside its beginning.
func (d *drawing) label(ln line) {
	if ln.label == "" {
		return
	}
	from, short := ln.along[0], clipText(ln.label)
	width := float64(len([]rune(short)))*5.9 + 8
	var at point
	if to := ln.along[len(ln.along)-1]; from.layer >= to.layer {
		at = point{from.x + from.width/2 + width/2 + 4, d.tops[from.layer] + boxHeight*0.65 - 9}
		if d.boxed(from) {
			at = point{from.x + from.width/2 + width/2, d.below(ln)}
		}
		at = d.free(width, []point{at})
	} else {
		points := d.points(ln)
		y := (points[0].y+points[1].y)/2 + labelGap*(float64(ln.index)-float64(ln.of-1)/2)
		places := []point{{along(points[0], points[1], y), y}}
		// As near to its own place as there is room, on its line.
		for step := 4.0; step < points[1].y-points[0].y; step += 4 {
			for _, y := range []float64{y - step, y + step} {
				if y > points[0].y+18 && y < points[1].y-14 {
					places = append(places, point{along(points[0], points[1], y), y})
				}
			}
		}
		at = d.free(width, places)
	}
	x, y := at.x, at.y
	fmt.Fprintf(d, `<g><title>%s</title><rect class="back" x="%s" y="%s" width="%s" height="15" rx="3"/><text class="label" x="%s" y="%s" text-anchor="middle">%s</text></g>`+"\n",
		xmlText(ln.label), px(x-width/2), px(y-8), px(width), px(x), px(y+3.5), xmlText(short))
}

// free is the first of some places at which a label of a width covers no other,
// or the first of all.
func (d *drawing) free(width float64, places []point) point {
	for i, p := range places {
		places[i].x = min(max(p.x, width/2+2), d.width-width/2-2)
	}
	clear := slices.IndexFunc(places, func(p point) bool {
		return !slices.ContainsFunc(d.labels, func(l labelled) bool {
			return math.Abs(l.x-p.x) < (l.width+width)/2+2 && math.Abs(l.y-p.y) < labelGap-1
		})
	})
	at := places[max(clear, 0)]
	d.labels = append(d.labels, labelled{at, width})
	return at
}

// labelled is where a label stands, by its middle.
type labelled struct {
	point
	width float64
}

// along is where the curve between two points is at a height.
func along(a, b point, y float64) float64 {
	low, high := 0.0, 1.0
	middle := (a.y + b.y) / 2
	for range 30 {
		t := (low + high) / 2
		s := 1 - t
		if s*s*s*a.y+3*s*s*t*middle+3*s*t*t*middle+t*t*t*b.y < y {
			low = t
		} else {
			high = t
		}
	}
	t := low
	s := 1 - t
	return (s*s*s+3*s*s*t)*a.x + (3*s*t*t+t*t*t)*b.x
}

// box draws a node, each kind with its own outline.
func (d *drawing) box(s *spot) {
	x, y, w, h := s.x-s.width/2, d.tops[s.layer], s.width, float64(boxHeight)
	if s.any {
		fmt.Fprintf(d, `<rect class="box dashed" x="%s" y="%s" width="%s" height="%s" rx="23"/><text class="id" x="%s" y="%s" text-anchor="middle">any node</text>`+"\n",
			px(x), px(y), px(w), px(h), px(s.x), px(y+h/2+4.5))
		return
	}
	n, class := s.node, "box"
	visits := d.flow.visits(d.marks, n.ID)
	switch {
	case d.marks.At == n.ID:
		class += " here"
	case visits > 0:
		class += " visited"
	}
	if n.Optional {
		class += " dashed"
	}
	title := n.label()
	if visits > 0 {
		title += fmt.Sprintf(" (%d times)", visits)
	}
	fmt.Fprintf(d, `<g><title>%s</title>%s<text class="id" x="%s" y="%s" text-anchor="middle">%s</text><text class="what" x="%s" y="%s" text-anchor="middle">%s</text>`,
		xmlText(title), outline(n.Kind, class, x, y, w, h), px(s.x), px(y+19), xmlText(n.ID), px(s.x), px(y+35), xmlText(clipText(n.what())))
	if visits > 1 {
		fmt.Fprintf(d, `<text class="id" x="%s" y="%s" text-anchor="end" font-size="11">%d×</text>`, px(x+w-6), px(y+13), visits)
	}
	d.WriteString("</g>\n")
}

func outline(k Kind, class string, x, y, w, h float64) string {
	rect := func(x, y, w, h, r float64) string {
		return fmt.Sprintf(`<rect class="%s" x="%s" y="%s" width="%s" height="%s" rx="%s"/>`, class, px(x), px(y), px(w), px(h), px(r))
	}
	cut := 12.0
	shape := func(points ...point) string {
		var b strings.Builder
		for i, p := range points {
			if i > 0 {
				b.WriteByte(' ')
			}
			b.WriteString(px(p.x) + "," + px(p.y))
		}
		return fmt.Sprintf(`<polygon class="%s" points="%s"/>`, class, b.String())
	}
	switch k {
	case Gate:
		return shape(point{x + cut, y}, point{x + w - cut, y}, point{x + w, y + h/2}, point{x + w - cut, y + h}, point{x + cut, y + h}, point{x, y + h/2})
	case Loop:
		return shape(point{x + cut, y}, point{x + w - cut, y}, point{x + w, y + cut}, point{x + w, y + h - cut}, point{x + w - cut, y + h}, point{x + cut, y + h}, point{x, y + h - cut}, point{x, y + cut})
	case Fanout:
		return shape(point{x + cut, y}, point{x + w - cut, y}, point{x + w, y + h}, point{x, y + h})
	case Merge:
		return shape(point{x, y}, point{x + w, y}, point{x + w - cut, y + h}, point{x + cut, y + h})
	case Wait, Approval:
		return rect(x, y, w, h, h/2)
	case Sink:
		return rect(x, y, w, h, h/2) + rect(x+4, y+4, w-8, h-8, h/2-4)
	case Subflow:
		return rect(x, y, w, h, 2) + fmt.Sprintf(`<path class="line" d="M%s %s v%s M%s %s v%s"/>`, px(x+7), px(y), px(h), px(x+w-7), px(y), px(h))
	case Command:
		return rect(x, y, w, h, 0)
	case Step:
	}
	return rect(x, y, w, h, 7)
}
