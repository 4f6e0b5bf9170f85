package loadtest

import (
	"cmp"
	"context"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-push/sluice/cmd/sluice/internal/loadtest/delivery"
	"github.com/sluice-push/sluice/cmd/sluice/internal/loadtest/hostclock"
	"github.com/sluice-push/sluice/cmd/sluice/internal/loadtest/reasoncount"
	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/protocol"
	"github.com/sluice-push/sluice/push/pushtest/network"
	"github.com/sluice-push/sluice/websocket"
)

// group holds the clients of one process. Each of connect, storm and rejoinCutClients runs Spec.Connect goroutines, which end with their context. The
// dialer and the proxies own their connections. The method close ends all of these and waits for them.
type group struct {
	plan          *plan
	payloads      *delivery.Payloads
	form          form
	op            websocket.Opcode // of the frames of the form
	pong          []byte           // the answer to a ping of the server, as a frame
	dialer        dialer
	resumes       bool          // clients keep their position in a channel, to recover from it
	answerTimeout time.Duration // how long the server may take to subscribe a client
	http          *http.Client  // asks for routes; nil if none are asked for

	clients    []*client
	shards     []*shard
	pubStats   delivery.PubStats
	readers    []atomic.Int64 // by channel: how many clients of this group get its publications and read
	rejoins    chan *client   // clients whose connection has ended and that come back, for rejoinCutClients; nil if clients do not come back
	nextSource atomic.Int64   // selects the source address of the next connection
	connects   atomic.Int64   // connections begun so far; selects the node of the next one

	measureFrom, measureTo atomic.Int64 // host clock; publications due from one until the other count; 0: not known yet
	stalling               atomic.Bool
	readAgain              chan struct{} // closed when the stalled clients are to read again
	resumeOnce             sync.Once     // closes readAgain
	closing                atomic.Bool   // close has begun, so a connection that ends is no failure

	subscribedCount  atomic.Int64       // clients that are subscribed now
	cut              atomic.Int64       // connections that the server or the network ended for good
	resets           atomic.Int64       // connections that the network reset, and whose clients rejoin
	lastSubscribedAt atomic.Int64       // host clock; when a client was last subscribed
	cutAt            atomic.Int64       // host clock; when storm began; 0: it did not
	wasCut           int                // clients that storm disconnected; written by storm only
	reasons          reasoncount.Counts // why connections failed or ended

	proxiesMu  sync.Mutex // guards conditions and proxies
	conditions network.Conditions
	proxies    map[string]*network.Proxy // by the address of their node

	seen      atomic.Uint32 // closed loop: one more than the highest publication number received
	doneMu    sync.Mutex
	done      []uint32      // closed loop: publications that all clients have, not yet reported
	doneReady chan struct{} // signals that done is not empty
}

// newGroup returns a group with the clients of a job, which are not connected yet. The caller calls close.
func newGroup(j *job) *group {
	spec := j.Spec
	p := newPlan(spec)
	g := &group{
		plan: p, payloads: delivery.NewPayloads(j.Run, spec.Seed, spec.Bytes),
		resumes: (spec.Shape == Storm || spec.rejoins()) && spec.Protocol != Plain, answerTimeout: answerTimeout(&spec),
		readers: make([]atomic.Int64, p.channels), readAgain: make(chan struct{}), doneReady: make(chan struct{}, 1),
	}
	clients := j.To - j.From
	each := p.each * p.streamsPerChannel
	for i := range numShards {
		g.shards = append(g.shards, newShard((clients+numShards-1-i)/numShards*each))
	}
	g.conditions, g.proxies = spec.conditions(), map[string]*network.Proxy{}
	g.conditions.Seed = deriveSeed(cmp.Or(g.conditions.Seed, spec.Seed), "network", j.From) // each process has a random sequence of its own
	if spec.rejoins() {
		g.rejoins = make(chan *client, clients)
	}
	if spec.Route {
		g.http = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: spec.Connect}}
	}
	all := make([]client, clients)
	for i := range all {
		c := &all[i]
		c.shard, c.firstStream = g.shards[i%numShards], i/numShards*each
		c.channels, c.stalls = p.subscriptions(j.From+i), p.stalls(j.From+i)
		if g.resumes {
			c.positions = make([]push.Position, len(c.channels))
		}
		if len(j.Tokens) > 0 {
			c.token = j.Tokens[i%len(j.Tokens)]
		}
		g.clients = append(g.clients, c)
	}
	g.form, g.op = newForm(&spec)
	g.pong = g.form.appendCommand(nil, &protocol.Command{})
	g.dialer = newDialer(g)
	return g
}

// connect joins all clients, but only the first one if that fails. It returns when each has joined or failed, or when ctx has ended.
func (g *group) connect(ctx context.Context) {
	err := g.joinWithRetry(ctx, g.clients[0])
	if err != nil {
		g.reasons.Add(reasoncount.Of(err), 1)
		return
	}
	g.inParallel(g.plan.spec.Connect, g.clients[1:], func(c *client) {
		if ctx.Err() != nil {
			return
		}
		if err := g.joinWithRetry(ctx, c); err != nil {
			g.reasons.Add(reasoncount.Of(err), 1)
		}
	})
}

// inParallel calls f for each client, on up to n goroutines, and returns when all calls have returned.
func (g *group) inParallel(n int, clients []*client, f func(*client)) {
	var next atomic.Int64
	var all sync.WaitGroup
	for range min(n, len(clients)) {
		all.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(clients)); i = next.Add(1) - 1 {
				f(clients[i])
			}
		})
	}
	all.Wait()
}

// stall lets the clients that are to stall stop reading.
func (g *group) stall() { g.stalling.Store(true) }

// storm resets the connections of all subscribed clients, and lets them rejoin. It returns when all have rejoined, or when ctx has ended.
func (g *group) storm(ctx context.Context) {
	var away []*client
	g.cutAt.Store(hostclock.Now())
	for _, c := range g.clients {
		if conn := g.detach(c); conn != nil {
			conn.CloseNow()
			away = append(away, c)
		}
	}
	g.wasCut = len(away)
	g.inParallel(g.plan.spec.Rejoin, away, func(c *client) { g.rejoin(ctx, c) })
}

// detach takes the connection from a subscribed client and returns it for closing. It returns nil if the client is not subscribed.
func (g *group) detach(c *client) connection {
	c.shard.mu.Lock()
	defer c.shard.mu.Unlock()
	if c.state != subscribed {
		return nil
	}
	conn := c.conn
	c.conn, c.state, c.resuming = nil, disconnected, true
	g.uncountLocked(c)
	return conn
}

// rejoin calls join for a client until it succeeds, or ctx has ended. It counts each attempt that fails.
func (g *group) rejoin(ctx context.Context, c *client) {
	for failures := 0; ; failures++ {
		err := g.join(ctx, c)
		if err == nil || ctx.Err() != nil {
			return
		}
		g.reasons.Add(reasoncount.Of(err), 1)
		if !g.pauseBeforeRetry(ctx, failures) {
			return
		}
	}
}

// pauseBeforeRetry waits before a client that has failed to join tries again, after so many other failures. It reports false if ctx has ended. The
// pause is RetryMin and a random part of RetryMin, which doubles with each failure, but RetryMax at most. The SDKs of the client protocol wait so.
func (g *group) pauseBeforeRetry(ctx context.Context, failures int) bool {
	least, most := g.plan.spec.RetryMin, g.plan.spec.RetryMax
	spread := most
	if failures < 32 && least<<failures < most {
		spread = max(least<<failures, 1)
	}
	timer := time.NewTimer(min(least+rand.N(spread), most)) //nolint:gosec // jitter, so that the clients do not all come at once
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// completed queues the report that all clients of this group have publication k.
func (g *group) completed(k uint32) {
	g.doneMu.Lock()
	g.done = append(g.done, k)
	g.doneMu.Unlock()
	select {
	case g.doneReady <- struct{}{}:
	default:
	}
}

// takeDone removes and returns the publications that completed has queued.
func (g *group) takeDone() []uint32 {
	g.doneMu.Lock()
	defer g.doneMu.Unlock()
	done := g.done
	g.done = nil
	return done
}

// status returns the current counters of the group.
func (g *group) status() *status {
	s := &status{Subscribed: int(g.subscribedCount.Load())}
	sum := delivery.NewHistogram()
	for _, sh := range g.shards {
		sh.mu.Lock()
		sh.counts.Open = sh.received.Open()
		s.Counts.add(&sh.counts)
		sum.Merge(sh.live)
		sh.mu.Unlock()
	}
	s.Live = sum.Export().Counts
	return s
}

// close ends all connections and proxies, and waits for their goroutines. It may be called more than once.
func (g *group) close() {
	g.closing.Store(true)
	g.resumeReading()
	g.dialer.close()
	if g.http != nil {
		g.http.CloseIdleConnections()
	}
	for _, p := range g.proxies { // no lock: no goroutine dials any more
		_ = p.Close()
	}
}
