package cluster_test

import (
	"fmt"
	"math"
	"time"

	"github.com/sluice-push/sluice/push/cluster"
)

const (
	tick     = 100 * time.Millisecond // how often the gateways of a world look at their sessions
	travel   = 3 * tick               // how long a client takes to the other gateway
	announce = 10                     // ticks
)

// world is a cluster with clients, in which time passes in ticks.
type world struct {
	t        fataler
	now      time.Time
	router   *cluster.Router
	rate     int
	cooldown time.Duration
	atOnce   int // sessions that a gateway looks at in one step

	members map[string]*cluster.Member // the nodes that are up
	rebinds map[string]*cluster.Rebind
	nexts   map[string]time.Time
	looked  map[string]int // at how many sessions a gateway has looked
	clients []*traveler
	set     *cluster.Set // as announced last

	ticks, moved int
	lastMove     time.Time
	times        map[string][]time.Time // of the moves of each gateway
	reasons      map[cluster.Reason]int
}

// traveler is a client of a world.
type traveler struct {
	cluster.Client
	at        string
	since     time.Time
	to        string // it is on its way there
	arrives   time.Time
	lastMoved time.Time
	moves     int
}

// newWorld makes a world of gateways with clients, whose rebinds have a rate.
func newWorld(t fataler, rules cluster.Rules, members []cluster.Member, clients []cluster.Client, rate int) *world {
	t.Helper()
	w := &world{
		t: t, now: time.Unix(1_000_000, 0), router: routed(t, rules), rate: rate, cooldown: time.Minute, atOnce: 100_000,
		members: map[string]*cluster.Member{}, rebinds: map[string]*cluster.Rebind{}, nexts: map[string]time.Time{}, times: map[string][]time.Time{}, looked: map[string]int{},
		reasons: map[cluster.Reason]int{},
	}
	for i := range members {
		w.join(members[i])
	}
	for i := range clients {
		w.clients = append(w.clients, &traveler{Client: clients[i], lastMoved: w.now.Add(-time.Hour)})
	}
	w.connect()
	for _, c := range w.clients {
		c.since = w.now.Add(-time.Hour)
	}
	return w
}

// join adds a gateway.
func (w *world) join(m cluster.Member) {
	w.t.Helper()
	rebind := rebinding(w.t, cluster.RebindOptions{Self: m.ID, Router: w.router, Rate: w.rate, Cooldown: w.cooldown})
	w.members[m.ID], w.rebinds[m.ID], w.nexts[m.ID] = &m, rebind, time.Time{}
	w.announce()
}

// leave ends a gateway, whose clients connect to others.
func (w *world) leave(id string) {
	w.t.Helper()
	delete(w.members, id)
	for _, c := range w.clients {
		if c.at == id {
			c.at = ""
		}
		if c.to == id {
			c.to = ""
		}
	}
	w.announce()
	w.connect()
}

// drain has a gateway drain, whose clients connect to others.
func (w *world) drain(id string) {
	w.t.Helper()
	w.members[id].Draining = true
	w.announce()
	for _, c := range w.clients {
		if c.at == id {
			c.at = ""
		}
	}
	w.connect()
}

// replace has some of the clients leave, and others come.
func (w *world) replace(percent int) {
	w.t.Helper()
	for i, c := range w.clients {
		if i%100 < percent && c.at != "" {
			c.User = "new-" + c.User
			c.at, c.lastMoved = "", w.now.Add(-time.Hour)
		}
	}
	w.announce()
	w.connect()
}

// connect brings clients that are nowhere to their gateways.
func (w *world) connect() {
	w.t.Helper()
	set := w.set
	sessions := w.sessions()
	for i, c := range w.clients {
		if c.at != "" || c.to != "" {
			continue
		}
		c.Random = uint64(i + w.ticks)
		c.at = route(w.t, w.router, set, c.Client)[0]
		c.since = w.now
		sessions[c.at]++
		set = set.WithSessions(map[string]int{c.at: sessions[c.at]})
	}
	w.announce()
}

func (w *world) sessions() map[string]int {
	out := make(map[string]int)
	for _, c := range w.clients {
		if c.at != "" {
			out[c.at]++
		}
	}
	return out
}

// announce tells all gateways the members and their loads. If nothing has changed, the set stays the same.
func (w *world) announce() {
	w.t.Helper()
	var members []cluster.Member
	sessions := w.sessions()
	for _, m := range w.members {
		m.Sessions = sessions[m.ID]
		members = append(members, *m)
	}
	if set := made(w.t, members); w.set == nil || !set.Equal(w.set) {
		w.set = set
		clear(w.nexts)
	}
}

// run lets time pass.
func (w *world) run(d time.Duration) {
	w.t.Helper()
	for end := w.now.Add(d); w.now.Before(end); {
		w.now = w.now.Add(tick)
		w.ticks++
		for _, c := range w.clients {
			if c.to != "" && !w.now.Before(c.arrives) {
				c.at, c.to, c.since = c.to, "", w.now
			}
		}
		if w.ticks%announce == 0 {
			w.announce()
		}
		for i := range w.set.Members() {
			if m := &w.set.Members()[i]; w.members[m.ID] != nil {
				w.step(m.ID)
			}
		}
	}
}

// step lets one gateway look at its sessions.
func (w *world) step(id string) {
	w.t.Helper()
	if next, known := w.nexts[id]; known && (next.IsZero() || w.now.Before(next)) {
		return
	}
	var all, here []*traveler
	for _, c := range w.clients {
		if c.at == id {
			all = append(all, c)
		}
	}
	var sessions []cluster.Session
	for len(here) < min(w.atOnce, len(all)) {
		c := all[w.looked[id]%len(all)]
		w.looked[id]++
		here = append(here, c)
		sessions = append(sessions, cluster.Session{Client: c.Client, Since: c.since})
	}
	moves, next := w.rebinds[id].Step(w.now, w.set.WithSessions(map[string]int{id: len(all)}), sessions)
	if !next.IsZero() && !next.After(w.now) {
		w.t.Fatal(fmt.Sprintf("%s: the next time %v is not after now", id, next))
	}
	if w.nexts[id] = next; len(here) < len(all) {
		w.nexts[id] = w.now // the others are looked at in the next step
	}
	for _, m := range moves {
		c := here[m.Session]
		switch {
		case c.at != id:
			w.t.Fatal(fmt.Sprintf("%s is moved twice at once", c.User))
		case m.To.ID == id, m.To.Draining, m.To.IsFull(), !w.router.Allows(m.To, &c.Client):
			w.t.Fatal(fmt.Sprintf("%s is moved to %+v", c.User, m.To))
		case w.now.Sub(c.lastMoved) < w.cooldown:
			w.t.Fatal(fmt.Sprintf("%s is moved after %v", c.User, w.now.Sub(c.lastMoved)))
		}
		c.at, c.to, c.arrives, c.lastMoved = "", m.To.ID, w.now.Add(travel), w.now
		if w.members[m.To.ID] == nil {
			c.to = ""
		}
		c.moves++
		w.moved++
		w.reasons[m.Reason]++
		w.lastMove = w.now
		w.times[id] = append(w.times[id], w.now)
	}
	if t := w.times[id]; len(t) > w.rate && len(moves) > 0 {
		if within := t[len(t)-1].Sub(t[len(t)-1-w.rate]); within < time.Second {
			w.t.Fatal(fmt.Sprintf("%s moves more than %d sessions within %v", id, w.rate, within))
		}
	}
}

// isDivided reports whether rules or capacities divide the clients between gateways, which then have no common fair share.
func (w *world) isDivided() bool {
	for _, m := range w.members {
		if m.Capacity > 0 {
			return true
		}
	}
	return len(w.router.Explain(w.set, &cluster.Client{}).Steps) > 4
}

// skew returns how many times its fair share the gateway with the highest load has; with few sessions it may have one more.
func (w *world) skew() (skew float64, most string) {
	weight, total := 0, 0
	for _, m := range w.members {
		if !m.Draining {
			weight += m.Share()
		}
	}
	sessions := w.sessions()
	for _, n := range sessions {
		total += n
	}
	for id, m := range w.members {
		if !m.Draining {
			fair := float64(total) * float64(m.Share()) / float64(weight)
			if s := float64(sessions[id]) / fair; sessions[id] > int(math.Ceil(1.25*fair-1e-9)) && s > skew {
				skew, most = s, id
			} else if s <= 1.25 {
				skew = max(skew, s)
			}
		}
	}
	return skew, most
}

// rest checks that nothing moves any more, and that the load is spread.
func (w *world) rest(what string) {
	w.t.Helper()
	w.run(3 * time.Minute)
	if quiet := w.now.Sub(w.lastMove); quiet < 90*time.Second {
		w.t.Fatal(fmt.Sprintf("%s: the last move was %v ago; moves so far: %v", what, quiet, w.reasons))
	}
	if skew, most := w.skew(); skew > 1.25 && !w.isDivided() {
		w.t.Fatal(fmt.Sprintf("%s: %s has %.2f times its fair share: %v", what, most, skew, w.sessions()))
	}
}

// homes returns how many clients have their best place by hash at a gateway, and how many of all clients are elsewhere than at their best place.
func (w *world) homes(id string) (own, away int) {
	w.t.Helper()
	unbound := routed(w.t, cluster.Rules{Policy: cluster.ByUser, Bound: -1})
	for _, c := range w.clients {
		home := route(w.t, unbound, w.set, c.Client)[0]
		if home == id {
			own++
		}
		if home != c.at {
			away++
		}
	}
	return own, away
}
