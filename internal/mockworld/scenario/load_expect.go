package scenario

import "fmt"

// expect refuses expectations that claim nothing or cannot be judged.
func (c *checker) expect(e Expect) {
	if len(Mutate(e)) == 0 {
		c.add("expect", "say what must be true at the end", "the scenario asserts nothing")
	}
	for i, w := range e.Issues {
		p := fmt.Sprintf("expect.issues[%d]", i)
		if w.Labels == nil && len(w.Has)+len(w.Lacks)+len(w.Comments) == 0 && w.State == "" && w.Status == nil {
			c.add(p, "", "claims nothing about the issue")
		}
		for k, cw := range w.Comments {
			c.count(fmt.Sprintf("%s.comments[%d].count", p, k), cw.Count)
		}
		if w.Status != nil {
			c.count(p+".status.count", w.Status.Count)
			if len(w.Status.Contains) > 0 && !some(w.Status.Count) {
				c.add(p+".status.contains", "", "claims a text of no comment")
			}
		}
	}
	for i, w := range e.Pulls {
		c.pull(fmt.Sprintf("expect.pulls[%d]", i), w)
	}
	for i, w := range e.Branches {
		c.count(fmt.Sprintf("expect.branches[%d].count", i), w.Count)
	}
	for i, w := range e.Refs {
		c.count(fmt.Sprintf("expect.refs[%d].count", i), w.Count)
	}
	for i, w := range e.Runs {
		p := fmt.Sprintf("expect.runs[%d]", i)
		c.count(p+".count", w.Count)
		for n, cw := range w.Nodes {
			c.count(p+".nodes."+n, &cw)
		}
	}
	for p, cw := range e.Model {
		c.count("expect.model."+p, &cw)
	}
	for i, w := range e.Requests {
		c.regex(fmt.Sprintf("expect.requests[%d].path", i), w.Path)
		c.count(fmt.Sprintf("expect.requests[%d].count", i), w.Count)
	}
	for i, w := range e.Never {
		p := fmt.Sprintf("expect.never[%d]", i)
		if len(setFields(w)) != 1 {
			c.add(p, "", "exactly one of label, comment, request, branch and event")
		}
		if w.Request != nil {
			c.regex(p+".request.path", w.Request.Path)
		}
	}
}

func (c *checker) pull(path string, w PullWant) {
	c.count(path+".count", w.Count)
	claims := len(w.Title) + len(w.Body) + len(w.Excludes) + len(w.Reviews) + len(w.Content)
	if w.Count != nil && !some(w.Count) && (claims > 0 || w.State != "" || w.Base != "" || w.Files != nil || w.Commits != nil) {
		c.add(path, "", "claims something of pull requests that need not be there")
	}
}

// count refuses a count that any number satisfies.
func (c *checker) count(path string, n *Count) {
	if n != nil && len(n.altered()) == 0 {
		c.add(path, "", "%s is true of any number", n)
	}
}
