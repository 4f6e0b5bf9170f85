package tlsmem

import (
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// bufferSize is the capacity of a pooled buffer in bytes. MaxPlaintext bytes of plaintext fit, whatever the version and size of the records that
	// crypto/tls makes of them.
	bufferSize = MaxPlaintext + 2<<10
	// restMax is the most unsent bytes that Flush moves out of a pooled buffer.
	restMax = 4 << 10
	// floodMax is the most bytes that may wait: those of one Write, and of answers. A peer that reads never makes so many answers wait.
	floodMax = 4 * MaxPlaintext
)

// Pool keeps buffers for encrypted bytes. The zero value is ready. It must not be copied.
type Pool struct{ pool sync.Pool }

// buffer is the element of a Pool: a pointer to an array, unlike a slice, goes into a sync.Pool without an allocation.
type buffer struct{ b [bufferSize]byte }

func (p *Pool) get() *buffer {
	if b, ok := p.pool.Get().(*buffer); ok {
		return b
	}
	return new(buffer)
}

// wire is the net.Conn that crypto/tls runs over: before Detach another connection, then memory.
type wire struct {
	of         *Conn
	underlying Underlying
	pool       *Pool
	detached   atomic.Bool
	ended      bool

	conn net.Conn // the connection of the handshake; nil after Detach

	unread []byte // for the goroutine that reads

	mu sync.Mutex
	// Guarded by mu.
	out    []byte  // bytes that wait to be sent
	pooled *buffer // the pooled buffer that contains out, or nil
	err    error
}

func (w *wire) Read(p []byte) (int, error) {
	switch {
	case !w.detached.Load():
		return w.conn.Read(p)
	case len(w.unread) > 0:
		n := copy(p, w.unread)
		w.unread = w.unread[n:]
		return n, nil
	case w.ended:
		return 0, io.EOF
	default:
		return 0, ErrNeedMore
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
		w.pooled = w.pool.get()
		w.out = w.pooled.b[:0]
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
	case len(w.out) <= restMax && w.pooled != nil: // so a peer that does not read costs the bytes left for it, not a buffer
		rest := append(make([]byte, 0, len(w.out)), w.out...)
		w.dropLocked()
		w.out = rest
	}
	return n, err
}

func (w *wire) release() {
	w.unread = nil
	w.mu.Lock()
	defer w.mu.Unlock()
	w.dropLocked()
	w.err = net.ErrClosed
}

// dropLocked drops the bytes that wait, and gives their buffer back.
func (w *wire) dropLocked() {
	if w.pooled != nil {
		w.pool.pool.Put(w.pooled)
	}
	w.out, w.pooled = nil, nil
}

// Close closes the connection of the handshake. After Detach it does nothing: the socket belongs to the caller of Detach.
func (w *wire) Close() error {
	if w.detached.Load() {
		return nil
	}
	return w.conn.Close()
}

func (w *wire) LocalAddr() net.Addr  { return w.underlying.LocalAddr() }
func (w *wire) RemoteAddr() net.Addr { return w.underlying.RemoteAddr() }

// NetConn returns the socket, like the method of tls.Conn.
func (w *wire) NetConn() net.Conn { return w.underlying.Socket() }

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
