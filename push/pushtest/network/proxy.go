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

	"github.com/sluice-push/sluice/internal/sockopt"
)

// Proxy accepts connections and passes bytes between clients and its target under its conditions. All methods may be called concurrently.
//
// The goroutine that accepts, and four goroutines of each connection, two for each direction, belong to the proxy. Close ends them and waits.
type Proxy struct {
	target   string
	listener *net.TCPListener
	began    time.Time
	ctx      context.Context // ends with Close
	cancel   context.CancelFunc
	running  sync.WaitGroup

	accepted, refused, failed, resets, halfOpen atomic.Uint64
	up, down                                    flow

	mu         sync.Mutex // guards the following; locked before the mutex of a connection
	conditions Conditions
	share      float64 // share of the connections that Stall has made stall
	conns      map[uint64]*Conn
	closed     bool
}

// Stats are the counters of a proxy since its start.
type Stats struct {
	Open     int    // present connections, half-open ones included
	Accepted uint64 // connections that were not refused
	Refused  uint64 // connections that were refused, because of Conditions.Refuse
	Failed   uint64 // accepted connections that were reset because the target could not be reached
	Resets   uint64 // connections that the proxy has reset, at random or by Reset; not by Close, or because of a side's reset
	HalfOpen uint64 // connections that have become half open
	Up, Down Flow
}

// Flow counts the bytes of one direction. Bytes that are neither delivered nor lost are under way.
type Flow struct {
	Taken     uint64 // read from the sender
	Delivered uint64 // written to the receiver
	Lost      uint64 // dropped: the connection was half open or reset, or its receiver gone
}

// flow contains the counters of a Flow.
type flow struct{ taken, delivered, lost atomic.Uint64 }

// read returns the counters. It reads taken last, so that taken is not less than the sum of the others.
func (f *flow) read() Flow {
	out := Flow{Delivered: f.delivered.Load(), Lost: f.lost.Load()}
	out.Taken = f.taken.Load()
	return out
}

// kernelBuffer is the buffer size that is set for each side of a connection, in each direction. Linux doubles it.
const kernelBuffer = 8 << 10

// small returns a function that sets the buffers of a socket before it connects or listens, so that even its first TCP window is small.
func small() func(network, address string, c syscall.RawConn) error {
	return sockopt.Control(sockopt.Options{Receive: kernelBuffer, Send: kernelBuffer})
}

// dialTime is how long the target may take to accept a connection.
const dialTime = 30 * time.Second

// restTime is how long the proxy waits after a failed accept, for lack of file descriptors, before it tries again.
const restTime = 10 * time.Millisecond

// Listen starts a proxy at a TCP address; "" is a free port of 127.0.0.1. For each client it connects to the target, host:port, which need not
// exist yet. It returns an error if the conditions are not valid, or if it cannot listen. The caller has to close the proxy.
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

// Addr returns the address on which the proxy listens.
func (p *Proxy) Addr() net.Addr { return p.listener.Addr() }

// now returns the time for links and fates.
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

// rest waits for restTime, or until the proxy is closed.
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
		_ = side.SetReadBuffer(kernelBuffer) // best effort
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

// add registers a connection, unless the proxy is closed.
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

// forget removes a connection that has ended.
func (p *Proxy) forget(c *Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, c.id)
}

// cut resets a connection.
func cut(conn *net.TCPConn) {
	_ = conn.SetLinger(0)
	_ = conn.Close()
}

// Conditions returns the conditions for new connections.
func (p *Proxy) Conditions() Conditions {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.conditions
}

// SetConditions changes the conditions of all present and new connections. Bytes under way arrive no later than if they were sent now. The
// random events of a connection are drawn again, and half-open connections stay so. If the conditions are not valid, it returns an error and
// changes nothing.
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

// Stall makes a share of the connections, 0 to 1, stall until Resume or another Stall. Nothing is delivered in either direction, and when Buffer
// bytes are under way, nothing more is read, but the connections stay open. New connections are chosen with the same probability. The choice
// follows from the seed, and a connection in a share is in every larger share. A write that is running still completes, at most 4 KiB.
func (p *Proxy) Stall(share float64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.share = share
	for _, c := range p.conns {
		c.stall(isChosen(p.conditions.Seed, c.id, share))
	}
}

// Resume ends the effect of Stall, also on single connections.
func (p *Proxy) Resume() { p.Stall(0) }

// HalfOpen makes a share of the present connections, chosen as by Stall, half open for good. Bytes from either side are dropped, and the end of
// a side is not passed on, so each side believes that the other exists. It returns how many connections it chose. A half-open connection exists
// until both sides have ended, it is reset, or the proxy is closed.
func (p *Proxy) HalfOpen(share float64) int {
	return p.each(share, (*Conn).HalfOpen)
}

// Reset resets a share of the present connections, chosen as by Stall, on both sides, and returns how many it chose. Bytes under way are lost.
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

// Conns returns the present connections in the order in which they were accepted. The slice belongs to the caller. The counters of a connection
// that ends meanwhile can still be read; other calls have no effect on it.
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

// Stats returns the counters, also after Close, when no bytes are under way any more.
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

// Close closes the listener, resets all connections on both sides, and returns when all goroutines have ended. The error is that of the
// listener. Further calls wait likewise, and return nil.
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
