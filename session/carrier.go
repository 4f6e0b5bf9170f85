package session

import (
	"net"

	"github.com/sluice-push/sluice/internal/buffer"
)

// carrier is the seam between a session and the engine that runs it. Routine is a goroutine for each session that is parked while
// the peer is silent, for any net.Conn (routine.go). Bare is a descriptor in the interest list of an event loop, which costs no
// goroutine while nothing happens (bare_linux.go); bareTLS is a bare one that speaks TLS (tls_linux.go). The rest of the package does not
// know which it has; one test suite runs over both.
//
// Whoever runs a session's functions has the turn: its goroutine, or whom the loop gives it. Methods whose names end in Locked are
// called with the session's mutex held; none of them blocks.
type carrier interface {
	// direct reports whether offer works.
	direct() bool
	// offer writes what the connection takes of b without blocking and returns how many bytes that was. Fewer than b.size
	// mean that there is no room for now. It is called by who has the pen.
	offer(b *buffer.Batch) (int, error)
	// offerLarge is offer for a large frame, which it takes what was written off.
	offerLarge(l *buffer.Large) (int, error)
	// holding reports whether the connection holds bytes that it has taken and has no room for. Another offer, perhaps of nothing, is
	// needed to be rid of them.
	holding() bool
	// closeWrite tells the peer that nothing more comes and reports whether the connection can say so and still be read. It is
	// called by who has the pen. When the connection is holding something after it, it is to be called again without that.
	closeWrite() bool

	// start begins to run the session.
	start()
	// reject closes the connection of a session that is not to be started.
	reject()
	// roomLocked asks for the queue to be written, or Writable to be called, when the connection has room: the pen is
	// penDraining, and now the engine's.
	roomLocked()
	// armLocked sees to it that lateLocked is called at the time that dueLocked tells.
	armLocked()
	// abortLocked tells the peer that the connection is over, and wakes whoever waits for it. The phase is closed.
	abortLocked()
	// changedLocked says that something has changed for which the end of a session may wait: the pen was put down, a helper
	// ended, all is written, the phase is closed.
	changedLocked()
	// resumeLocked says that messages may be handled again: see backpressure.go.
	resumeLocked()
	// yieldLocked is called before a wait for this session's peer; it reports whether the handler that runs has lost its loop.
	yieldLocked() bool

	// execute does what the session's errand says.
	execute()

	// net returns the connection; nil when there is none any more.
	net() net.Conn
	remote() net.Addr
	local() net.Addr
}

// stream is a connection for the engine with goroutines. Two exist. raw (Linux, plain TCP and Unix sockets) reads and writes the
// descriptor without blocking and waits in the runtime's poller. plain takes any net.Conn, which has no write that does not block.
type stream interface {
	// each puts what arrives into s.in, and calls s.got with the number of bytes each time, until that returns false, which is no
	// error, or reading fails. While it waits it holds no more memory than s.in.rest leaves.
	each(s *Session) error
	// direct, offer and closeWrite are those of the carrier.
	direct() bool
	offer(b *buffer.Batch) (int, error)
	closeWrite() bool
	// push writes b, waiting until the connection has taken some of it or the write deadline has passed. With an empty b it only
	// waits until there is room. Not more than one goroutine at a time may be in offer or push.
	push(b *buffer.Batch) (int, error)
	// offerLarge and pushLarge are the same for a large frame, which they take what was written off.
	offerLarge(s *Session, l *buffer.Large) (int, error)
	pushLarge(s *Session, l *buffer.Large) (int, error)
	// abort makes each and push return and tells the peer, without blocking. It returns what is left to do, which may
	// block, or nil.
	abort() func()
	// close closes the connection when each has returned for good.
	close()
}

// newStream chooses the stream for the connection of s.
func newStream(s *Session) stream {
	if c := newRaw(s); c != nil {
		return c
	}
	return &plain{conn: s.own.conn}
}

// plainBuffer is what a session on a plain stream holds for reading.
const plainBuffer = 4 << 10

// plainWrite is the most that a plain stream writes at once: one TLS record, so that progress is seen.
const plainWrite = 16 << 10

// plain is the stream for any net.Conn: TLS, net.Pipe, wrapped connections.
type plain struct{ conn net.Conn }

func (c *plain) each(s *Session) error {
	for in := &s.in; ; {
		in.Keep(plainBuffer)
		n, err := c.conn.Read(in.Space())
		in.Arrived(n)
		if n > 0 && !s.got(n) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func (c *plain) direct() bool { return false }

func (c *plain) offer(*buffer.Batch) (int, error) { return 0, nil }

func (c *plain) push(b *buffer.Batch) (int, error) {
	if b.Size == 0 {
		return 0, nil
	}
	p := b.Parts[0]
	if len(b.Parts) > 1 && len(p) < plainWrite {
		b.Scratch = b.Scratch[:0]
		for _, part := range b.Parts {
			b.Scratch = append(b.Scratch, part[:min(len(part), plainWrite-len(b.Scratch))]...)
		}
		p = b.Scratch
	}
	return c.conn.Write(p[:min(len(p), plainWrite)])
}

func (c *plain) offerLarge(*Session, *buffer.Large) (int, error) { return 0, nil }

func (c *plain) pushLarge(s *Session, l *buffer.Large) (int, error) { return s.offerCopied(l, c.push) }

func (c *plain) closeWrite() bool { return halfClose(c.conn) }

func halfClose(conn net.Conn) bool {
	half, ok := conn.(interface{ CloseWrite() error })
	return ok && half.CloseWrite() == nil
}

func (c *plain) close() { _ = c.conn.Close() }

func (c *plain) abort() func() { return func() { _ = c.conn.Close() } }
