package flowops

import (
	"encoding/xml"
	"fmt"
	"strings"

	"github.com/pipelinebot/pipelinebot/flows"
)

// Sizes of a drawing, in pixels.
const (
	boxWide, boxHigh = 190, 44
	gapWide, gapHigh = 40, 56
	margin           = 30
)

type point struct{ x, y int }

// SVG draws a flow as a picture that needs nothing else: nodes in layers, the
// edges with what they are taken for, and a path, if there is one, in colour.
func SVG(f *flows.Flow, p *Path) string {
	edges := edgesOf(f)
	at, wide, high := layout(f, edges)
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12">`+"\n", wide, high, wide, high)
	fmt.Fprintf(&b, "<title>%s</title>\n", text("flow "+f.Name()))
	b.WriteString(`<defs><marker id="tip" viewBox="0 0 10 10" refX="10" refY="5" markerWidth="7" markerHeight="7" orient="auto-start-reverse"><path d="M0 0L10 5L0 10z"/></marker></defs>` + "\n")
	for _, e := range edges {
		drawEdge(&b, e, at, p, wide)
	}
	for _, n := range f.Nodes() {
		drawNode(&b, n, at[n.ID], p)
	}
	b.WriteString("</svg>\n")
	return b.String()
}

// layout places each node: its layer is the longest way to it, loops not
// counted.
func layout(f *flows.Flow, edges []edge) (at map[string]point, wide, high int) {
	nodes := f.Nodes()
	depth := map[string]int{}
	for range nodes {
		for _, e := range edges {
			if !e.back {
				depth[e.to] = max(depth[e.to], depth[e.from]+1)
			}
		}
	}
	at, columns := map[string]point{}, map[int]int{}
	for _, n := range nodes {
		d := depth[n.ID]
		at[n.ID] = point{margin + columns[d]*(boxWide+gapWide), margin + d*(boxHigh+gapHigh)}
		columns[d]++
		wide, high = max(wide, at[n.ID].x+boxWide), max(high, at[n.ID].y+boxHigh)
	}
	return at, wide + 2*margin + gapWide, high + margin
}

func drawEdge(b *strings.Builder, e edge, at map[string]point, p *Path, wide int) {
	from, to := at[e.from], at[e.to]
	style := `stroke="#888"`
	if e.dotted {
		style += ` stroke-dasharray="4 3"`
	}
	if p != nil && p.edges[[2]string{e.from, e.to}] {
		style = `stroke="#1e8449" stroke-width="3"`
	}
	x1, y1, x2, y2 := from.x+boxWide/2, from.y+boxHigh, to.x+boxWide/2, to.y
	d := fmt.Sprintf("M%d %dC%d %d %d %d %d %d", x1, y1, x1, y1+gapHigh/2, x2, y2-gapHigh/2, x2, y2)
	mid := point{(x1 + x2) / 2, (y1 + y2) / 2}
	if to.y <= from.y { // backwards, or beside: around the right side
		x1, y1, x2, y2 = from.x+boxWide, from.y+boxHigh/2, to.x+boxWide, to.y+boxHigh/2
		side := min(max(x1, x2)+gapWide, wide-margin/2)
		d = fmt.Sprintf("M%d %dC%d %d %d %d %d %d", x1, y1, side, y1, side, y2, x2, y2)
		mid = point{side, (y1 + y2) / 2}
	}
	fmt.Fprintf(b, `<path d="%s" fill="none" %s marker-end="url(#tip)"/>`+"\n", d, style)
	if e.label != "" {
		fmt.Fprintf(b, `<text x="%d" y="%d" text-anchor="middle" font-size="10" fill="#444">%s</text>`+"\n", mid.x, mid.y, text(clip(e.label)))
	}
}

func drawNode(b *strings.Builder, n flows.Node, at point, p *Path) {
	fill, stroke, wide := "#f8f9f9", "#555", 1
	times := 0
	if p != nil {
		times = p.Nodes[n.ID]
		switch {
		case p.At == n.ID:
			fill, stroke, wide = "#fdebd0", "#b9770e", 3
		case times > 0:
			fill, stroke, wide = "#d5f5e3", "#1e8449", 2
		}
	}
	round := map[flows.Kind]int{flows.Wait: 22, flows.Approval: 22, flows.Sink: 22, flows.Gate: 2}[n.Kind]
	fmt.Fprintf(b, `<rect x="%d" y="%d" width="%d" height="%d" rx="%d" fill="%s" stroke="%s" stroke-width="%d"/>`+"\n",
		at.x, at.y, boxWide, boxHigh, max(round, 4), fill, stroke, wide)
	what := string(n.Kind)
	for _, more := range []string{n.Uses, n.Child} {
		if more != "" {
			what += " " + more
		}
	}
	if times > 1 {
		what += fmt.Sprintf(", %d times", times)
	}
	fmt.Fprintf(b, `<text x="%d" y="%d" text-anchor="middle" font-weight="bold">%s</text>`+"\n", at.x+boxWide/2, at.y+18, text(clip(n.ID)))
	fmt.Fprintf(b, `<text x="%d" y="%d" text-anchor="middle" font-size="10" fill="#444">%s</text>`+"\n", at.x+boxWide/2, at.y+34, text(clip(what)))
}

// clip shortens what would not fit.
func clip(s string) string {
	const most = 34
	if r := []rune(s); len(r) > most {
		return string(r[:most-1]) + "…"
	}
	return s
}

// text is a string as XML.
func text(s string) string {
	var b strings.Builder
	if err := xml.EscapeText(&b, []byte(s)); err != nil {
		return "?" // a strings.Builder does not fail
	}
	return b.String()
}
