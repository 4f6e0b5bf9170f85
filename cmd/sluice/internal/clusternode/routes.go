package clusternode

import (
	"iter"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/sluice-push/sluice/push/cluster"
	"github.com/sluice-push/sluice/push/gateway"
	"github.com/sluice-push/sluice/push/gateway/route"
)

var _ gateway.Routes = (*Node)(nil)

// clientOf returns what rules know of a client.
func clientOf(c *route.Client) cluster.Client {
	return cluster.Client{User: c.User, Addr: c.Addr, Claims: c.Claims, Channel: c.Channel, Random: rand.Uint64()} //nolint:gosec // spread, not secrecy
}

// Route implements [gateway.Routes].
func (n *Node) Route(c *route.Client, goes bool) []route.Route {
	client := clientOf(c)
	var room [cluster.MaxAddresses]*cluster.Member
	found, err := n.router.Route(room[:0], n.sent.apply(n.directory.Set()), &client)
	if err != nil {
		return nil
	}
	out := make([]route.Route, 0, len(found))
	for _, m := range found {
		if m.ID != n.self.ID || !m.Draining { // a draining node is found if there is no other
			out = append(out, route.Route{URL: m.Public})
		}
	}
	if goes && len(out) > 0 {
		n.sent.add(found[0])
	}
	return out
}

// Allows implements [gateway.Routes].
func (n *Node) Allows(c *route.Client) bool {
	client := clientOf(c)
	self := n.directory.Set().Member(n.self.ID)
	return self == nil || n.router.Allows(self, &client)
}

// sentBatch is after how many clients the numbers of sessions are counted anew. Clients of one batch may all get the same gateway.
const sentBatch = 16

// sent counts the clients that were sent to each gateway since that gateway has announced another number. Otherwise all clients of a second would get the
// same gateway. Other gateways send clients, too, of which this one knows nothing: each is taken to send as many. The zero value is ready.
type sent struct {
	mu       sync.Mutex
	base     *cluster.Set // as announced
	adjusted *cluster.Set // with the clients that were sent
	counts   map[string]*sentTo
	new      int // clients since adjusted was made
}

// sentTo are the clients that were sent to a gateway.
type sentTo struct {
	announced int // sessions, when counting began
	clients   int
}

// apply returns a set with the clients that were sent to each gateway since.
func (s *sent) apply(announced *cluster.Set) *cluster.Set {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.base == announced && s.new < sentBatch {
		return s.adjusted
	}
	s.base, s.new = announced, 0
	now := map[string]int{}
	senders := 0
	for _, m := range announced.Members() {
		if m.IsGateway() {
			senders++
		}
	}
	for id, to := range s.counts {
		if m := announced.Member(id); m == nil || m.Sessions != to.announced {
			delete(s.counts, id)
		} else {
			now[id] = m.Sessions + senders*to.clients
		}
	}
	if s.adjusted = announced; len(now) > 0 {
		s.adjusted = announced.WithSessions(now)
	}
	return s.adjusted
}

// add counts a client.
func (s *sent) add(to *cluster.Member) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.new++
	if count := s.counts[to.ID]; count != nil {
		count.clients++
		return
	}
	if m := s.base.Member(to.ID); m != nil {
		if s.counts == nil {
			s.counts = map[string]*sentTo{}
		}
		s.counts[to.ID] = &sentTo{m.Sessions, 1}
	}
}

// Clients are the clients of a node. A *gateway.Gateway has these methods.
type Clients interface {
	// Len returns how many clients are connected.
	Len() int
	// Sessions visits them.
	Sessions() iter.Seq[gateway.Session]
}

// stepClients is at how many clients a step of the rebinder looks. A step takes a few milliseconds then, however many clients there are.
const stepClients = 4096

// stepPause is the shortest pause between two steps: the time for which the rules let moves be saved up.
const stepPause = 100 * time.Millisecond

// rebinder moves clients that belong to other gateways. It belongs to one goroutine.
type rebinder struct {
	rules    *cluster.Rebind
	router   *cluster.Router
	move     func(s gateway.Session, urls []string) bool // reports whether the client was still connected
	clients  []gateway.Session                           // of this pass; those before at were looked at
	at       int
	sessions []cluster.Session // of one step; its memory is used again
}

// newRebinder returns what moves clients; nil: nothing does.
func (n *Node) newRebinder() (*rebinder, error) {
	c := &n.config.Cluster.Rebind
	if c.Rate == 0 || n.self.Public == "" {
		return nil, nil
	}
	cooldown := time.Duration(c.Cooldown)
	if cooldown == 0 {
		cooldown = -1 // none
	}
	rules, err := cluster.NewRebind(&cluster.RebindOptions{Self: n.self.ID, Router: n.router, Rate: c.Rate, Skew: float64(c.Skew), Cooldown: cooldown})
	move := func(s gateway.Session, urls []string) bool { return s.Move(urls, 0) }
	return &rebinder{rules: rules, router: n.router, move: move}, err
}

// step looks at the next clients, of all clients in turn, and moves the clients that it is time for. It returns how many these are, and the
// pause before the next step.
func (r *rebinder) step(now time.Time, set *cluster.Set, sessions iter.Seq[gateway.Session]) (moved int, pause time.Duration) {
	if r.at == len(r.clients) {
		clear(r.clients) // their memory can be freed
		r.clients, r.at = slices.AppendSeq(r.clients[:0], sessions), 0
	}
	clients := r.clients[r.at:min(r.at+stepClients, len(r.clients))]
	r.at += len(clients)
	for _, s := range clients {
		r.sessions = append(r.sessions, cluster.Session{Client: clientOf(s.Client), Since: s.Since})
	}
	moves, next := r.rules.Step(now, set, r.sessions)
	var room [cluster.MaxAddresses]*cluster.Member
	for _, m := range moves {
		urls := []string{m.To.Public}
		others, _ := r.router.Route(room[:0], set, &r.sessions[m.Session].Client) // an error leaves the first
		for _, other := range others {
			if other.ID != m.To.ID {
				urls = append(urls, other.Public)
			}
		}
		if r.move(clients[m.Session], urls) {
			moved++
		}
	}
	clear(r.sessions)
	r.sessions = r.sessions[:0]
	switch {
	case r.at < len(r.clients):
		return moved, stepPause
	case next.IsZero():
		return moved, period
	}
	return moved, min(max(next.Sub(now), stepPause), period)
}
