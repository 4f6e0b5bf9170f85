package tlsconn

import (
	"crypto/tls"
	"errors"
	"net"
)

// MaxPlain is the most that is encrypted at once, in bytes: one record of TLS, RFC 8446 section 5.1.
const MaxPlain = 16 << 10

var (
	// ErrMore is what Read returns when bytes have to be fed before there is more to read.
	ErrMore error = more{}
	// ErrFlood says that the peer has made TLS itself answer, with key updates for example, and has not read the answers.
	ErrFlood = errors.New("tlsconn: the peer does not read the answers that it asks for")
)

// more is a net.Error that passes: crypto/tls does not keep it.
type more struct{}

func (more) Error() string   { return "tlsconn: more bytes are needed" }
func (more) Timeout() bool   { return true }
func (more) Temporary() bool { return true }

// Ends are what a connection is said to connect, and the socket under it.
type Ends interface {
	LocalAddr() net.Addr
	RemoteAddr() net.Addr
	// Socket returns the connection under the TLS, for a caller that wants to look at it; or nil.
	Socket() net.Conn
}

// Conn is the server's end of a TLS connection. One goroutine at a time may be in Feed, End, Fed and Read, and one at a time in
// Write; everything else may be called by anybody at any time.
type Conn struct {
	conn *tls.Conn
	wire wire
}

// NewServer begins with the connection on which the handshake is to be made: see [Conn.TLS]. Buffers are borrowed from pool, which
// may be shared by any number of connections.
func NewServer(conn net.Conn, config *tls.Config, ends Ends, pool *Pool) *Conn {
	c := &Conn{wire: wire{conn: conn, ends: ends, pool: pool}}
	c.conn = tls.Server(&c.wire, config)
	return c
}

// TLS returns the connection of crypto/tls: for the handshake, which blocks and has the deadlines of the connection given to NewServer; and
// for what it tells of it. Its NetConn tells the socket in the same way. After Detach it must not be used for anything else.
func (c *Conn) TLS() *tls.Conn { return c.conn }

// Detach parts from the connection that the handshake was made on, which must have succeeded. Nobody may be using it. From now on
// nothing blocks.
func (c *Conn) Detach() {
	c.wire.conn = nil
	c.wire.detached.Store(true)
}

// Detached reports whether Detach was called: until then there is nothing to be read or written.
func (c *Conn) Detached() bool { return c.wire.detached.Load() }

// Feed gives Read what has arrived. The bytes are borrowed until Fed says 0. All that was fed before must have been read.
func (c *Conn) Feed(p []byte) { c.wire.fed = p }

// Fed returns how many bytes were fed that TLS has not taken yet.
func (c *Conn) Fed() int { return len(c.wire.fed) }

// End says that nothing will be fed any more.
func (c *Conn) End() { c.wire.ended = true }

// Read reads plaintext into p, which is not empty. It may return bytes together with an error: [ErrMore], io.EOF when the peer has ended
// the connection in order, or what is wrong with it for good. It may also write: see Pending.
func (c *Conn) Read(p []byte) (int, error) {
	return c.conn.Read(p)
}

// Write encrypts p, of at most MaxPlain bytes, for Flush to send. Its errors are for good, and nothing of p is sent then.
func (c *Conn) Write(p []byte) error {
	if _, err := c.conn.Write(p[:len(p):len(p)]); err != nil {
		return err
	}
	return c.Err()
}

// Err returns why nothing can be sent any more, or nil: [ErrFlood], after Read, or net.ErrClosed.
func (c *Conn) Err() error { return c.wire.failed() }

// CloseWrite tells the peer, at the next Flush, that nothing more comes (close_notify, RFC 8446 section 6.1). Calling it again does
// nothing.
func (c *Conn) CloseWrite() error { return c.conn.CloseWrite() }

// Pending returns how many bytes wait to be sent.
func (c *Conn) Pending() int { return c.wire.pending() }

// Flush has send, which must not block, take what waits, and returns how many bytes it took. Send is called once at most, while others
// that write have to wait. The error is that of send, or [ErrFlood].
func (c *Conn) Flush(send func([]byte) (int, error)) (int, error) { return c.wire.flush(send) }

// Release gives up all memory that is borrowed, and what waits in it. Nobody may use the connection any more, but for what TLS tells.
func (c *Conn) Release() { c.wire.release() }
