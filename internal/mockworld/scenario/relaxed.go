package scenario

// relaxed are the expectations of a story in which the bot dies once more (or
// is stopped and goes on, or hears in another order) than its file says:
// everything but the counts that this changes rightly.
//
//   - bot_starts: one more for a crash;
//   - spend: what died was paid for and is paid again;
//   - requests, but those that must never be: a write whose answer was lost is
//     looked for, or made again where that is harmless;
//   - deliveries: those while nobody listens are answered by nobody, and what
//     is shuffled is answered on the way;
//   - model: a call whose answer died is made again. (How often a node was
//     completed stays claimed.)
func relaxed(e Expect, crashed bool) Expect {
	e.Spend, e.Deliveries, e.Requests = nil, nil, nil
	if crashed && e.Starts != nil {
		c := Count{}
		if e.Starts.Min != nil {
			n := *e.Starts.Min + 1
			c.Min = &n
		}
		if e.Starts.Max != nil {
			n := *e.Starts.Max + 1
			c.Max = &n
		}
		e.Starts = &c
	}
	e.Model = nil
	return e
}

// Steers reports that a story handles the process itself: kills it, stops it,
// starts it or waits for its end. It is a crash already, at an instant of its
// own choosing, and another one within is not what its file speaks of.
func (s *Scenario) Steers() bool {
	if s.Bot.Manual {
		return true
	}
	for _, st := range s.Timeline {
		if st.Do.StopBot != "" || st.Do.StartBot || st.Do.SecondBot != "" || st.After.BotExited {
			return true
		}
	}
	for _, f := range s.Faults {
		if f.KillBot != "" {
			return true
		}
	}
	return false
}
