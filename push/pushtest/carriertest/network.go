package carriertest

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"testing/synctest"

	"github.com/sluice-push/sluice/transport"
)

// What the network holds in one direction, about: a client that does not read is noticed when that is full.
const (
	memoryBuffer = 32 << 10
	sendBuffer   = 64 << 10  // the server's, of sockets; the kernel doubles it
	readBuffer   = 128 << 10 // the client's; not less than a segment on loopback, below which it would only dribble
)

// network makes the connections between the clients and the nodes of a check.
type network interface {
	listen(ctx context.Context) (net.Listener, error)
	dial(ctx context.Context, ln net.Listener) (net.Conn, error)
	// settle waits until nothing happens any more, where that can be known: planted bugs are then found each time.
	settle()
}

// loopback is sockets: of Harness.Listen, or TCP on a port that the kernel chooses.
type loopback struct {
	own func(ctx context.Context) (net.Listener, error) // Harness.Listen
}

func (l loopback) listen(ctx context.Context) (net.Listener, error) {
	if l.own != nil {
		return l.own(ctx)
	}
	ln, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	return thinListener{ln}, nil
}

func (loopback) dial(ctx context.Context, ln net.Listener) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, ln.Addr().Network(), ln.Addr().String())
	if err != nil {
		return nil, err
	}
	if socket, ok := conn.(interface{ SetReadBuffer(bytes int) error }); ok {
		err = socket.SetReadBuffer(readBuffer)
	}
	return conn, err
}

func (loopback) settle() {}

// thinListener bounds what the kernel holds of what a node sends, which net/http leaves to the system.
type thinListener struct{ net.Listener }

func (l thinListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if tcp, ok := conn.(*net.TCPConn); ok && err == nil {
		_ = tcp.SetWriteBuffer(sendBuffer) // it may have been reset
	}
	return conn, err
}

// inMemory is connections within the process, which work in fake time.
type inMemory struct{}

func (inMemory) listen(context.Context) (net.Listener, error) {
	return transport.NewMemory(memoryBuffer), nil
}

func (inMemory) dial(ctx context.Context, ln net.Listener) (net.Conn, error) {
	return ln.(*transport.MemoryListener).Dial(ctx) //nolint:forcetypeassert // from listen
}

func (inMemory) settle() { synctest.Wait() }

// wires are the network connections of one client.
type wires struct {
	received atomic.Int64 // bytes
	muted    atomic.Bool  // what is written is lost, after the next audible bytes
	audible  atomic.Int64

	mu    sync.Mutex
	conns []net.Conn // guarded by mu
	isCut bool       // guarded by mu; no connection is made any more
}

// dialer returns a function that connects to a listener, and remembers the connection.
func (w *wires) dialer(n network, ln net.Listener) func(ctx context.Context, network, address string) (net.Conn, error) {
	return func(ctx context.Context, _, _ string) (net.Conn, error) {
		conn, err := n.dial(ctx, ln)
		if err != nil {
			return nil, err
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.isCut {
			_ = conn.Close()
			return nil, net.ErrClosed
		}
		w.conns = append(w.conns, conn)
		return &meteredConn{conn, w}, nil
	}
}

// mute loses what the client writes from now on, except for the next bytes.
func (w *wires) mute(except int64) {
	w.audible.Store(except)
	w.muted.Store(true)
}

// isMute reports whether something that the client has written was lost.
func (w *wires) isMute() bool { return w.audible.Load() < 0 }

// cut breaks all connections for good, without a goodbye where the network can.
func (w *wires) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, conn := range w.conns {
		if tcp, ok := conn.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0) // a reset
		}
		_ = conn.Close()
	}
	w.conns, w.isCut = nil, true
}

// meteredConn counts what is read, and loses what is written if the client is mute.
type meteredConn struct {
	net.Conn
	wires *wires
}

func (c *meteredConn) Write(p []byte) (int, error) {
	if !c.wires.muted.Load() {
		return c.Conn.Write(p)
	}
	left := c.wires.audible.Add(-int64(len(p))) + int64(len(p)) // what was left before
	if n, err := c.Conn.Write(p[:max(0, min(int64(len(p)), left))]); err != nil {
		return n, err
	}
	return len(p), nil
}

func (c *meteredConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.wires.received.Add(int64(n))
	return n, err
}
