package gateway

import (
	"net"
	"net/http"
	"net/netip"
	"time"

	"github.com/sluice-push/sluice/internal/clientaddr"
	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/admission"
	"github.com/sluice-push/sluice/push/gateway/route"
)

// NotAdmitted is why a client is not admitted. The client may come again.
type NotAdmitted struct {
	Reason string
	Status int           // of HTTP
	Wait   time.Duration // before the client comes again, at least MinRetry
	// Routes are the gateways to which the client may go instead; nil: none are known, or the client exceeds a rate of its own.
	Routes []route.Route
	// Disconnect is with what a client is disconnected that is refused when it connects. It is the zero value for a client that is refused before.
	Disconnect push.Disconnect
}

// Error returns the reason.
func (e *NotAdmitted) Error() string { return e.Reason }

// Unwrap returns the disconnect, if there is one.
func (e *NotAdmitted) Unwrap() error {
	if e.Disconnect.Code == 0 {
		return nil
	}
	return e.Disconnect
}

// shuttingDown is why no client is admitted any more.
const shuttingDown = "the node is shutting down"

func notAdmitted(status int, reason string) *NotAdmitted {
	return &NotAdmitted{Reason: reason, Status: status, Wait: MinRetry}
}

// admit counts a client in, or says why it cannot be. The caller calls arriving.Done when Shutdown can see the client, or it is
// gone, and leave with the same address, once, when the client is gone.
func (g *Gateway) admit(addr netip.Addr) (refused *NotAdmitted) {
	return g.underLimits(addr, g.tryAdmitLocked)
}

// underLimits calls try with a function that it calls with each limit that a client exceeds, and which reports whether the limit is enforced. It counts
// and logs these limits, enforced or not, and returns what try does.
func (g *Gateway) underLimits(addr netip.Addr, try func(netip.Addr, func(admission.Name) bool) *NotAdmitted) *NotAdmitted {
	var exceeded []admission.Name
	g.mu.Lock()
	refused := try(addr, func(n admission.Name) bool {
		exceeded = append(exceeded, n)
		return g.limits.Enforced(n)
	})
	g.mu.Unlock()
	for _, n := range exceeded {
		g.limits.Exceeded(n, "client", addr)
	}
	return refused
}

func (g *Gateway) tryAdmitLocked(addr netip.Addr, refuses func(admission.Name) bool) *NotAdmitted {
	o := &g.options
	from := g.addresses[addr]
	switch {
	case g.draining:
		g.counts.closing.Add(1)
		return notAdmitted(http.StatusServiceUnavailable, shuttingDown)
	case o.Sessions > 0 && g.sessions >= o.Sessions && refuses(admission.Sessions):
		g.counts.full.Add(1)
		return notAdmitted(http.StatusServiceUnavailable, "the node has reached its limit of clients")
	case from != nil && o.SessionsPerAddress > 0 && from.sessions >= o.SessionsPerAddress && refuses(admission.SessionsPerAddress):
		g.counts.address.Add(1)
		return notAdmitted(http.StatusServiceUnavailable, "address "+addr.String()+" has reached its limit of connections")
	}
	if refused := g.tryConnectLocked(addr, refuses); refused != nil {
		return refused
	}
	if from == nil {
		from = new(caller)
		g.addresses[addr] = from
	}
	g.sessions++
	from.sessions++
	g.arriving.Add(1)
	return nil
}

// tryConnectLocked counts a connect, or says that there are too many.
func (g *Gateway) tryConnectLocked(addr netip.Addr, refuses func(admission.Name) bool) *NotAdmitted {
	var over admission.Name
	now := g.clock()
	if g.ramp.Admit(addr, now, func(n admission.Name) bool { over = n; return refuses(n) }) {
		return nil
	}
	g.counts.ramp.Add(1)
	if over == admission.ConnectsPerAddress {
		return notAdmitted(http.StatusTooManyRequests, "too many connects from address "+addr.String()+", try again later")
	}
	refused := notAdmitted(http.StatusServiceUnavailable, "too many clients connect, try again later")
	refused.Wait = g.ramp.Wait(now)
	return refused
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
func (g *Gateway) addressOf(r *http.Request) netip.Addr { return clientaddr.Of(g.remoteOf(r)) }

// remoteOf returns the address from which a client comes.
func (g *Gateway) remoteOf(r *http.Request) netip.Addr {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		host = r.RemoteAddr
	}
	addr, err := netip.ParseAddr(host)
	if err != nil {
		return netip.Addr{}
	}
	return g.options.Proxies.Client(addr, r.Header).Unmap().WithZone("")
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
