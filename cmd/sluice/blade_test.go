package main_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
)

// blade cuts the connections of one client, each after a random number of bytes from the server: between two publications, within
// one, within an answer or a handshake. Then it keeps the client away until another has received some more. The zero blade cuts nothing.
type blade struct {
	random *rand.Rand
	life   int    // how many bytes a connection receives on average
	meter  *meter // nil: the client comes back at once
	gap    int    // for how many publications of the meter the client stays away on average

	first bool         // the client has connected before
	next  atomic.Int64 // the bytes that the next connection may receive
	fell  atomic.Bool  // the connection was cut
}

// grace is how many bytes the first connection receives in any case, so that the client has a position to come back with.
const grace = 64 << 10

// sharpen prepares for the next connection.
func (b *blade) sharpen() {
	b.fell.Store(false)
	if b.life == 0 {
		return
	}
	bytes := b.random.Int64N(2 * int64(b.life))
	if !b.first {
		b.first = true
		bytes += grace
	}
	b.next.Store(bytes)
}

// stayAway returns when the client may connect again.
func (b *blade) stayAway(ctx context.Context) {
	if b.meter != nil {
		b.meter.wait(ctx, b.random.IntN(2*b.gap))
	}
}

// dial makes a connection of the client, within the blade's reach.
func (c *feedClient) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	tcp := conn.(*net.TCPConn)
	if c.narrow {
		if err := tcp.SetReadBuffer(4 << 10); err != nil {
			return nil, errors.Join(err, tcp.Close())
		}
	}
	if c.blade.life == 0 {
		return tcp, nil
	}
	return &cutConn{Conn: tcp, tcp: tcp, left: c.blade.next.Load(), fell: &c.blade.fell}, nil
}

// cutConn is reset after so many bytes.
type cutConn struct {
	net.Conn
	tcp  *net.TCPConn
	left int64
	fell *atomic.Bool
}

var errCut = errors.New("the connection was cut")

// Read implements net.Conn.
func (c *cutConn) Read(p []byte) (int, error) {
	if c.left <= 0 {
		c.fell.Store(true)
		_ = c.tcp.SetLinger(0) // reset it: what is on its way is lost
		_ = c.tcp.Close()
		return 0, errCut
	}
	n, err := c.Conn.Read(p[:min(int64(len(p)), c.left)])
	c.left -= int64(n)
	return n, err
}

// meter says how far a client has come in a partition, for others to wait on. It goes by offsets: of a table's rows, a client is not shown
// every version.
type meter struct {
	mu    sync.Mutex // guards what follows
	at    int
	over  bool
	moved chan struct{} // closed when it moves; nil while nobody waits
}

// move takes in an offset, end says that no more are waited for.
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

// wait returns after n more publications, at the end or when ctx ends.
func (m *meter) wait(ctx context.Context, n int) {
	m.mu.Lock()
	until := m.at + n
	m.mu.Unlock()
	m.reach(ctx, until)
}

// reach returns when an offset is reached, at the end or when ctx ends, and whether the offset was.
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
