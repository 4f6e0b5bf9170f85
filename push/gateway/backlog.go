package gateway

import (
	"cmp"
	"slices"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/admission"
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
		client *Client
		bytes  int64
	}
	var debtors []debtor
	waiting := int64(0)
	for c := range g.clients() {
		if n := c.carrier.Queued(); n > 0 {
			debtors = append(debtors, debtor{c, int64(n)})
			waiting += int64(n)
		}
	}
	if waiting <= bound || !g.limits.Exceeded(admission.Backlog, "bytes", waiting) {
		return
	}
	slices.SortFunc(debtors, func(a, b debtor) int { return cmp.Compare(b.bytes, a.bytes) })
	cut, left := 0, waiting
	for _, d := range debtors {
		if left <= bound-bound/4 {
			break
		}
		d.client.cut(push.DisconnectSlow)
		left -= d.bytes
		cut++
	}
	g.options.Logger.Warn("slow clients disconnected, total backlog over limits.backlog",
		"clients", cut, "bytes", waiting, "limit", bound)
}
