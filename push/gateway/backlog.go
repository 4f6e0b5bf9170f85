package gateway

import (
	"cmp"
	"slices"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/session"
)

// mostWaiting is about the most that waits for one client: a queue, and an answer that was taken when it was empty.
const mostWaiting = 64<<10 + historyBytes

// relieve cuts clients for whom most waits, if more than Options.Backlog waits for all, until it is three quarters of that. They come back, and
// recover. What waits for one client is bounded anyhow; this is against very many that do not read at the same time.
func (g *Gateway) relieve() {
	bound := g.options.Backlog
	if bound <= 0 || int64(g.Len())*mostWaiting <= bound {
		return
	}
	type debtor struct {
		session *session.Session
		bytes   int64
	}
	var debtors []debtor
	waiting := int64(0)
	for s := range g.server.Sessions() {
		if n := s.Queued(); n > 0 {
			debtors = append(debtors, debtor{s, int64(n)})
			waiting += int64(n)
		}
	}
	if waiting <= bound {
		return
	}
	slices.SortFunc(debtors, func(a, b debtor) int { return cmp.Compare(b.bytes, a.bytes) })
	cut, left := 0, waiting
	for _, d := range debtors {
		if left <= bound-bound/4 {
			break
		}
		if c, ok := d.session.Value().(*client); ok {
			c.cut(push.DisconnectSlow)
			left -= d.bytes
			cut++
		}
	}
	g.options.Logger.Warn("clients were cut, for too much waited for all of them together: see the setting limits.backlog",
		"clients", cut, "bytes", waiting, "bound", bound)
}

// cut ends the connection without a goodbye, which the client would not read.
func (c *client) cut(d push.Disconnect) {
	if s := c.session.Load(); s != nil && !c.ended.Swap(true) {
		c.gateway.counts.disconnected[WebSocket].Add(uint32(d.Code))
		s.Abort(d)
	}
}
