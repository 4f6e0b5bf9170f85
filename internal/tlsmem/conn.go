package tlsmem

import (
	"crypto/tls"
	"errors"
	"net"
)

// MaxPlaintext is the most bytes of plaintext in one Write: those of one TLS record, RFC 8446 section 5.1.
const MaxPlaintext = 16 << 10

var (
	// ErrNeedMore is the error of Read if bytes must be fed before more plaintext can be read.
	ErrNeedMore error = more{}
	// ErrFlood says that the peer makes TLS itself answer, with key updates for example, and does not read the answers.
	ErrFlood = errors.New("tlsmem: the peer does not read the answers that it asks for")
)

// more is a temporary net.Error, which crypto/tls does not keep.
type more struct{}

func (more) Error() string   { return "tlsmem: more bytes are needed" }
func (more) Timeout() bool   { return true }
func (more) Temporary() bool { return true }

// Underlying are the addresses of a connection, and the socket under it.
type Underlying interface {
	LocalAddr() net.Addr
	RemoteAddr() net.Addr
	// Socket returns the connection under the TLS, for a caller that wants to inspect it, or nil.
	Socket() net.Conn
}

// Conn is the server's end of a TLS connection. One goroutine at a time may call Feed, FeedEOF, Unread and Read, and one at a time Write. Any
// goroutine may call the other methods at any time.
type Conn struct {
	conn *tls.Conn
	wire wire
}

// NewServer returns a Conn over conn, on which the handshake is made: see [Conn.TLS]. The Conn borrows buffers from pool, which any number of
// connections may share.
func NewServer(conn net.Conn, config *tls.Config, ends Underlying, pool *Pool) *Conn {
	c := &Conn{wire: wire{conn: conn, underlying: ends, pool: pool}}
	c.wire.of = c
	c.conn = tls.Server(&c.wire, config)
	return c
}

// Of returns the Conn whose TLS is conn; nil if there is none.
func Of(conn *tls.Conn) *Conn {
	if w, ok := conn.NetConn().(*wire); ok {
		return w.of
	}
	return nil
}

// Conn returns the connection that the handshake was made on; nil after Detach.
func (c *Conn) Conn() net.Conn { return c.wire.conn }

// Move gives a Conn that is not detached other ends and another pool. No goroutine may be using the Conn.
func (c *Conn) Move(ends Underlying, pool *Pool) { c.wire.underlying, c.wire.pool = ends, pool }

// TLS returns the connection of crypto/tls. It is for the handshake, which blocks and obeys the deadlines of the connection given to NewServer.
// It is also for information about the connection; its method NetConn returns Underlying.Socket. After Detach it must not be used for anything but
// information.
func (c *Conn) TLS() *tls.Conn { return c.conn }

// Detach ends the use of the connection that the handshake was made on. The handshake must have succeeded, and no goroutine may be using the
// connection. From now on nothing blocks.
func (c *Conn) Detach() {
	c.wire.conn = nil
	c.wire.detached.Store(true)
}

// Detached reports whether Detach was called. Before that Read and Write must not be called, because they would block.
func (c *Conn) Detached() bool { return c.wire.detached.Load() }

// Feed gives Read bytes that have arrived. They are borrowed until Unread returns 0. All bytes fed before must have been read.
func (c *Conn) Feed(p []byte) { c.wire.unread = p }

// Unread returns the number of fed bytes that TLS has not read yet.
func (c *Conn) Unread() int { return len(c.wire.unread) }

// FeedEOF says that no more bytes will be fed.
func (c *Conn) FeedEOF() { c.wire.ended = true }

// Read reads plaintext into p, which must not be empty. It may return bytes together with an error: [ErrNeedMore], io.EOF if the peer has ended the
// connection in order, or a permanent error. Read may also produce bytes to send: see Pending.
func (c *Conn) Read(p []byte) (int, error) {
	return c.conn.Read(p)
}

// Write encrypts p, at most MaxPlaintext bytes, for Flush to send. An error is permanent, and then nothing of p is sent.
func (c *Conn) Write(p []byte) error {
	if _, err := c.conn.Write(p[:len(p):len(p)]); err != nil {
		return err
	}
	return c.Err()
}

// Err returns why nothing can be sent any more: [ErrFlood], which a Read may cause, or net.ErrClosed. It returns nil if sending works.
func (c *Conn) Err() error { return c.wire.failed() }

// CloseWrite tells the peer, at the next Flush, that nothing more follows (close_notify, RFC 8446 section 6.1). Further calls do nothing.
func (c *Conn) CloseWrite() error { return c.conn.CloseWrite() }

// Pending returns the number of encrypted bytes that wait to be sent.
func (c *Conn) Pending() int { return c.wire.pending() }

// Flush calls send with the bytes that wait, and returns how many send took. It calls send at most once. send must not block, because a Write
// waits meanwhile. The error is that of send, or that of Err.
func (c *Conn) Flush(send func([]byte) (int, error)) (int, error) { return c.wire.flush(send) }

// Release gives up all borrowed memory, and drops the bytes that wait to be sent. After that the connection may only be asked for information:
// see TLS.
func (c *Conn) Release() { c.wire.release() }
