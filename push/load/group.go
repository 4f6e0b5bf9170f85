package load

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/sluice-push/sluice/internal/count"
	"github.com/sluice-push/sluice/internal/hostclock"
	"github.com/sluice-push/sluice/internal/socket"
	"github.com/sluice-push/sluice/push/pushtest/network"
	"github.com/sluice-push/sluice/session"
	"github.com/sluice-push/sluice/websocket"
)

// group is the clients of one process. Those that read have no goroutine each: event loops call what is in client.go. Those that stop
// reading have one, because that is what stops.
//
// Owners: connect, storm and usher have as many goroutines as Spec.Connect says, and end with their context; the two WebSocket clients own
// the connections, the proxies what is between them and the server, and close of the group waits for all.
type group struct {
	plan     *plan
	payloads *payloads
	scan     scanner
	token    string
	resumes  bool          // clients keep their position
	answer   time.Duration // how long the server may take to let a client in

	clients  []*client
	tallies  []*tally
	tracks   tracks
	readers  []atomic.Int64 // by channel: how many clients of this group get its publications and read
	reading  *websocket.Client
	stallers *websocket.Client
	away     chan *client // whom the network has cut, for ushers; nil when it does not do that
	dialed   sync.Map     // address on this side → *attempt, from when a connection is made until it is a WebSocket
	next     atomic.Int64
	joins    atomic.Int64 // connections that were begun

	measureFrom, measureTo atomic.Int64 // when publications count, by clock; 0: not yet
	stalling               atomic.Bool
	released               chan struct{} // closed when those that stopped read again
	freeing                sync.Once     // closes it
	ending                 atomic.Bool   // what ends now was ended from here

	here     atomic.Int64 // clients that are subscribed
	cut      atomic.Int64
	resets   atomic.Int64 // by the network
	lastJoin atomic.Int64 // when a client was last subscribed
	cutAt    atomic.Int64 // shape storm
	wasCut   int          // how many were; owned by storm
	reasons  count.Words  // why connections failed or ended

	betweenMu sync.Mutex // guards what is between the clients and the server
	weak      network.Conditions
	between   map[string]*network.Proxy // by address of a node

	seen   atomic.Uint32 // closed loop: above every publication that came
	doneMu sync.Mutex
	done   []uint32      // publications that all have, to be told
	bell   chan struct{} // something is in done
}

func newGroup(j *job) *group {
	spec := j.Spec
	p := newPlan(spec)
	g := &group{
		plan: p, payloads: newPayloads(j.Run, spec.Seed, spec.Bytes), scan: newScanner(spec.Prefix, spec.Bytes), token: j.Token,
		resumes: (spec.Shape == Storm || spec.isCut()) && spec.Protocol == Centrifuge, answer: answerTime(&spec),
		readers: make([]atomic.Int64, p.channels), released: make(chan struct{}), bell: make(chan struct{}, 1),
	}
	clients := j.To - j.From
	each := p.each * p.lanes
	for i := range tallies {
		g.tallies = append(g.tallies, newTally((clients+tallies-1-i)/tallies*each))
	}
	g.weak, g.between = spec.conditions(), map[string]*network.Proxy{}
	g.weak.Seed = seedOf(cmp.Or(g.weak.Seed, spec.Seed), "network", j.From) // processes differ
	if spec.isCut() {
		g.away = make(chan *client, clients)
	}
	all := make([]client, clients)
	for i := range all {
		c := &all[i]
		c.tally, c.entries = g.tallies[i%tallies], i/tallies*each
		c.channels, c.stalls = p.subscriptions(j.From+i), p.stalls(j.From+i)
		g.clients = append(g.clients, c)
	}
	handler := websocket.Handler{
		Open:    func(ws *websocket.Conn, _ *websocket.Request) error { return g.opened(ws) },
		Message: g.message,
		Drain:   func(ws *websocket.Conn) { ws.CloseNow() },
		Close:   g.closed,
	}
	options := websocket.Options{MaxMessage: maxMessage, DialContext: g.dial}
	options.Session.HandshakeTimeout = -1 // the context says it
	g.reading = websocket.NewClient(&handler, &options)
	options.Session.Engine = session.EngineGoroutine
	g.stallers = websocket.NewClient(&handler, &options)
	return g
}

// maxMessage is the largest message that a server may send: what a client has missed comes in one.
const maxMessage = 64 << 20

// dial makes the connection of a client. It ends by a reset, so that thousands of ports are free for the next run.
func (g *group) dial(ctx context.Context, protocol, address string) (net.Conn, error) {
	a, ok := ctx.Value(dialing{}).(*attempt)
	if !ok {
		return nil, errors.New("load: nobody to dial for")
	}
	var d net.Dialer
	if g.spreads() {
		d.LocalAddr = &net.TCPAddr{IP: sourceAddress(int(g.next.Add(1)))}
	}
	buffer := 0
	if a.client.stalls {
		buffer = g.plan.spec.StallBuffer
	}
	d.Control = socket.Control(socket.Options{Receive: buffer, LatePort: g.spreads()})
	address, err := g.through(address)
	if err != nil {
		return nil, err
	}
	conn, err := d.DialContext(ctx, protocol, address)
	if err != nil {
		return nil, err
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // then it ends as connections end
	}
	a.from = conn.LocalAddr().String()
	g.dialed.Store(a.from, a)
	return conn, nil
}

// portsOfAddress is how many connections one address can surely have to one server.
const portsOfAddress = 20_000

// spreads reports whether clients connect from many addresses.
func (g *group) spreads() bool {
	return isLoopback(g.plan.spec.URL) && (g.plan.spec.Spread || g.plan.spec.Clients > portsOfAddress)
}

// sourceAddress is an address to connect from: one of 250 of this host.
func sourceAddress(n int) net.IP { return net.IPv4(127, 0, 0, byte(2+n%250)) }

// connect lets all clients come in. When the first one fails the others are not tried. It returns when all have come or failed, or when
// ctx has ended.
func (g *group) connect(ctx context.Context) {
	err := g.enter(ctx, g.clients[0])
	if err != nil {
		g.reasons.Add(cause(err), 1)
		return
	}
	g.atOnce(g.clients[1:], func(c *client) {
		if ctx.Err() != nil {
			return
		}
		if err := g.enter(ctx, c); err != nil {
			g.reasons.Add(cause(err), 1)
		}
	})
}

// atOnce calls f for all clients, for as many at a time as may connect.
func (g *group) atOnce(clients []*client, f func(*client)) {
	var next atomic.Int64
	var all sync.WaitGroup
	for range min(g.plan.spec.Connect, len(clients)) {
		all.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(clients)); i = next.Add(1) - 1 {
				f(clients[i])
			}
		})
	}
	all.Wait()
}

// stall makes those that stop reading do so.
func (g *group) stall() { g.stalling.Store(true) }

// storm resets all connections, and then lets all clients come again until they are in, or ctx has ended.
func (g *group) storm(ctx context.Context) {
	var away []*client
	g.cutAt.Store(hostclock.Now())
	for _, c := range g.clients {
		if ws := g.takeAway(c); ws != nil {
			ws.CloseNow()
			away = append(away, c)
		}
	}
	g.wasCut = len(away)
	g.atOnce(away, func(c *client) { g.comeBack(ctx, c) })
}

// takeAway gives up the connection of a client that is subscribed.
func (g *group) takeAway(c *client) *websocket.Conn {
	c.tally.mu.Lock()
	defer c.tally.mu.Unlock()
	if c.state != subscribed {
		return nil
	}
	ws := c.conn
	c.conn, c.state, c.resuming = nil, apart, true
	g.leftLocked(c)
	return ws
}

// The pauses between attempts to come back.
const (
	comeBackLeast = 20 * time.Millisecond
	comeBackMost  = time.Second
)

// comeBack tries to connect a client again until that works, or ctx has ended.
func (g *group) comeBack(ctx context.Context, c *client) {
	for pause := comeBackLeast; ; pause = min(2*pause, comeBackMost) {
		err := g.join(ctx, c)
		if err == nil || ctx.Err() != nil {
			return
		}
		g.reasons.Add(cause(err), 1)
		timer := time.NewTimer(rand.N(pause)) //nolint:gosec // so that they do not come all at once
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return
		}
	}
}

// completed queues that all clients of this group have a publication.
func (g *group) completed(k uint32) {
	g.doneMu.Lock()
	g.done = append(g.done, k)
	g.doneMu.Unlock()
	select {
	case g.bell <- struct{}{}:
	default:
	}
}

// takeDone returns what completed queued.
func (g *group) takeDone() []uint32 {
	g.doneMu.Lock()
	defer g.doneMu.Unlock()
	done := g.done
	g.done = nil
	return done
}

// look says how far the group has come.
func (g *group) look() *look {
	l := &look{Subscribed: int(g.here.Load())}
	sum := newHistogram()
	for _, t := range g.tallies {
		t.mu.Lock()
		t.counts.Open = t.ledger.open
		l.Counts.add(&t.counts)
		sum.Merge(t.live)
		t.mu.Unlock()
	}
	l.Live = sum.Export().Counts
	return l
}

// histogramOf makes a histogram of counts that another process has exported, an empty one when there are none.
func histogramOf(counts []int64) *hdrhistogram.Histogram {
	if counts == nil {
		return newHistogram()
	}
	return hdrhistogram.Import(&hdrhistogram.Snapshot{
		LowestTrackableValue: leastMicros, HighestTrackableValue: mostMicros, SignificantFigures: digits, Counts: counts,
	})
}

// close ends all connections.
func (g *group) close() {
	g.ending.Store(true)
	g.freed()
	_ = g.reading.Close()
	_ = g.stallers.Close()
	for _, p := range g.between { // nobody dials any more
		_ = p.Close()
	}
}
