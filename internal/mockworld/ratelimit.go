package mockworld

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// usage is what one caller has used up.
type usage struct {
	start  time.Time // of the primary window
	used   int
	points []spent
	writes []time.Time
}

type spent struct {
	at time.Time
	n  int
}

func (w *World) usageOf(who string) *usage {
	u := w.usage[who]
	now := w.clock.Now()
	if u == nil {
		u = &usage{start: now}
		w.usage[who] = u
	}
	if !now.Before(u.start.Add(time.Hour)) {
		u.start, u.used = now, 0
	}
	return u
}

func (w *World) primaryLimit(who string) int {
	if who == "" || who == "unknown credentials" {
		return w.limits.AnonymousPerHour
	}
	return w.limits.PrimaryPerHour
}

// limit refuses a caller who has asked too much.
func (w *World) limit(c *call) error {
	u := w.usageOf(c.who)
	now := w.clock.Now()
	if l := w.primaryLimit(c.who); l >= 0 && u.used >= l {
		status := w.limits.PrimaryStatus
		if status == 0 {
			status = http.StatusForbidden
		}
		who := "you"
		if c.by != nil {
			who = fmt.Sprintf("user ID %d", c.by.id)
		}
		return refuse(status, "API rate limit exceeded for %s.", who)
	}
	if w.limits.Concurrent >= 0 && w.inflight[c.who] > w.limits.Concurrent {
		return w.secondary()
	}
	cost, write := 1, c.r.Method != http.MethodGet && c.r.Method != http.MethodHead
	if write {
		cost = 5
	}
	sum := 0
	for len(u.points) > 0 && !u.points[0].at.After(now.Add(-time.Minute)) {
		u.points = u.points[1:]
	}
	for _, p := range u.points {
		sum += p.n
	}
	if w.limits.PointsPerMinute >= 0 && sum+cost > w.limits.PointsPerMinute {
		return w.secondary()
	}
	if write && !c.route.jwt {
		for len(u.writes) > 0 && !u.writes[0].After(now.Add(-time.Hour)) {
			u.writes = u.writes[1:]
		}
		minute := 0
		for _, at := range u.writes {
			if at.After(now.Add(-time.Minute)) {
				minute++
			}
		}
		if l := w.limits.ContentPerHour; l >= 0 && len(u.writes) >= l {
			return w.secondary()
		}
		if l := w.limits.ContentPerMinute; l >= 0 && minute >= l {
			return w.secondary()
		}
		u.writes = append(u.writes, now)
	}
	u.points = append(u.points, spent{now, cost})
	return nil
}

func (w *World) secondary() *apiErr {
	e := refuse(http.StatusForbidden, "You have exceeded a secondary rate limit and have been temporarily blocked from content creation. Please retry your request again later.")
	if w.limits.RetryAfter > 0 {
		e.header = http.Header{"Retry-After": {strconv.Itoa(int(w.limits.RetryAfter / time.Second))}}
	}
	return e
}

// conditional adds the ETag, turns a known one into 304, charges the primary
// limit for anything else, and tells of it.
func (w *World) conditional(c *call, out *reply) *reply {
	free := c.route != nil && c.route.free
	if (c.r.Method == http.MethodGet || c.r.Method == http.MethodHead) && out.status == http.StatusOK {
		h := sha256.New()
		_, _ = fmt.Fprintf(h, "%s\n%s\n%s\n%s\n%s\n", secretOf(c.r), c.r.Header.Get("Accept"), c.r.URL.String(), out.header.Get("Link"), out.body)
		tag := `W/"` + hex.EncodeToString(h.Sum(nil)) + `"`
		out.set("ETag", tag)
		out.set("Cache-Control", "private, max-age=60, s-maxage=60")
		out.set("Vary", "Accept, Authorization, Cookie, X-GitHub-OTP,Accept-Encoding, Accept, X-Requested-With")
		if strings.Contains(c.r.Header.Get("If-None-Match"), strings.TrimPrefix(tag, "W/")) {
			out.status, out.body, free = http.StatusNotModified, nil, true
			out.header.Del("Content-Length")
			out.header.Del("Content-Type")
		}
	}
	l := w.primaryLimit(c.who)
	if l < 0 {
		return out
	}
	u := w.usageOf(c.who)
	if !free && u.used < l {
		u.used++
	}
	out.set("X-RateLimit-Limit", strconv.Itoa(l))
	out.set("X-RateLimit-Remaining", strconv.Itoa(max(l-u.used, 0)))
	out.set("X-RateLimit-Used", strconv.Itoa(u.used))
	out.set("X-RateLimit-Reset", strconv.FormatInt(u.start.Add(time.Hour).Unix(), 10))
	out.set("X-RateLimit-Resource", "core")
	return out
}
