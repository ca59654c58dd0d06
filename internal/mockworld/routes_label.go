package mockworld

import (
	"encoding/json"
	"net/http"
	"regexp"
	"strings"
)

func labelRoutes() []*route {
	const onIssue, inRepo = repoPath + "/issues/{number}/labels", repoPath + "/labels"
	return []*route{
		{method: "GET", pattern: onIssue, list: true, handle: issueLabels},
		{method: "POST", pattern: onIssue, anyBody: true, role: RoleTriage, handle: addIssueLabels},
		{method: "PUT", pattern: onIssue, anyBody: true, role: RoleTriage, handle: putIssueLabels},
		{method: "DELETE", pattern: onIssue, role: RoleTriage, handle: clearIssueLabels},
		{method: "DELETE", pattern: onIssue + "/{name}", role: RoleTriage, handle: removeIssueLabel},
		{method: "GET", pattern: inRepo, list: true, perm: "issues", handle: repoLabels},
		{method: "POST", pattern: inRepo, perm: "issues", role: RoleWrite, body: []string{"name", "color", "description"}, handle: createLabel},
		{method: "GET", pattern: inRepo + "/{name}", perm: "issues", handle: getLabel},
		{method: "PATCH", pattern: inRepo + "/{name}", perm: "issues", role: RoleWrite, body: []string{"new_name", "name", "color", "description"}, handle: patchLabel},
		{method: "DELETE", pattern: inRepo + "/{name}", perm: "issues", role: RoleWrite, handle: deleteRepoLabel},
	}
}

// labelNames reads ["a"], {"labels": ["a"]} or {"labels": [{"name": "a"}]}.
func (c *call) labelNames() ([]string, error) {
	bad := refuse(http.StatusUnprocessableEntity, "Invalid request.\n\nFor 'links/0/schema', the labels are not an array of strings.")
	var names []string
	if json.Unmarshal(c.raw, &names) == nil {
		return names, nil
	}
	var in struct {
		Labels []json.RawMessage `json:"labels"`
	}
	if json.Unmarshal(c.raw, &in) != nil {
		return nil, bad
	}
	for _, raw := range in.Labels {
		var name string
		var named struct {
			Name string `json:"name"`
		}
		if json.Unmarshal(raw, &name) == nil {
			names = append(names, name)
		} else if json.Unmarshal(raw, &named) == nil && named.Name != "" {
			names = append(names, named.Name)
		} else {
			return nil, bad
		}
	}
	return names, nil
}

func (w *World) labelsReply(i *issue) (*reply, error) {
	return ok(w.labelsJSON(i.repo, i.labels))
}

func issueLabels(w *World, c *call) (*reply, error) {
	return withIssue(w, c, func(i *issue) (*reply, error) {
		return all(c, i.labels, func(l *label) obj { return w.labelJSON(c.repo, l) })
	})
}

func addIssueLabels(w *World, c *call) (*reply, error) {
	return withIssue(w, c, func(i *issue) (*reply, error) {
		names, err := c.labelNames()
		if err != nil {
			return nil, err
		}
		if err := w.addLabels(i, c.by, names); err != nil {
			return nil, err
		}
		return w.labelsReply(i)
	})
}

func putIssueLabels(w *World, c *call) (*reply, error) {
	return withIssue(w, c, func(i *issue) (*reply, error) {
		names, err := c.labelNames()
		if err != nil {
			return nil, err
		}
		if err := w.replaceLabels(i, c.by, names); err != nil {
			return nil, err
		}
		return w.labelsReply(i)
	})
}

// replaceLabels makes the set of labels exactly the given one.
func (w *World) replaceLabels(i *issue, by *account, names []string) error {
	for _, l := range append([]*label(nil), i.labels...) {
		keep := false
		for _, n := range names {
			keep = keep || strings.EqualFold(n, l.name)
		}
		if !keep {
			if err := w.removeLabel(i, by, l.name); err != nil {
				return err
			}
		}
	}
	return w.addLabels(i, by, names)
}

func clearIssueLabels(w *World, c *call) (*reply, error) {
	return withIssue(w, c, func(i *issue) (*reply, error) {
		if err := w.replaceLabels(i, c.by, nil); err != nil {
			return nil, err
		}
		return noContent()
	})
}

func removeIssueLabel(w *World, c *call) (*reply, error) {
	return withIssue(w, c, func(i *issue) (*reply, error) {
		if err := w.removeLabel(i, c.by, c.vars["name"]); err != nil {
			return nil, err
		}
		return w.labelsReply(i)
	})
}

func repoLabels(w *World, c *call) (*reply, error) {
	return all(c, c.repo.labels, func(l *label) obj { return w.labelJSON(c.repo, l) })
}

var hexColor = regexp.MustCompile(`^[0-9a-fA-F]{6}$`)

// labelIn is what creating and editing a label take.
type labelIn struct {
	Name        *string `json:"name"`
	NewName     *string `json:"new_name"`
	Color       *string `json:"color"`
	Description *string `json:"description"`
}

func (c *call) labelIn() (labelIn, error) {
	var in labelIn
	if err := c.decode(&in); err != nil {
		return in, err
	}
	if in.Color != nil && !hexColor.MatchString(*in.Color) {
		return in, invalid("Label", "color", "invalid")
	}
	if in.Description != nil && len([]rune(*in.Description)) > 100 {
		return in, invalidWhy("Label", "description", "description is too long (maximum is 100 characters)")
	}
	return in, nil
}

func createLabel(w *World, c *call) (*reply, error) {
	in, err := c.labelIn()
	if err != nil {
		return nil, err
	}
	name := strings.TrimSpace(text(in.Name))
	if name == "" {
		return nil, invalid("Label", "name", "missing_field")
	}
	if len([]rune(name)) > maxLabelName {
		return nil, invalidWhy("Label", "name", "name is too long (maximum is 50 characters)")
	}
	if c.repo.label(name) != nil {
		return nil, invalid("Label", "name", "already_exists")
	}
	l, err := w.newLabel(c.repo, LabelSpec{Name: name, Color: text(in.Color), Description: text(in.Description)})
	if err != nil {
		return nil, err
	}
	w.emit(c.repo, "label", "created", c.by, obj{"label": w.labelJSON(c.repo, l)})
	return created(w.labelJSON(c.repo, l))
}

func (w *World) labelOf(c *call) (*label, error) {
	l := c.repo.label(c.vars["name"])
	if l == nil {
		return nil, notFound()
	}
	return l, nil
}

func getLabel(w *World, c *call) (*reply, error) {
	l, err := w.labelOf(c)
	if err != nil {
		return nil, err
	}
	return ok(w.labelJSON(c.repo, l))
}

func patchLabel(w *World, c *call) (*reply, error) {
	l, err := w.labelOf(c)
	if err != nil {
		return nil, err
	}
	in, err := c.labelIn()
	if err != nil {
		return nil, err
	}
	if in.NewName == nil {
		in.NewName = in.Name
	}
	if err := w.editLabel(c.repo, c.by, l, in.NewName, in.Color, in.Description); err != nil {
		return nil, err
	}
	return ok(w.labelJSON(c.repo, l))
}

func deleteRepoLabel(w *World, c *call) (*reply, error) {
	if err := w.deleteLabel(c.repo, c.by, c.vars["name"]); err != nil {
		return nil, err
	}
	return noContent()
}
