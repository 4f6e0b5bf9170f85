package gateway

import (
	"net"
	"net/http"
	"net/netip"
	"time"

	"github.com/sluice-push/sluice/internal/clientaddr"
	"github.com/sluice-push/sluice/push/admission"
)

// NotAdmitted is why a client is not admitted. The client may come again.
type NotAdmitted struct {
	Reason string
	Status int           // of HTTP
	Wait   time.Duration // before the client comes again, at least MinRetry
}

// Error returns the reason.
func (e *NotAdmitted) Error() string { return e.Reason }

func notAdmitted(status int, reason string) *NotAdmitted {
	return &NotAdmitted{reason, status, MinRetry}
}

// admit counts a client in, or says why it cannot be. The caller calls arriving.Done when Shutdown can see the client, or it is
// gone, and leave with the same address, once, when the client is gone.
func (g *Gateway) admit(addr netip.Addr) error {
	refused, exceeded := g.tryAdmit(addr)
	for _, n := range exceeded {
		g.limits.Exceeded(n, "client", addr)
	}
	if refused == nil {
		return nil
	}
	return refused
}

// tryAdmit is admit without counting and logging which limits are exceeded, enforced or not: it returns them.
func (g *Gateway) tryAdmit(addr netip.Addr) (refused *NotAdmitted, exceeded []admission.Name) {
	o, now := &g.options, g.clock()
	g.mu.Lock()
	defer g.mu.Unlock()
	refuses := func(n admission.Name) bool {
		exceeded = append(exceeded, n)
		return g.limits.Enforced(n)
	}
	from := g.addresses[addr]
	switch {
	case g.draining:
		g.counts.closing.Add(1)
		return notAdmitted(http.StatusServiceUnavailable, "the node is shutting down"), nil
	case o.Sessions > 0 && g.sessions >= o.Sessions && refuses(admission.Sessions):
		g.counts.full.Add(1)
		return notAdmitted(http.StatusServiceUnavailable, "the node has reached its limit of clients"), exceeded
	case from != nil && o.SessionsPerAddress > 0 && from.sessions >= o.SessionsPerAddress && refuses(admission.SessionsPerAddress):
		g.counts.address.Add(1)
		return notAdmitted(http.StatusServiceUnavailable, "address "+addr.String()+" has reached its limit of connections"), exceeded
	case !g.ramp.Admit(addr, now, refuses):
		g.counts.ramp.Add(1)
		if exceeded[len(exceeded)-1] == admission.ConnectsPerAddress {
			return notAdmitted(http.StatusTooManyRequests, "too many connects from address "+addr.String()+", try again later"), exceeded
		}
		return &NotAdmitted{"too many clients connect, try again later", http.StatusServiceUnavailable, g.ramp.Wait(now)}, exceeded
	}
	if from == nil {
		from = new(caller)
		g.addresses[addr] = from
	}
	g.sessions++
	from.sessions++
	g.arriving.Add(1)
	return nil, exceeded
}

func (g *Gateway) leave(addr netip.Addr) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.sessions--
	from := g.addresses[addr]
	if from.sessions--; from.sessions == 0 {
		delete(g.addresses, addr)
	}
}

// callerOf returns the address of a client that is admitted.
func (g *Gateway) callerOf(addr netip.Addr) *caller {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.addresses[addr]
}

// addressOf returns what a client is counted by.
func (g *Gateway) addressOf(r *http.Request) netip.Addr {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		host = r.RemoteAddr
	}
	addr, err := netip.ParseAddr(host)
	if err != nil {
		return netip.Addr{}
	}
	return clientaddr.Of(g.options.Proxies.Client(addr, r.Header))
}

// countUser counts the client among the sessions of its user, and reports whether the user may have so many.
func (c *Client) countUser(id *Identity) bool {
	c.forgetUser() // of a connect command before, that failed later
	g, user := c.gateway, id.Info.User
	if g.options.SessionsPerUser <= 0 || user == "" {
		return true
	}
	if g.users.Enter(user) > g.options.SessionsPerUser && c.exceeds(admission.SessionsPerUser) {
		g.users.Leave(user)
		return false
	}
	c.counted.Store(id)
	if c.released.Load() || c.ended.Load() { // the client has been disconnected meanwhile
		c.forgetUser()
	}
	return true
}

// forgetUser takes the client from the sessions of its user, if it is counted among them.
func (c *Client) forgetUser() {
	if id := c.counted.Swap(nil); id != nil {
		c.gateway.users.Leave(id.Info.User)
	}
}
