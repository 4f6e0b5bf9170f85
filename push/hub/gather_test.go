package hub_test

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"

	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/broker"
	"github.com/sluice-push/sluice/push/hub"
)

// calls keeps what a carrier was offered, call by call, and takes it all.
type calls struct {
	mu  sync.Mutex
	all [][]string // of each call the channels of its frames, once for each publication
}

func (c *calls) TryWrite(frames []hub.Frame) int {
	var names []string
	for _, f := range frames {
		for range f.Publications {
			names = append(names, f.Channel)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all = append(c.all, names)
	return len(frames)
}

func (*calls) Disconnect(push.Disconnect) {}

// publications returns how many came, and in how many calls.
func (c *calls) publications() (n, in int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, names := range c.all {
		n += len(names)
	}
	return n, len(c.all)
}

// What comes in one batch of the broker leaves in one write to each session, whatever number of channels it is of, and whether few or
// many are subscribed.
func TestGather(t *testing.T) {
	const channels, each = 20, 3
	for _, sessions := range []int{1, 3, 500} {
		t.Run(fmt.Sprint(sessions), func(t *testing.T) {
			r := newRig(t, nil)
			ns := []hub.Namespace{{Namespace: broker.Namespace{Name: "stream", Mode: push.Stream, Partitions: 1}}}
			h := newHub(t, r, ns, nil)
			carriers := make([]*calls, sessions)
			for i := range carriers {
				carriers[i] = &calls{}
				s, err := h.Connect(carriers[i], roomy, client(fmt.Sprint(i)))
				must(t, err)
				t.Cleanup(s.Close)
				for n := range channels {
					subscribe(t, s, hub.SubscribeRequest{Channel: fmt.Sprintf("stream:%d", n)})
				}
			}
			release := r.hold()
			publish(t, h, "stream:other", push.Publication{Data: []byte("x")}) // the batch that waits at the door
			testwait.True(t, "it is there", func() bool { return r.waiting.Load() > 0 })
			for i := range channels * each {
				publish(t, h, fmt.Sprintf("stream:%d", i%channels), push.Publication{Data: fmt.Append(nil, i)})
			}
			release()
			for _, c := range carriers {
				testwait.True(t, "all have come", func() bool { n, _ := c.publications(); return n == channels*each })
				if _, in := c.publications(); in != 1 {
					t.Errorf("they came in %d writes", in)
				}
			}
		})
	}
}

// Random batches over channels, to sessions that are subscribed to some of them, block, open again, subscribe and unsubscribe: each
// subscription gets exactly what was published, in order, from where it began.
func TestGatherSequences(t *testing.T) {
	for _, room := range []int{0, 300} {
		for seed := range uint64(2) {
			t.Run(fmt.Sprintf("%d/%d", room, seed), func(t *testing.T) {
				t.Parallel()
				newGathering(t, room, seed).run()
			})
		}
	}
}

const gatheredChannels = 12

// gathering is a hub, publishers, and sessions that come and go.
type gathering struct {
	t     *testing.T
	seed  uint64
	rig   *rig
	hub   *hub.Hub
	truth *truth
	names []string
	conns []*gathered
}

// gathered is one session and what it was sent.
type gathered struct {
	rng     *rand.Rand
	conn    *carrier
	session *hub.Session
	mu      sync.Mutex
	feeds   map[string]*feed
}

func newGathering(t *testing.T, room int, seed uint64) *gathering {
	g := &gathering{t: t, seed: seed, rig: newRig(t, nil), truth: newTruth()}
	ns := []hub.Namespace{
		{Namespace: broker.Namespace{Name: "stream", Mode: push.Stream, History: push.History{Size: 100_000}, Partitions: 3}},
		{Namespace: broker.Namespace{Name: "table", Mode: push.Table, History: push.History{Size: 100_000}, Partitions: 2}},
	}
	g.hub = newHub(t, g.rig, ns, &hub.Options{Workers: 3, SubscriptionsPerSession: -1})
	for i := range gatheredChannels {
		g.names = append(g.names, fmt.Sprintf("%s:%d", []string{"stream", "table"}[i%2], i))
	}
	for i := range 20 {
		rng := rand.New(rand.NewPCG(seed, uint64(i)))
		c := &gathered{rng: rng, conn: newCarrier(t, open, true), feeds: map[string]*feed{}}
		c.conn.encoder, c.conn.alone = text{room}, i%4 == 0
		c.conn.sink = func(f frame) {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.feeds[f.channel].take(f)
		}
		for _, name := range g.names {
			c.feeds[name] = newFeed(name)
		}
		c.session = c.conn.connect(g.hub, client(fmt.Sprint(i)))
		g.conns = append(g.conns, c)
	}
	return g
}

func (g *gathering) toggle(c *gathered, f *feed) {
	c.mu.Lock()
	live, since := f.live, f.since()
	c.mu.Unlock()
	if live {
		c.session.Unsubscribe(f.name)
		c.mu.Lock()
		f.cut()
		c.mu.Unlock()
		return
	}
	must(g.t, c.session.Subscribe(testwait.Context(g.t), hub.SubscribeRequest{Channel: f.name, Since: since}, func(a hub.Subscribed) error {
		c.mu.Lock()
		defer c.mu.Unlock()
		f.answered(a)
		return nil
	}))
}

// live does random things until done is closed, and ends with all subscriptions and an open gate.
func (g *gathering) live(c *gathered, done <-chan struct{}) {
	for !isClosed(done) {
		switch c.rng.IntN(12) {
		case 0, 1:
			g.toggle(c, c.feeds[g.names[c.rng.IntN(len(g.names))]])
		case 2:
			c.conn.shut()
		case 3:
			c.conn.open(dribble(rand.New(rand.NewPCG(c.rng.Uint64(), 0))))
		case 4, 5:
			c.conn.open(open)
		default:
			runtime.Gosched() // others have more to do
		}
	}
	c.conn.open(open)
	for _, name := range g.names {
		if f := c.feeds[name]; !f.live {
			g.toggle(c, f)
		}
	}
}

func (g *gathering) run() {
	done := make(chan struct{})
	var publishers, others sync.WaitGroup
	for _, c := range g.conns {
		others.Go(func() { g.live(c, done) })
	}
	for i := range uint64(3) {
		rng := rand.New(rand.NewPCG(g.seed, 1000+i))
		publishers.Go(func() {
			for n := range 150 {
				release := func() {}
				if i == 0 && n%20 == 0 { // what is published now comes in one batch
					release = g.rig.hold()
				}
				for range rng.IntN(6) {
					name := g.names[rng.IntN(len(g.names))]
					p := push.Publication{Data: fmt.Append(nil, rng.Uint32())}
					if push.Namespace(name) == "table" {
						p.Key = fmt.Sprint(rng.IntN(20))
					}
					g.truth.add(name, publish(g.t, g.hub, name, p), p)
				}
				release()
			}
		})
	}
	testwait.Return(g.t, publishers.Wait)
	close(done)
	testwait.Return(g.t, others.Wait)
	for i, c := range g.conns {
		for _, f := range c.feeds {
			epoch := f.pos.Epoch
			testwait.True(g.t, fmt.Sprintf("session %d is level in %s", i, f.name), func() bool {
				c.mu.Lock()
				defer c.mu.Unlock()
				must(g.t, f.broken)
				return f.level(g.truth, epoch) == nil
			})
			must(g.t, f.whole(g.truth))
			if f.ended > 0 {
				g.t.Errorf("session %d: %s was ended %d times", i, f.name, f.ended)
			}
		}
	}
}

// A frame holds several publications where the format allows it, up to about what it says, and their order is that of the channel.
func TestFramesOfSeveral(t *testing.T) {
	for _, room := range []int{0, 300, 1 << 20} {
		t.Run(fmt.Sprint(room), func(t *testing.T) {
			h := newHub(t, newBroker(t), spaces(push.History{Size: 1000}), nil)
			c := newCarrier(t, shut, false)
			c.encoder = text{room}
			var sizes []int
			taken := func(offered int) int { sizes = append(sizes, offered); return offered }
			subscribe(t, c.connect(h, client("a")), hub.SubscribeRequest{Channel: "stream:x"})
			const n = 100
			publishN(t, h, "stream:x", 0, n)
			settle(t, h, "stream:x")
			stuck(t, c)
			c.open(taken)
			testwait.True(t, "all have come", func() bool { return len(c.taken()) == n })
			if got := contents(nil, c.taken()); !slices.Equal(got, numbers(0, n)) {
				t.Errorf("got %v", got)
			}
			frames := 0
			for _, size := range sizes {
				frames += size
			}
			want := map[int]int{0: n, 300: n / 4, 1 << 20: 1}[room] // 64 bytes and the name are counted for each
			if frames < want || frames > want+n/20 {
				t.Errorf("%d publications came in %d frames, want about %d", n, frames, want)
			}
		})
	}
}

// parked is a carrier whose writes block until the test releases them, which a real carrier must not do.
type parked struct {
	inside chan struct{}
	leave  chan struct{}
}

func (p *parked) TryWrite(frames []hub.Frame) int {
	p.inside <- struct{}{}
	<-p.leave
	return len(frames)
}

func (*parked) Disconnect(push.Disconnect) {}

// While a write is under way, no lock is held that other sessions need: others subscribe to the same channel, leave it, publish to it
// and are served.
func TestNothingWaitsForAWrite(t *testing.T) {
	h := newHub(t, newBroker(t), spaces(push.History{Size: 1000}), &hub.Options{Workers: 2})
	p := &parked{make(chan struct{}), make(chan struct{})}
	s, err := h.Connect(p, roomy, client("parked"))
	must(t, err)
	subscribe(t, s, hub.SubscribeRequest{Channel: "stream:x"})
	others := make([]*sequence, 100) // so that workers serve them
	for i := range others {
		others[i] = newSequence(t, h, fmt.Sprint(i))
	}
	publishN(t, h, "stream:x", 0, 1)
	testwait.Receive(t, p.inside)
	publishN(t, h, "stream:x", 1, 50)
	late := newCarrier(t, open, false)
	got := subscribe(t, late.connect(h, client("late")), hub.SubscribeRequest{Channel: "stream:x"})
	if want := publishN(t, h, "stream:x", 51, 1); got.Position.Offset != want.Offset-1 {
		t.Errorf("subscribed at %d, before %d", got.Position.Offset, want.Offset)
	}
	if !late.session.Load().Unsubscribe("stream:x") {
		t.Error("it was not subscribed")
	}
	if found, err := h.History(testwait.Context(t), "stream:x", hub.HistoryRequest{Limit: 100}); err != nil || len(found.Entries) != 52 {
		t.Errorf("history has %d entries (%v)", len(found.Entries), err)
	}
	testwait.True(t, "all have all, except those whom the same worker is to serve next", func() bool {
		served := 0
		for _, o := range others {
			if len(o.carrier.taken()) == 52 {
				served++
			}
		}
		return served > len(others)-hub.Chunk
	})
	close(p.leave)
	go func() {
		for range p.inside { // it may be written to again
		}
	}()
	for _, o := range others {
		testwait.True(t, "the others have all", func() bool { return len(o.carrier.taken()) == 52 })
	}
	s.Close()
	close(p.inside)
}
