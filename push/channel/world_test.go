package channel_test

import (
	"fmt"
	"strconv"
	"time"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/channel"
)

// The law tests run a small world of one channel. A source keeps entries for longest. A hub follows the source and sometimes loads again. Two
// nodes replicate the hub, late and conflated. Clients read as little as they like, are cut, and come back at other nodes. The truth is a list
// of all entries published in the present epoch.

// chooser decides the next step: a seeded generator, or the bytes of a fuzzer.
type chooser interface{ IntN(n int) int }

// plant is a wrong rule that the laws must detect.
type plant string

const (
	correct        plant = ""
	deltaByCursor  plant = "delta iff prev ≤ cursor"
	deltaOnResumed plant = "a resumed position as a delta base"
	replicaFloor0  plant = "replica with floor 0"
	reloadFloor0   plant = "reload with floor 0"
	dropUnmatched  plant = "non-matching rows are left out"
	replicaRetags  plant = "a replica works retag out by itself"
	answerAhead    plant = "a position above the head is answered from the log"
)

type world struct {
	chooser
	mode    push.Mode
	plant   plant
	filters bool // clients may filter; then no client gets deltas

	truth   []push.Publication
	offset  uint64
	clock   int64
	epoch   int
	source  *channel.Log
	pending []push.Publication // published, not yet at the hub
	nodes   []*node            // nodes[0] is the hub
	clients []*client
	subs    []*subscription // by client; nil while cut
}

type node struct {
	log    *channel.Log
	cursor channel.Cursor // replicas: how far it has read the hub
	joined bool
}

type subscription struct {
	client *client
	node   *node
	cursor channel.Cursor
}

func newWorld(c chooser, mode push.Mode, p plant, filters bool) *world {
	w := &world{chooser: c, mode: mode, plant: p, filters: filters}
	w.nodes = []*node{{}, {}, {}}
	w.newEpoch()
	for range 3 {
		w.clients = append(w.clients, &client{w: w, rows: map[string]held{}})
	}
	w.subs = make([]*subscription, len(w.clients))
	return w
}

func (w *world) policy(size, age int) *channel.Policy {
	return &channel.Policy{Mode: w.mode, History: push.History{Size: size, Age: time.Duration(age) * time.Millisecond}}
}

// newLog returns the log of a node that has clients.
func (w *world) newLog(size, age int, start push.Position, floor uint64) *channel.Log {
	l := channel.New(w.policy(size, age), start, floor)
	l.KeepChanges(true)
	return l
}

// newEpoch begins a new generation of the channel: the source begins at another offset, and the clients' positions are invalid.
func (w *world) newEpoch() {
	w.epoch++
	w.truth, w.pending = nil, nil
	w.offset = uint64(w.IntN(20))
	start := push.Position{Epoch: "e" + strconv.Itoa(w.epoch), Offset: w.offset}
	w.source = channel.New(w.policy(40, 200), start, w.offset)
	w.nodes[0].log = w.newLog(12, 60, start, w.offset)
	w.nodes[1].joined, w.nodes[2].joined = false, false
	clear(w.subs)
}

func (w *world) rowKey(key string) string {
	if w.mode == push.Value {
		return ""
	}
	return key
}

func (w *world) between(after, through uint64) []push.Publication {
	var out []push.Publication
	for _, p := range w.truth {
		if p.Offset > after && p.Offset <= through {
			out = append(out, p)
		}
	}
	return out
}

func (w *world) table(v *channel.View) map[string]push.Publication {
	rows := map[string]push.Publication{}
	for _, p := range w.truth {
		switch {
		case p.Op == push.Clear:
			clear(rows)
		case p.Op == push.Remove, !v.Matches(p.Tags):
			delete(rows, w.rowKey(p.Key))
		default:
			rows[w.rowKey(p.Key)] = p
		}
	}
	return rows
}

func (w *world) publish() {
	w.offset += uint64(1 + w.IntN(3))
	w.clock += int64(w.IntN(4))
	p := push.Publication{Offset: w.offset, Time: w.clock, Key: strconv.Itoa(w.IntN(5)), Tags: map[string]string{"t": strconv.Itoa(w.IntN(3))}}
	switch n := w.IntN(100); {
	case n == 0:
		p.Op, p.Key, p.Tags = push.Clear, "", nil
	case n < 15 && w.mode != push.Stream:
		p.Op, p.Tags = push.Remove, nil
	default:
		p.Data = strconv.AppendUint(nil, w.offset*10, 10)
		if !w.filters { // where there are deltas it has to be worth while
			p.Data = fmt.Appendf(nil, `{"always":"the same, again and again","value":%s}`, p.Data)
		}
	}
	w.truth = append(w.truth, p)
	w.source.Append(p)
	w.pending = append(w.pending, p)
}

// arrive moves n pending entries to the hub, and serves clients that are right behind by ReadNext.
func (w *world) arrive(n int) {
	hub := w.nodes[0]
	for ; n > 0 && len(w.pending) > 0; n-- {
		e := hub.log.Append(w.pending[0])
		w.pending = w.pending[1:]
		for _, s := range w.subs {
			if e != nil && s != nil && s.node == hub && w.IntN(2) == 0 {
				if d, ok := hub.log.ReadNext(s.cursor, s.client.view, e); ok {
					if d.Delta {
						d.Change = hub.log.Change(e)
					}
					w.deliver(s, []channel.Delivery{d}, d.Next, 1)
				}
			}
		}
	}
}

// reload replaces the hub's log by the entries that the source still has, and rebases the cursors.
func (w *world) reload() {
	hub := w.nodes[0]
	fresh := w.newLog(12, 60, push.Position{Epoch: w.source.Epoch()}, 0)
	for e := range w.source.Entries() {
		fresh.Append(e.Publication)
	}
	fresh.Advance(w.source.Head())
	if w.plant != reloadFloor0 {
		fresh.RaiseFloor(w.source.Floor())
	}
	w.pending = nil
	hub.log = fresh
	w.rebase(hub)
}

func (w *world) rebase(n *node) {
	for _, s := range w.subs {
		if s != nil && s.node == n {
			s.cursor = n.log.Rebase(s.cursor)
			s.client.lossy = true
		}
	}
	if n == w.nodes[0] {
		for _, r := range w.nodes[1:] {
			r.cursor = n.log.Rebase(r.cursor)
		}
	}
}

// gap loses the first pending publications between source and hub.
func (w *world) gap() {
	if len(w.pending) == 0 {
		return
	}
	n := 1 + w.IntN(len(w.pending))
	last := w.pending[n-1].Offset
	w.pending = w.pending[n:]
	if !w.nodes[0].log.Gap(last) {
		w.reload()
		return
	}
	for _, c := range w.clients {
		c.lossy = true
	}
}

// pull reads the hub's log to its head into a replica, after a join if one is needed.
func (w *world) pull(r *node) {
	hub := w.nodes[0]
	if !r.joined {
		w.join(r, hub.log.Floor())
		return
	}
	ds, end, _ := hub.log.Read(r.cursor, nil, channel.Everything, nil)
	for _, d := range ds {
		switch d.Kind {
		case channel.Clear, channel.Lost:
			w.join(r, max(r.log.Head(), hub.log.Floor()))
			return
		default:
			w.replicate(r, d.Entry)
		}
	}
	r.cursor = end
	r.log.Advance(hub.log.Head())
}

func (w *world) replicate(r *node, e *channel.Entry) {
	if w.plant == replicaRetags {
		r.log.Append(e.Publication)
		return
	}
	r.log.AppendRetagged(e.Publication, e.Retag)
}

// join fills a replica with all entries of the hub, including tombstones.
func (w *world) join(r *node, floor uint64) {
	hub := w.nodes[0]
	was := r.joined
	r.joined = true
	r.log = w.newLog(8, 40, push.Position{Epoch: hub.log.Epoch()}, 0)
	for e := range hub.log.Entries() {
		w.replicate(r, e)
	}
	r.log.Advance(hub.log.Head())
	if w.plant != replicaFloor0 {
		r.log.RaiseFloor(floor)
	}
	r.cursor = hub.log.At(hub.log.Head())
	if was {
		w.rebase(r)
	}
}

// subscribe connects a client to a node, resuming if it has a position.
func (w *world) subscribe(i int, n *node) {
	if n != w.nodes[0] && !n.joined {
		return
	}
	c := w.clients[i]
	if w.filters && w.IntN(4) == 0 {
		c.view = [...]*channel.View{
			nil,
			{Filter: []channel.Term{{Tag: "t", Values: []string{"0"}}}},
			{Filter: []channel.Term{{Tag: "t", Values: []string{"0", "1"}}}},
		}[w.IntN(3)]
	}
	var since *push.Position
	if c.pos.Epoch != "" {
		since = &c.pos
	}
	cur, outcome := n.log.Subscribe(since, c.view)
	if outcome == channel.Ahead {
		c.lossy = true // entries that are evicted while it waits cannot be counted
		switch {
		case w.plant == answerAhead:
			cur = n.log.At(n.log.Head())
		case c.pos.Offset > w.source.Head():
			cur, outcome = n.log.Subscribe(nil, c.view)
		}
	}
	if outcome == channel.Fresh {
		c.restart(push.Position{Epoch: c.view.Epoch(n.log.Epoch()), Offset: cur.Offset()})
	} else {
		c.resume(w.IntN(2) == 0)
	}
	w.subs[i] = &subscription{client: c, node: n, cursor: cur}
}

// read serves a subscription within a budget, and lets its socket take only some of it.
func (w *world) read(s *subscription, budget channel.Budget, all bool) channel.Status {
	ds, end, status := s.node.log.Read(s.cursor, s.client.view, budget, nil)
	taken := len(ds)
	if !all && taken > 0 && w.IntN(3) == 0 {
		taken = w.IntN(taken + 1)
	}
	w.deliver(s, ds, end, taken)
	if status == channel.TooSlow {
		i := w.index(s)
		s.client.pos = push.Position{}
		w.subs[i] = nil
	}
	return status
}

func (w *world) index(s *subscription) int {
	for i := range w.subs {
		if w.subs[i] == s {
			return i
		}
	}
	panic("no such subscription")
}

func (w *world) deliver(s *subscription, ds []channel.Delivery, end channel.Cursor, taken int) {
	before := s.cursor
	for _, d := range ds[:taken] {
		if w.plant == dropUnmatched && d.Kind == channel.Gone && !d.Entry.Removed() {
			before = d.Next
			continue
		}
		s.client.apply(d, !w.filters && w.asDelta(before, d))
		before = d.Next
	}
	s.cursor = channel.Commit(s.cursor, ds, end, taken)
}

// asDelta is the delta rule, or the planted one.
func (w *world) asDelta(c channel.Cursor, d channel.Delivery) bool {
	if d.Kind != channel.Put || d.Entry.Prev == 0 || d.Offset != d.Entry.Offset {
		return d.Delta
	}
	switch w.plant {
	case deltaByCursor:
		return c.Offset() >= d.Entry.Prev
	case deltaOnResumed:
		return d.Entry.Prev <= max(c.Level(), c.Start()-1)
	default:
		return d.Delta
	}
}

// quiesce delivers everything everywhere, and checks that every client has the channel's state.
func (w *world) quiesce() error {
	w.arrive(len(w.pending))
	for _, r := range w.nodes[1:] {
		w.pull(r)
	}
	for i := range w.clients {
		if w.subs[i] == nil {
			w.subscribe(i, w.nodes[w.IntN(3)])
		}
		for range 1000 {
			if w.subs[i] == nil {
				w.subscribe(i, w.nodes[0])
			}
			if w.read(w.subs[i], channel.Budget{Entries: 1 + w.IntN(9), Bytes: 1 << 20}, true) == channel.UpToDate {
				break
			}
		}
		if err := w.clients[i].converged(); err != nil {
			return fmt.Errorf("client %d at rest: %w", i, err)
		}
		if w.mode == push.Stream {
			w.checkComplete(w.clients[i])
		}
	}
	return w.err()
}

// checkComplete: at rest no entry may be missing after the last one that a stream client got.
func (w *world) checkComplete(c *client) {
	for _, p := range w.between(c.pos.Offset, w.offset) {
		if p.Op != push.Clear && c.view.Matches(p.Tags) && p.Offset > w.nodes[0].log.Floor() {
			c.fail("entry %d never came", p.Offset)
		}
	}
}

func (w *world) err() error {
	for i, c := range w.clients {
		if c.broken != nil {
			return fmt.Errorf("client %d: %w", i, c.broken)
		}
	}
	return nil
}

// step does a few random things.
func (w *world) step() error {
	for range w.IntN(4) {
		w.publish()
	}
	w.arrive(w.IntN(5))
	for _, r := range w.nodes[1:] {
		if w.IntN(3) == 0 {
			w.pull(r)
		}
		if r.joined && w.IntN(20) == 0 {
			r.log.Expire(w.clock + 20)
		}
	}
	switch n := w.IntN(200); {
	case n == 0:
		w.newEpoch()
	case n < 3:
		w.reload()
	case n < 5:
		w.gap()
	case n < 15:
		w.source.Expire(w.clock)
		w.nodes[0].log.Expire(w.clock + int64(w.IntN(40)))
	case n < 18:
		w.nodes[0].log.Shrink(int64(w.IntN(30)))
	}
	for i, s := range w.subs {
		switch n := w.IntN(10); {
		case s == nil || n == 0:
			w.subscribe(i, w.nodes[w.IntN(3)])
		case n < 7:
			w.read(s, channel.Budget{Entries: w.IntN(5), Bytes: 1 + w.IntN(60)}, false)
		}
	}
	return w.err()
}

// run plays a world for some steps with a few pauses in between.
func (w *world) run(steps int) error {
	for i := range steps {
		if err := w.step(); err != nil {
			return fmt.Errorf("step %d: %w", i, err)
		}
		if i%100 == 99 {
			if err := w.quiesce(); err != nil {
				return fmt.Errorf("pause after step %d: %w", i, err)
			}
		}
	}
	return nil
}
