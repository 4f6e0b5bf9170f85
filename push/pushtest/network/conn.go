package network

import (
	"errors"
	"io"
	"net"
	"sync"
	"time"
)

// Conn is a connection through a proxy: the accepted connection of a client, and the connection to the target that belongs to it. All methods
// may be called concurrently, and after its end.
//
// Each direction has two goroutines. Its receiver reads from the sending side while the link has room. Its sender waits until the link lets
// bytes leave, and writes them. Senders also execute the random events (fate) when they are due.
type Conn struct {
	proxy          *Proxy
	id             uint64
	client, target *net.TCPConn
	up, down       pump
	done           chan struct{} // closed at the end

	mu       sync.Mutex // guards the following, and the fields of pumps that say so
	fate     fate
	stalls   bool // stalled by Stall, until Resume
	halfOpen bool
	closed   bool
}

// pump is one direction of a connection.
type pump struct {
	from, to *net.TCPConn
	in, out  []byte        // buffers to read and write with; on stacks they would make these large
	room     chan struct{} // wakes the receiver: there may be room
	more     chan struct{} // wakes the sender after a change
	all      *flow         // totals of all connections
	flow     flow

	// Guarded by the lock of the connection.
	link  *link
	heard bool   // the sending side has ended
	gone  bool   // the receiving side has failed: nothing can be written any more
	told  ending // the end that the receiving side has been told
}

// chunk is the largest read or write, in bytes.
const chunk = 4 << 10

func newConn(p *Proxy, id uint64, client, target *net.TCPConn) *Conn {
	now := p.Conditions()
	c := &Conn{proxy: p, id: id, client: client, target: target, done: make(chan struct{})}
	c.up = pump{from: client, to: target, all: &p.up, link: newLink(now.Up, source(now.Seed, id, ofUp))}
	c.down = pump{from: target, to: client, all: &p.down, link: newLink(now.Down, source(now.Seed, id, ofDown))}
	for _, d := range c.pumps() {
		d.room, d.more = make(chan struct{}, 1), make(chan struct{}, 1)
		d.in, d.out = make([]byte, chunk), make([]byte, chunk)
	}
	return c
}

func (c *Conn) pumps() [2]*pump { return [2]*pump{&c.up, &c.down} }

// opposite returns the other direction.
func (c *Conn) opposite(d *pump) *pump {
	if d == &c.up {
		return &c.down
	}
	return &c.up
}

// Number returns the connection's number: the proxy numbers the connections that it accepts from 0 on.
func (c *Conn) Number() uint64 { return c.id }

// Client returns the address of the client.
func (c *Conn) Client() net.Addr { return c.client.RemoteAddr() }

// Stats returns the bytes of each direction.
func (c *Conn) Stats() (up, down Flow) { return c.up.flow.read(), c.down.flow.read() }

// SetConditions is [Proxy.SetConditions] for this connection alone. Refuse has no effect.
func (c *Conn) SetConditions(conditions Conditions) error {
	if err := conditions.Validate(); err != nil {
		return err
	}
	c.apply(conditions)
	return nil
}

// apply makes conditions apply from now on.
func (c *Conn) apply(conditions Conditions) {
	c.mu.Lock()
	now := c.proxy.now()
	c.fate = newFate(&conditions, c.id, now)
	c.up.link.change(now, conditions.Up)
	c.down.link.change(now, conditions.Down)
	c.mu.Unlock()
	c.wake()
}

// wake wakes all goroutines of the connection after a change.
func (c *Conn) wake() {
	for _, d := range c.pumps() {
		signal(d.room)
		signal(d.more)
	}
}

// signal wakes a goroutine that waits for note. Several signals count as one.
func signal(note chan struct{}) {
	select {
	case note <- struct{}{}:
	default:
	}
}

// Stall makes the connection stall, like [Proxy.Stall], until Resume of the connection or of the proxy.
func (c *Conn) Stall() { c.stall(true) }

// Resume ends the effect of Stall, also of the proxy's. Random stalls continue.
func (c *Conn) Resume() { c.stall(false) }

func (c *Conn) stall(is bool) {
	c.mu.Lock()
	c.stalls = is
	c.mu.Unlock()
	c.wake()
}

// HalfOpen makes the connection half open for good, like [Proxy.HalfOpen].
func (c *Conn) HalfOpen() {
	c.mu.Lock()
	c.halveLocked()
	over := c.abandonedLocked()
	c.mu.Unlock()
	c.wake()
	if over {
		c.end(ended)
	}
}

// Reset resets both sides of the connection. Bytes under way are lost.
func (c *Conn) Reset() {
	if c.end(broken) {
		c.proxy.resets.Add(1)
	}
}

// halveLocked makes the connection half open.
func (c *Conn) halveLocked() {
	c.fate.halfOpen = never
	if c.halfOpen || c.closed {
		return
	}
	c.halfOpen = true
	c.proxy.halfOpen.Add(1)
	for _, d := range c.pumps() {
		d.lose(d.link.discard())
	}
}

// abandonedLocked reports whether the connection is half open and both sides have ended.
func (c *Conn) abandonedLocked() bool { return c.halfOpen && c.up.heard && c.down.heard }

// end ends the connection. It reports false if the connection had ended already.
func (c *Conn) end(how ending) bool {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return false
	}
	c.closed = true
	for _, d := range c.pumps() {
		d.lose(d.link.discard())
	}
	c.mu.Unlock()
	for _, side := range []*net.TCPConn{c.client, c.target} {
		if how == broken {
			_ = side.SetLinger(0)
		}
		_ = side.Close()
	}
	close(c.done)
	c.proxy.forget(c)
	return true
}

// receive reads from the sending side of a direction until that ends.
func (c *Conn) receive(d *pump) {
	for {
		room := c.waitForRoom(d)
		if room == 0 {
			return
		}
		n, err := d.from.Read(d.in[:min(room, chunk)])
		if c.take(d, d.in[:n], err); err != nil {
			return
		}
	}
}

// waitForRoom waits until bytes may be read, and returns how many. It returns 0 if the connection has ended.
func (c *Conn) waitForRoom(d *pump) int {
	for {
		c.mu.Lock()
		room := d.link.room()
		if c.halfOpen || d.gone {
			room = chunk // the bytes are dropped
		}
		c.mu.Unlock()
		if room > 0 {
			return room
		}
		select {
		case <-d.room:
		case <-c.done:
			return 0
		}
	}
}

// take puts the bytes read into the link, and the end behind them.
func (c *Conn) take(d *pump, p []byte, err error) {
	c.mu.Lock()
	now := c.proxy.now()
	d.took(len(p))
	switch {
	case c.halfOpen, c.closed, d.gone:
		d.lose(len(p))
	default:
		d.link.put(now, p)
		if err != nil {
			d.link.end(now, endingOf(err))
		}
	}
	d.heard = d.heard || err != nil
	over := c.abandonedLocked()
	c.mu.Unlock()
	signal(d.more)
	if over {
		c.end(ended)
	}
}

func endingOf(err error) ending {
	if errors.Is(err, io.EOF) {
		return ended
	}
	return broken
}

// step is the next action of a sender. One of the fields is set.
type step struct {
	bytes int           // write this many bytes
	tell  ending        // pass this end on to the receiving side
	reset bool          // reset the connection
	over  bool          // end the connection: both sides have ended
	wait  time.Duration // call next again after this time, or after a change
}

// next returns the next action of a sender, and moves the bytes to write to d.out.
func (c *Conn) next(d *pump) step {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.proxy.now()
	if c.closed {
		return step{wait: never}
	}
	if c.fate.reset <= now {
		return step{reset: true}
	}
	if c.fate.halfOpen <= now {
		c.halveLocked()
		signal(c.up.room)
		signal(c.down.room)
		if c.abandonedLocked() {
			return step{over: true}
		}
	}
	stalled, changes := c.fate.stalled(now)
	at := min(c.fate.reset, c.fate.halfOpen, changes)
	if c.halfOpen || c.stalls || stalled {
		return step{wait: at - now}
	}
	n, due := d.link.take(now, d.out)
	if n > 0 {
		return step{bytes: n}
	}
	how, behind := d.link.over(now)
	if how > d.told {
		d.told = how
		return step{tell: how}
	}
	return step{wait: min(at, due, behind) - now}
}

// send writes the bytes that the link lets leave, until the connection ends.
func (c *Conn) send(d *pump) {
	timer := time.NewTimer(never)
	defer timer.Stop()
	for {
		switch s := c.next(d); {
		case s.bytes > 0:
			c.write(d, d.out[:s.bytes])
		case s.tell == ended:
			c.tell(d)
		case s.tell == broken:
			c.end(broken)
		case s.reset:
			c.Reset()
		case s.over:
			c.end(ended)
		default:
			timer.Reset(s.wait)
			select {
			case <-timer.C:
			case <-d.more:
			case <-c.done:
				return
			}
		}
	}
}

// write writes bytes to the receiving side. If that has failed, the sending side gets a reset, behind the bytes under way to it.
func (c *Conn) write(d *pump, p []byte) {
	n, err := d.to.Write(p)
	c.mu.Lock()
	d.link.delivered(len(p))
	d.delivered(n)
	back := c.opposite(d)
	if err != nil {
		d.gone = true
		d.lose(len(p) - n + d.link.discard())
		back.link.end(c.proxy.now(), broken)
	}
	c.mu.Unlock()
	signal(d.room)
	if err != nil {
		signal(back.more)
	}
}

// tell passes the end of the stream on. If both directions have ended, the connection ends.
func (c *Conn) tell(d *pump) {
	_ = d.to.CloseWrite() // if it fails, the goroutine that reads from the same side notices
	c.mu.Lock()
	both := c.up.told >= ended && c.down.told >= ended
	c.mu.Unlock()
	if both {
		c.end(ended)
	}
}

func (d *pump) took(n int) {
	d.flow.taken.Add(uint64(n)) //nolint:gosec // a length
	d.all.taken.Add(uint64(n))  //nolint:gosec // a length
}

func (d *pump) delivered(n int) {
	d.flow.delivered.Add(uint64(n)) //nolint:gosec // a length
	d.all.delivered.Add(uint64(n))  //nolint:gosec // a length
}

func (d *pump) lose(n int) {
	d.flow.lost.Add(uint64(n)) //nolint:gosec // a length
	d.all.lost.Add(uint64(n))  //nolint:gosec // a length
}
