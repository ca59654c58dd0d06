package flows

import (
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// No line of a picture goes through a box, and no label covers another one.
//
// Covers: CN6.
func TestSVGRoutes(t *testing.T) {
	t.Parallel()
	pictures := map[string]string{"round the box": SVG(mustLoad(t, besideFlow))}
	for _, file := range testFiles(t, "good/*.yaml") {
		f, problems := LoadWith(file, readFile(t, file), testOptions(t))
		if err := problems.Err(); err != nil {
			t.Fatal(err)
		}
		pictures[file] = SVG(f)
	}
	for name, picture := range pictures {
		checkRoutes(t, name, picture)
	}
}

// besideFlow has a loop with "any node" beside it, above an edge with a label
// that leaves a node next to optional branches.
const besideFlow = `
apiVersion: flows/v1
name: beside
phase: test
entry: look
sink: done
state:
  n: {type: int, default: 0}
  result: {type: enum, values: [none, ok], default: none}
stop: {to: done}
nodes:
  - {id: look, kind: fanout, branches: [one, two], join: both}
  - {id: one, kind: step, uses: test.read, in: [n], writes: []}
  - {id: two, kind: step, uses: test.read, in: [n], writes: [], required: false}
  - {id: both, kind: merge, of: [one, two]}
  - {id: write, kind: step, uses: test.step, in: [n], writes: [n, result]}
  - {id: check, kind: gate, uses: test.gate, in: [n]}
  - {id: ask, kind: approval, message: "Sure?", approvers: [role:write], expires: 1h}
  - {id: again, kind: loop, back_to: write, max: 2}
  - {id: done, kind: sink}
edges:
  - {from: look, to: done, on: [failed, budget-exhausted], set: {result: ok}}
  - {from: both, to: ask, when: "state.n > 3"}
  - {from: both, to: write}
  - {from: write, to: check}
  - {from: write, to: done, on: [failed], set: {result: ok}}
  - {from: check, to: again, when: "state.n > 0"}
  - {from: check, to: done, set: {result: ok}}
  - {from: ask, to: done, on: [ok, denied], set: {result: ok}}
  - {from: again, to: write}
  - {from: again, to: done, on: [exhausted], set: {result: ok}}
`

var (
	anyRect  = regexp.MustCompile(`<rect class="(box[^"]*|back)" x="([-\d.]+)" y="([-\d.]+)" width="([\d.]+)" height="([\d.]+)"`)
	anyShape = regexp.MustCompile(`<polygon class="box[^"]*" points="([^"]+)"`)
	anyLine  = regexp.MustCompile(`<path class="line[^"]*" d="([^"]+)"`)
)

type area struct{ left, top, right, bottom float64 }

func pixels(t *testing.T, s string) float64 {
	t.Helper()
	v, err := strconv.ParseFloat(s, 64)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func checkRoutes(t *testing.T, name, picture string) {
	t.Helper()
	var boxes, labels []area
	for _, m := range anyRect.FindAllStringSubmatch(picture, -1) {
		x, y := pixels(t, m[2]), pixels(t, m[3])
		a := area{x, y, x + pixels(t, m[4]), y + pixels(t, m[5])}
		if m[1] == "back" {
			labels = append(labels, a)
		} else {
			boxes = append(boxes, a)
		}
	}
	for _, m := range anyShape.FindAllStringSubmatch(picture, -1) {
		a := area{math.Inf(1), math.Inf(1), math.Inf(-1), math.Inf(-1)}
		for _, p := range strings.Fields(m[1]) {
			x, y, _ := strings.Cut(p, ",")
			a.left, a.right = min(a.left, pixels(t, x)), max(a.right, pixels(t, x))
			a.top, a.bottom = min(a.top, pixels(t, y)), max(a.bottom, pixels(t, y))
		}
		boxes = append(boxes, a)
	}
	for i, a := range labels {
		for _, b := range labels[:i] {
			if a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom {
				t.Errorf("%s: the label at %v covers the one at %v", name, a, b)
			}
		}
	}
	for _, m := range anyLine.FindAllStringSubmatch(picture, -1) {
		if strings.Contains(m[1], " v") {
			continue // the sides of a subflow's box
		}
		for _, p := range sampled(t, m[1]) {
			for _, b := range boxes {
				if p.x > b.left+2 && p.x < b.right-2 && p.y > b.top+2 && p.y < b.bottom-2 {
					t.Errorf("%s: the line %s goes through the box %v at %v", name, m[1], b, p)
					return
				}
			}
		}
	}
}

// sampled are points on a path of the commands that a picture has.
func sampled(t *testing.T, path string) []point {
	t.Helper()
	var out []point
	at := point{}
	fields := strings.Fields(path)
	for len(fields) > 0 {
		command := fields[0][0]
		fields[0] = fields[0][1:]
		n := map[byte]int{'M': 2, 'H': 1, 'V': 1, 'Q': 4, 'C': 6}[command]
		if n == 0 {
			t.Fatalf("command %c in %s", command, path)
		}
		v := make([]float64, n)
		for i := range v {
			v[i] = pixels(t, fields[i])
		}
		fields = fields[n:]
		curve := []point{at}
		switch command {
		case 'H':
			curve = append(curve, point{v[0], at.y})
		case 'V':
			curve = append(curve, point{at.x, v[0]})
		default:
			for i := 0; i < n; i += 2 {
				curve = append(curve, point{v[i], v[i+1]})
			}
		}
		if command != 'M' {
			for i := range 60 {
				out = append(out, onCurve(curve, float64(i)/60))
			}
		}
		at = curve[len(curve)-1]
	}
	return append(out, at)
}

// onCurve is a point of a Bézier curve.
func onCurve(curve []point, at float64) point {
	for len(curve) > 1 {
		next := make([]point, len(curve)-1)
		for i := range next {
			next[i] = point{curve[i].x + (curve[i+1].x-curve[i].x)*at, curve[i].y + (curve[i+1].y-curve[i].y)*at}
		}
		curve = next
	}
	return curve[0]
}
