package network

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/sluice-push/sluice/internal/socket"
)

// Proxy accepts connections and passes what comes over them on to its target, and back, as weakly as its conditions have it. All methods
// may be called concurrently.
//
// Owners: the goroutine that accepts, and four of each connection, two a direction, belong to the proxy; Close ends them and waits.
type Proxy struct {
	target   string
	listener *net.TCPListener
	began    time.Time
	ctx      context.Context // ends with Close
	cancel   context.CancelFunc
	running  sync.WaitGroup

	accepted, refused, failed, resets, halfOpen atomic.Uint64
	up, down                                    flow

	mu         sync.Mutex // guards what follows; taken before the lock of a connection
	conditions Conditions
	share      float64 // of connections that are made to stall
	conns      map[uint64]*Conn
	closed     bool
}

// Stats are what a proxy counts from its beginning on.
type Stats struct {
	Open     int    // connections that are there now, half open ones too
	Accepted uint64 // connections that were not refused
	Refused  uint64 // connections that were, for conditions said so
	Failed   uint64 // accepted connections that were reset at once because the target could not be reached
	Resets   uint64 // connections that the proxy has reset, by chance or because it was told to; not those of Close, or of a side
	HalfOpen uint64 // connections that have become half open
	Up, Down Flow
}

// Flow is what went in one direction, in bytes. What is neither delivered nor lost is under way.
type Flow struct {
	Taken     uint64 // read from the sender
	Delivered uint64 // written to the receiver
	Lost      uint64 // dropped: the connection was half open, was reset, or its receiver gone
}

// flow is a Flow that is counted.
type flow struct{ taken, delivered, lost atomic.Uint64 }

// read returns what has been counted. What is counted as taken is looked at last, so that there is no less of it than of the rest.
func (f *flow) read() Flow {
	out := Flow{Delivered: f.delivered.Load(), Lost: f.lost.Load()}
	out.Taken = f.taken.Load()
	return out
}

// kernelBuffer is what the kernel is asked to buffer for each side of a connection, in each direction. Linux takes twice as much.
const kernelBuffer = 8 << 10

// small makes the buffers of a socket small before it connects or listens, so that even the first window that it offers is.
func small() func(network, address string, c syscall.RawConn) error {
	return socket.Control(socket.Options{Receive: kernelBuffer, Send: kernelBuffer})
}

// dialTime is how long the target may take to accept a connection.
const dialTime = 30 * time.Second

// restTime is how long the proxy waits when it cannot accept, for want of open files, before it tries again.
const restTime = 10 * time.Millisecond

// Listen starts a proxy at a TCP address; "" is a free port of 127.0.0.1. For each connection it connects to the target, host:port, which
// need not be there yet. The error says that conditions are wrong, or why nobody can listen at the address. The caller closes it.
func Listen(address, target string, c Conditions) (*Proxy, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if _, _, err := net.SplitHostPort(target); err != nil {
		return nil, fmt.Errorf("network: target %q is not HOST:PORT: %w", target, err)
	}
	if address == "" {
		address = "127.0.0.1:0"
	}
	p := &Proxy{target: target, began: time.Now(), conditions: c, conns: map[uint64]*Conn{}}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	lc := net.ListenConfig{Control: small()}
	ln, err := lc.Listen(p.ctx, "tcp", address)
	if err != nil {
		p.cancel()
		return nil, fmt.Errorf("network: %w", err)
	}
	p.listener = ln.(*net.TCPListener)
	p.running.Go(p.accept)
	return p, nil
}

// Addr is where the proxy listens.
func (p *Proxy) Addr() net.Addr { return p.listener.Addr() }

// now is the time for links and fates.
func (p *Proxy) now() time.Duration { return time.Since(p.began) }

// accept accepts connections until the proxy is closed.
func (p *Proxy) accept() {
	for id := uint64(0); ; {
		conn, err := p.listener.AcceptTCP()
		switch {
		case p.ctx.Err() != nil:
			if err == nil {
				cut(conn)
			}
			return
		case err != nil:
			p.rest()
		case p.refuses():
			p.refused.Add(1)
			cut(conn)
		default:
			p.accepted.Add(1)
			number := id
			p.running.Go(func() { p.connect(number, conn) })
			id++
		}
	}
}

// rest waits a little, or until the proxy is closed.
func (p *Proxy) rest() {
	timer := time.NewTimer(restTime)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-p.ctx.Done():
	}
}

func (p *Proxy) refuses() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.conditions.Refuse
}

// connect connects to the target and runs the connection until it ends.
func (p *Proxy) connect(id uint64, client *net.TCPConn) {
	d := net.Dialer{Control: small(), Timeout: dialTime}
	conn, err := d.DialContext(p.ctx, "tcp", p.target)
	target, ok := conn.(*net.TCPConn)
	if err != nil || !ok {
		p.failed.Add(1)
		cut(client)
		return
	}
	for _, side := range []*net.TCPConn{client, target} {
		_ = side.SetReadBuffer(kernelBuffer) // as far as the system does it
		_ = side.SetWriteBuffer(kernelBuffer)
	}
	c := newConn(p, id, client, target)
	if !p.add(c) {
		cut(client)
		cut(target)
		return
	}
	for _, run := range []func(){
		func() { c.send(&c.up) }, func() { c.receive(&c.down) }, func() { c.send(&c.down) },
	} {
		p.running.Go(run)
	}
	c.receive(&c.up)
}

// add makes a connection one of the proxy's, unless that is closed.
func (p *Proxy) add(c *Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return false
	}
	c.apply(p.conditions)
	c.stall(isChosen(p.conditions.Seed, c.id, p.share))
	p.conns[c.id] = c
	return true
}

// forget is called when a connection has ended.
func (p *Proxy) forget(c *Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, c.id)
}

// cut ends a connection by a reset.
func cut(conn *net.TCPConn) {
	_ = conn.SetLinger(0)
	_ = conn.Close()
}

// Conditions returns those that apply to new connections.
func (p *Proxy) Conditions() Conditions {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.conditions
}

// SetConditions lets conditions apply to all connections from now on, and to new ones. What is under way does not come later than it
// would if it arrived now. What chance has in store for a connection is drawn anew; those that are half open stay so. The error says that
// the conditions are wrong; then nothing changes.
func (p *Proxy) SetConditions(c Conditions) error {
	if err := c.Validate(); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.conditions = c
	for _, conn := range p.conns {
		conn.apply(c)
	}
	return nil
}

// Stall lets a share of the connections, 0 to 1, stall until Resume or another Stall: nothing is delivered in either direction, and when
// Buffer bytes are under way nothing more is read, but they stay open. New connections are among them by the same chance. Who is chosen
// follows from the seed, and who is in a share is in each larger one. What is being handed to the kernel right now still goes, at
// most 4 KiB.
func (p *Proxy) Stall(share float64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.share = share
	for _, c := range p.conns {
		c.stall(isChosen(p.conditions.Seed, c.id, share))
	}
}

// Resume ends what Stall began, also for single connections.
func (p *Proxy) Resume() { p.Stall(0) }

// HalfOpen makes a share of the connections that are there, chosen as by Stall, half open, for good: what arrives from either side is
// swallowed, and neither an answer nor the end of either side is passed on, so that each believes that the other is there. It returns how
// many it chose. A half-open connection is there until both its sides have ended, it is reset, or the proxy is closed.
func (p *Proxy) HalfOpen(share float64) int {
	return p.each(share, (*Conn).HalfOpen)
}

// Reset resets a share of the connections that are there, chosen as by Stall, on both sides, and returns how many it chose. What is under
// way is lost.
func (p *Proxy) Reset(share float64) int {
	return p.each(share, (*Conn).Reset)
}

// each calls f for a share of the connections.
func (p *Proxy) each(share float64, f func(*Conn)) int {
	seed, n := p.Conditions().Seed, 0
	for _, c := range p.Conns() {
		if isChosen(seed, c.id, share) {
			f(c)
			n++
		}
	}
	return n
}

// Conns returns the connections that are there, in the order in which they came. The slice belongs to the caller. A connection that ends
// meanwhile can still be asked for what it has counted; nothing else has an effect on it.
func (p *Proxy) Conns() []*Conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	list := make([]*Conn, 0, len(p.conns))
	for _, c := range p.conns {
		list = append(list, c)
	}
	slices.SortFunc(list, func(a, b *Conn) int { return cmp.Compare(a.id, b.id) })
	return list
}

// Stats returns what has been counted, after Close too: then nothing is under way.
func (p *Proxy) Stats() Stats {
	s := Stats{
		Accepted: p.accepted.Load(), Refused: p.refused.Load(), Failed: p.failed.Load(), Resets: p.resets.Load(),
		HalfOpen: p.halfOpen.Load(), Up: p.up.read(), Down: p.down.read(),
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	s.Open = len(p.conns)
	return s
}

// Close ends the proxy: nobody can connect any more, connections are reset on both sides, and it returns when all goroutines have ended.
// The error is that of the listener. Calls after the first one wait likewise, and return nil.
func (p *Proxy) Close() error {
	p.mu.Lock()
	first := !p.closed
	p.closed = true
	p.mu.Unlock()
	var err error
	if first {
		p.cancel()
		err = p.listener.Close()
	}
	for _, c := range p.Conns() {
		c.end(broken)
	}
	p.running.Wait()
	if err != nil {
		return fmt.Errorf("network: close: %w", err)
	}
	return nil
}
