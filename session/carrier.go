package session

import "net"

// carrier is the seam between a session and the connection under it: all that the write path and the reading goroutine need. Two
// exist. raw (Linux, plain TCP and Unix sockets) reads and writes the descriptor without blocking and waits in the runtime's
// poller. plain takes any net.Conn, which has no write that does not block.
//
// An engine with event loops is a third: instead of a goroutine in [Session.run] its loop calls receive when the descriptor is
// readable, and instead of a goroutine in [Session.drain] it arms write readiness in startDrainLocked and calls drainOnce. The
// rest of the package does not change.
type carrier interface {
	// read waits until bytes have arrived, puts them into in, and returns how many. While it waits it holds no more memory than
	// in.rest leaves.
	read(in *inbound) (int, error)

	// direct reports whether offer works.
	direct() bool
	// offer writes what the connection takes of b without blocking and returns how many bytes that was. Fewer than b.size
	// mean that there is no room for now. Not more than one goroutine at a time may be in offer or push.
	offer(b *batch) (int, error)
	// push writes b, waiting until the connection has taken some of it or the write deadline has passed. With an empty b it only
	// waits until there is room.
	push(b *batch) (int, error)

	// closeWrite tells the peer that nothing more comes and reports whether the connection can say so and still be read.
	closeWrite() bool
	// abort makes read and push return and tells the peer, without blocking. It returns what is left to do, which may
	// block, or nil.
	abort() func()
}

// newCarrier chooses the carrier for a connection.
func newCarrier(conn net.Conn) carrier {
	if c := newRaw(conn); c != nil {
		return c
	}
	return &plain{conn: conn}
}

// plainBuffer is what a session on a plain carrier holds for reading.
const plainBuffer = 4 << 10

// plainWrite is the most that a plain carrier writes at once: one TLS record, so that progress is seen.
const plainWrite = 16 << 10

// plain is the carrier for any net.Conn: TLS, net.Pipe, wrapped connections.
type plain struct{ conn net.Conn }

func (c *plain) read(in *inbound) (int, error) {
	in.keep(plainBuffer)
	n, err := c.conn.Read(in.space())
	in.arrived(n)
	return n, err
}

func (c *plain) direct() bool { return false }

func (c *plain) offer(*batch) (int, error) { return 0, nil }

func (c *plain) push(b *batch) (int, error) {
	if b.size == 0 {
		return 0, nil
	}
	p := b.parts[0]
	if len(b.parts) > 1 && len(p) < plainWrite {
		b.scratch = b.scratch[:0]
		for _, part := range b.parts {
			b.scratch = append(b.scratch, part[:min(len(part), plainWrite-len(b.scratch))]...)
		}
		p = b.scratch
	}
	return c.conn.Write(p[:min(len(p), plainWrite)])
}

func (c *plain) closeWrite() bool {
	half, ok := c.conn.(interface{ CloseWrite() error })
	return ok && half.CloseWrite() == nil
}

func (c *plain) abort() func() { return func() { _ = c.conn.Close() } }
