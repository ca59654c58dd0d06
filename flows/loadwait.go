package flows

import (
	"maps"
	"regexp"
	"slices"
	"strings"
)

func (l *loader) readWait(n *rawNode) {
	n.m.need("event")
	n.Event = n.m.name("event", nameForm)
	l.readExpiry(n, Timeout, "wait")
	l.readTake(n)
}

// readExpiry reads the deadline that every node must have that waits for
// people.
func (l *loader) readExpiry(n *rawNode, otherwise Outcome, what string) {
	m := n.m
	n.OnExpire = otherwise
	if m.has("on_expire") {
		n.OnExpire = Outcome(m.str("on_expire"))
		if !slices.Contains([]Outcome{Timeout, Denied, Exhausted}, n.OnExpire) {
			m.bad("on_expire", "must be timeout, denied or exhausted")
			n.OnExpire = otherwise
		}
	}
	if !m.has("expires") && !m.misspelt("expires") {
		l.add(m.where("expires"), what+"-without-expiry", "add expires: 72h", "the %s has no deadline", what)
	}
	n.Expires = m.duration("expires")
}

func (l *loader) readTake(n *rawNode) {
	n.Take = l.nameMap(n, "take")
	n.Writes = n.m.texts("writes")
}

// nameMap reads a mapping of names to names.
func (l *loader) nameMap(n *rawNode, key string) map[string]string {
	if !n.m.has(key) {
		return nil
	}
	m, ok := l.mapping(n.m.value(key), n.ID, key, nil)
	if !ok {
		return nil
	}
	names := map[string]string{}
	for _, k := range m.order {
		names[k] = m.name(k, idForm)
	}
	return names
}

func (l *loader) checkWait(n *rawNode) {
	l.checkTake(n)
	n.Match = l.guard(n.m, "match", true)
	if n.Match != nil {
		n.reads = n.Match.reads
	}
}

// approvalFields are what is known of an approval event; it may have more.
func approvalFields() map[string]*Field {
	return map[string]*Field{
		"by":      {Key: "by", Type: StringField},
		"role":    {Key: "role", Type: EnumField, Values: []string{"admin", "maintain", "write", "triage", "read", "none", "operator"}},
		"outcome": {Key: "outcome", Type: EnumField, Values: []string{"ok", "denied"}},
		"note":    {Key: "note", Type: StringField},
	}
}

// checkTake checks what a wait or an approval takes from its event.
func (l *loader) checkTake(n *rawNode) {
	known := map[string]*Field{}
	if n.Event == ApprovalEvent {
		known = approvalFields()
	}
	l.checkTaken(n, func(from string) *Field { return known[from] })
}

// checkTaken checks that what is taken fits the state where its type is known,
// and that writes, if there is any, says no more.
func (l *loader) checkTaken(n *rawNode, known func(from string) *Field) {
	taken := slices.Sorted(maps.Keys(n.Take))
	m, _ := l.mapping(n.m.valueOr("take"), n.ID, "take", nil)
	for _, key := range taken {
		to := l.flow.byKey[key]
		if to == nil {
			l.add(at(m.key(key), n.ID), "ref-unknown", didYouMean(key, fieldKeys(l.flow.byKey)), "take sets %s, which is no field of the state", key)
			return
		}
		if from := known(n.Take[key]); from != nil && !from.fits(to) {
			l.add(m.where(key), "take-mismatch", "", "take puts %s into state.%s: %s", n.Take[key], key, misfit(from, to))
		}
	}
	if !n.m.has("writes") {
		n.Writes = taken
	} else if writes := slices.Sorted(slices.Values(n.Writes)); !slices.Equal(writes, taken) {
		l.add(n.m.where("writes"), "writes-mismatch", "leave it out", "writes is not what take sets (%s)", strings.Join(taken, ", "))
	}
}

// fits tells that every value of a field can be one of the other, its size
// apart.
func (f *Field) fits(to *Field) bool {
	switch {
	case f.Type == EnumField && to.Type == StringField:
		return true
	case f.Type != to.Type || f.Of != to.Of:
		return false
	case f.Type != EnumField:
		return true
	}
	return !slices.ContainsFunc(f.Values, func(v string) bool {
		// The default of a result is never the result of a run.
		return !slices.Contains(to.Values, v) && (f.Key != resultKey || v != noResult)
	})
}

func misfit(from, to *Field) string {
	if from.Type == EnumField && to.Type == EnumField {
		return "one has the values " + strings.Join(from.Values, ", ") + ", the other " + strings.Join(to.Values, ", ")
	}
	return "one is of type " + from.typeName() + ", the other of type " + to.typeName()
}

func (f *Field) typeName() string {
	if f.Type == ListField {
		return "list of " + string(f.Of)
	}
	return string(f.Type)
}

// approverForm is who may approve: a role or above, or one person.
var approverForm = regexp.MustCompile(`^(role:(admin|maintain|write|triage)|user:[A-Za-z0-9][A-Za-z0-9_-]{0,38})$`)

// maxText bounds a message or a template.
const maxText = 4 << 10

func (l *loader) readApproval(n *rawNode) {
	m := n.m
	m.need("message", "approvers")
	n.Event = ApprovalEvent
	n.Message = m.str("message")
	if len(n.Message) > maxText {
		m.bad("message", "has %d bytes, the limit is %d", len(n.Message), maxText)
	}
	n.reads = l.templates(m.where("message"), n.Message)
	n.Approvers = m.texts("approvers")
	if m.has("approvers") && len(m.items("approvers")) == 0 {
		m.bad("approvers", "must name at least one, such as role:maintain")
	}
	for i, who := range n.Approvers {
		if !approverForm.MatchString(who) {
			l.add(at(m.items("approvers")[i], n.ID), "bad-value", "role:admin, role:maintain, role:write, role:triage or user:LOGIN", "%s is nobody who can approve", short([]byte(who)))
		}
	}
	l.readExpiry(n, Denied, "approval")
	l.readTake(n)
}
