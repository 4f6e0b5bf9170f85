package hub_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/hub"
)

// lawClient is a client of the law test: one connection after the other, on either hub, subscribed to some channels.
type lawClient struct {
	w     *lawWorld
	rng   *rand.Rand // of the client's goroutine
	name  string
	count int
	conn  *carrier // nil: not connected
	feeds []*feed

	mu sync.Mutex // guards the feeds' contents; the session's lock may be held before it
}

func newLawClient(w *lawWorld, i int, rng *rand.Rand) *lawClient {
	c := &lawClient{w: w, rng: rng, name: fmt.Sprintf("client %d", i)}
	for _, name := range w.names {
		c.feeds = append(c.feeds, newFeed(name))
	}
	return c
}

// connect begins a connection on one of the hubs.
func (c *lawClient) connect() {
	c.count++
	gates := []gate{open, shut, dribble(rand.New(rand.NewPCG(c.rng.Uint64(), 0)))}
	c.conn = newCarrier(c.w.t, gates[c.rng.IntN(len(gates))], true)
	conn := c.conn
	conn.alone = c.rng.IntN(3) == 0
	conn.sink = func(in frame) {
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, f := range c.feeds {
			if f.name == in.channel {
				f.take(in)
			}
		}
	}
	o := client(fmt.Sprintf("%s.%d", c.name, c.count))
	o.Bandwidth = c.bandwidth()
	conn.connect(c.w.hubs[c.rng.IntN(len(c.w.hubs))], o)
}

// bandwidth returns what the client asks for, often no bound.
func (c *lawClient) bandwidth() int64 {
	return int64(c.rng.IntN(3)) * (2_000 + int64(c.rng.IntN(50_000)))
}

// interval returns what the client asks for, often none.
func (c *lawClient) interval() time.Duration {
	return time.Duration(c.rng.IntN(2)) * time.Duration(c.rng.IntN(20_000)) * time.Microsecond
}

// cut ends the connection.
func (c *lawClient) cut() {
	c.conn.session.Load().Close()
	c.conn = nil
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, f := range c.feeds {
		f.cut()
	}
}

// subscribe asks for a channel that the client is not subscribed to. Errors that say so are tried again later.
func (c *lawClient) subscribe(f *feed) {
	c.mu.Lock()
	live, since := f.live, f.since()
	c.mu.Unlock()
	if live {
		return
	}
	s := c.conn.session.Load()
	ask := hub.SubscribeRequest{Channel: f.name, Since: since, Interval: c.interval()}
	ask.Lost = c.rng.IntN(2) == 0
	ask.Delta, ask.Keyed = push.Delta(c.rng.IntN(1+push.Deltas)), true //nolint:gosec // a few
	err := s.Subscribe(c.w.ctx, ask, func(a hub.Subscribed) error {
		c.mu.Lock()
		defer c.mu.Unlock()
		if a.Lost != (ask.Lost && f.mode == push.Stream) {
			f.fail("it asked for losses to be told: %t, and is answered %t", ask.Lost, a.Lost)
		}
		f.answered(a)
		return nil
	})
	var e *push.Error
	if errors.As(err, &e) && !e.Temporary {
		c.w.t.Errorf("%s: %v", f.name, err)
	}
}

func (c *lawClient) unsubscribe(f *feed) {
	if c.conn.session.Load().Unsubscribe(f.name) {
		c.mu.Lock()
		f.cut()
		c.mu.Unlock()
	}
}

// live does random things until done is closed.
func (c *lawClient) live(done <-chan struct{}) {
	for !isClosed(done) {
		if c.conn == nil {
			c.connect()
		}
		f := c.feeds[c.rng.IntN(len(c.feeds))]
		switch n := c.rng.IntN(22); {
		case n < 10:
			c.subscribe(f)
		case n < 11:
			c.unsubscribe(f)
		case n < 13:
			c.conn.shut()
		case n < 15:
			c.conn.open(open)
		case n < 17:
			c.conn.open(dribble(rand.New(rand.NewPCG(c.rng.Uint64(), 0))))
		case n < 18:
			c.cut()
		case n < 19:
			c.conn.session.Load().SetBandwidth(c.bandwidth())
		case n < 20:
			_, _ = c.conn.session.Load().SetInterval(f.name, c.interval()) // an error if it is not subscribed
		default:
			c.w.pause(c.rng)
		}
	}
}

// nudgeAfter is how long a client waits until something is published again for it to be told of what it has lost.
const nudgeAfter = 200 * time.Millisecond

// calm lets the client have everything, and waits until it is level with the truth.
func (c *lawClient) calm() {
	if c.conn == nil {
		c.connect()
	}
	c.conn.open(open)
	c.conn.session.Load().SetBandwidth(0)
	for _, f := range c.feeds {
		epoch := c.w.epochOf(f.name)
		why := errors.New("it was not looked at")
		var put time.Time
		testwait.True(c.w.t, fmt.Sprintf("%s is level", c.name), func() bool {
			// A loss is told with what comes next, and a hub that is slow may forget that, too, before it is delivered.
			if f.mode == push.Stream && time.Since(put) > nudgeAfter {
				c.w.put(c.w.hubs[0], f.name, push.Publication{Data: []byte(`{"last":"of the round"}`)})
				put = time.Now()
			}
			c.subscribe(f) // again if it was ended
			c.mu.Lock()
			defer c.mu.Unlock()
			if why = f.level(c.w.truth, epoch); f.broken != nil {
				c.w.t.Fatal(why)
			}
			if c.w.ctx.Err() != nil {
				c.w.t.Fatalf("%s: %v", c.name, why)
			}
			return why == nil
		})
	}
}
