package main_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
)

// cutter cuts the connections of one client, each after a random number of bytes from the server: between two publications, within one, within
// an answer or a handshake. Then it keeps the client away until another client has received some more. The zero cutter cuts nothing.
type cutter struct {
	random *rand.Rand
	life   int    // how many bytes a connection receives on average
	meter  *meter // nil: the client reconnects at once
	gap    int    // for how many publications of the meter the client stays away on average

	first  bool         // the client has connected before
	next   atomic.Int64 // the number of bytes that the next connection may receive
	wasCut atomic.Bool  // the connection was cut
}

// graceBytes is how many bytes the first connection receives at least, so that the client has a position to resume from.
const graceBytes = 64 << 10

// prepare chooses the limit of the next connection.
func (b *cutter) prepare() {
	b.wasCut.Store(false)
	if b.life == 0 {
		return
	}
	bytes := b.random.Int64N(2 * int64(b.life))
	if !b.first {
		b.first = true
		bytes += graceBytes
	}
	b.next.Store(bytes)
}

// stayAway returns when the client may connect again.
func (b *cutter) stayAway(ctx context.Context) {
	if b.meter != nil {
		b.meter.wait(ctx, b.random.IntN(2*b.gap))
	}
}

// dial opens a connection of the client, which the cutter may cut.
func (c *feedClient) dial(ctx context.Context, network, address string) (net.Conn, error) {
	connect := func(ctx context.Context) (net.Conn, error) { return new(net.Dialer).DialContext(ctx, network, address) }
	if c.balance != nil {
		connect = c.balance
	}
	conn, err := connect(ctx)
	if err != nil {
		return nil, err
	}
	tcp := conn.(*net.TCPConn)
	if c.narrow {
		if err := tcp.SetReadBuffer(4 << 10); err != nil {
			return nil, errors.Join(err, tcp.Close())
		}
	}
	if c.cutter.life == 0 {
		return tcp, nil
	}
	return &cutConn{Conn: tcp, tcp: tcp, left: c.cutter.next.Load(), wasCut: &c.cutter.wasCut}, nil
}

// cutConn is a connection that is reset after a number of bytes.
type cutConn struct {
	net.Conn
	tcp    *net.TCPConn
	left   int64
	wasCut *atomic.Bool
}

var errCut = errors.New("the connection was cut")

// Read implements net.Conn.
func (c *cutConn) Read(p []byte) (int, error) {
	if c.left <= 0 {
		c.wasCut.Store(true)
		_ = c.tcp.SetLinger(0) // Close then resets the connection, and bytes in transit are lost
		_ = c.tcp.Close()
		return 0, errCut
	}
	n, err := c.Conn.Read(p[:min(int64(len(p)), c.left)])
	c.left -= int64(n)
	return n, err
}

// meter measures how far a client has come in a partition, so that other clients can wait for that. It uses offsets, because a client does not
// get every version of a table's rows.
type meter struct {
	mu    sync.Mutex // guards the fields below
	at    int
	over  bool
	moved chan struct{} // closed when the meter moves; nil while no goroutine waits
}

// move records an offset. end wakes all waiters for good.
func (m *meter) move(offset uint64) { m.change(int(offset), false) }

func (m *meter) end() { m.change(0, true) }

func (m *meter) change(to int, over bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.at = max(m.at, to)
	m.over = m.over || over
	if m.moved != nil {
		close(m.moved)
		m.moved = nil
	}
}

// wait returns after n more publications, or when the meter or ctx ends.
func (m *meter) wait(ctx context.Context, n int) {
	m.mu.Lock()
	until := m.at + n
	m.mu.Unlock()
	m.reach(ctx, until)
}

// reach returns when the meter has reached an offset, or when the meter or ctx ends. It reports whether the offset was reached.
func (m *meter) reach(ctx context.Context, until int) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	for m.at < until && !m.over && ctx.Err() == nil {
		if m.moved == nil {
			m.moved = make(chan struct{})
		}
		moved := m.moved
		m.mu.Unlock()
		select {
		case <-moved:
		case <-ctx.Done():
		}
		m.mu.Lock()
	}
	return m.at >= until
}
