package tlsconn

import (
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// bufferSize has room for MaxPlain bytes of plaintext in records of any version and size that crypto/tls makes of them.
	bufferSize = MaxPlain + 2<<10
	// restMax is how much is moved to memory of its own when it cannot be sent.
	restMax = 4 << 10
	// floodMax is how much may wait: one write, and answers that a peer who reads never lets come together.
	floodMax = 4 * MaxPlain
)

// Pool keeps buffers for bytes that are about to be sent. The zero value is ready, and must not be copied.
type Pool struct{ pool sync.Pool }

// buffer lets a slice be pooled without an allocation.
type buffer struct{ b [bufferSize]byte }

func (p *Pool) get() *buffer {
	if b, ok := p.pool.Get().(*buffer); ok {
		return b
	}
	return new(buffer)
}

// wire is the net.Conn that crypto/tls is given: at first another connection, then memory.
type wire struct {
	ends     Ends
	pool     *Pool
	detached atomic.Bool
	ended    bool

	conn net.Conn // until it is detached

	fed []byte // owned by who reads

	mu sync.Mutex
	// Guarded by mu.
	out  []byte  // what waits to be sent
	lent *buffer // what out lies in, if it was borrowed
	err  error
}

func (w *wire) Read(p []byte) (int, error) {
	switch {
	case !w.detached.Load():
		return w.conn.Read(p)
	case len(w.fed) > 0:
		n := copy(p, w.fed)
		w.fed = w.fed[n:]
		return n, nil
	case w.ended:
		return 0, io.EOF
	default:
		return 0, ErrMore
	}
}

func (w *wire) Write(p []byte) (int, error) {
	if !w.detached.Load() {
		return w.conn.Write(p)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.err != nil:
		return len(p), nil
	case len(w.out)+len(p) > floodMax:
		w.err = ErrFlood
		return len(p), nil
	case w.out == nil:
		w.lent = w.pool.get()
		w.out = w.lent.b[:0]
	}
	w.out = append(w.out, p...)
	return len(p), nil
}

func (w *wire) failed() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

func (w *wire) pending() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.out)
}

func (w *wire) flush(send func([]byte) (int, error)) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil || len(w.out) == 0 {
		return 0, w.err
	}
	n, err := send(w.out)
	w.out = w.out[n:]
	switch {
	case len(w.out) == 0:
		w.dropLocked()
	case len(w.out) <= restMax && w.lent != nil: // a peer that does not read costs what is left for it, not a buffer
		rest := append(make([]byte, 0, len(w.out)), w.out...)
		w.dropLocked()
		w.out = rest
	}
	return n, err
}

func (w *wire) release() {
	w.fed = nil
	w.mu.Lock()
	defer w.mu.Unlock()
	w.dropLocked()
	w.err = net.ErrClosed
}

// dropLocked forgets what waits.
func (w *wire) dropLocked() {
	if w.lent != nil {
		w.pool.pool.Put(w.lent)
	}
	w.out, w.lent = nil, nil
}

// Close closes the connection of the handshake. Later there is nothing to be closed: the socket is somebody else's.
func (w *wire) Close() error {
	if w.detached.Load() {
		return nil
	}
	return w.conn.Close()
}

func (w *wire) LocalAddr() net.Addr  { return w.ends.LocalAddr() }
func (w *wire) RemoteAddr() net.Addr { return w.ends.RemoteAddr() }

// NetConn returns the socket, as the method of tls.Conn does.
func (w *wire) NetConn() net.Conn { return w.ends.Socket() }

func (w *wire) SetDeadline(t time.Time) error {
	if w.detached.Load() {
		return nil
	}
	return w.conn.SetDeadline(t)
}

func (w *wire) SetReadDeadline(t time.Time) error {
	if w.detached.Load() {
		return nil
	}
	return w.conn.SetReadDeadline(t)
}

func (w *wire) SetWriteDeadline(t time.Time) error {
	if w.detached.Load() {
		return nil
	}
	return w.conn.SetWriteDeadline(t)
}
