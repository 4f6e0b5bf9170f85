package goroutineconn

import (
	"net"

	"github.com/sluice-push/sluice/internal/buffer"
)

// Stream is how a connection is read and written. A raw stream (Linux, plain TCP and Unix sockets) reads and writes the descriptor without
// blocking, and waits in the runtime's poller. A net stream is any net.Conn, which has no write that does not block.
type Stream interface {
	// Each reads into the member's Input, and calls Received after each read, until reading fails, or is to stop, which is no error. While it waits
	// it holds no more memory than Input.Shrink leaves.
	Each() error
	// Direct, TryWrite and CloseWrite are Direct, TryWrite and CloseWrite of writer.Conn.
	Direct() bool
	TryWrite(b *buffer.Batch) (int, error)
	CloseWrite() bool
	// BlockingWrite writes b, and waits until the connection has taken some of it or the write deadline has passed. With an empty b it only
	// waits until there is room. At most one goroutine at a time is in TryWrite or BlockingWrite.
	BlockingWrite(b *buffer.Batch) (int, error)
	// TryWriteBig and BlockingWriteBig are the same for a big frame, which they advance past the written bytes.
	TryWriteBig(l *buffer.BigFrame) (int, error)
	BlockingWriteBig(l *buffer.BigFrame) (int, error)
	// Abort makes Each and BlockingWrite return, and tells the peer unless the peer has reset the connection. It does not block. It returns what
	// is left to do, which may block, or nil.
	Abort(reset bool) (rest func())
	// Close closes the connection. No goroutine is in Each any more.
	Close()
}

// inputSize is how many bytes a connection with a net stream holds for reading.
const inputSize = 4 << 10

// pushSize is how many bytes a net stream writes at once at most: one TLS record, so that progress is seen.
const pushSize = 16 << 10

// netStream is the stream for any net.Conn: TLS, net.Pipe, wrapped connections.
type netStream Conn

func (c *netStream) Each() error {
	for in := c.m.Input(); ; {
		in.ShrinkTo(inputSize)
		n, err := c.conn.Read(in.Space())
		in.Arrived(n)
		if n > 0 && !(*Conn)(c).readsOn(c.m.Received(n)) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func (c *netStream) Direct() bool { return false }

func (c *netStream) TryWrite(*buffer.Batch) (int, error) { return 0, nil }

func (c *netStream) BlockingWrite(b *buffer.Batch) (int, error) {
	if b.Size == 0 {
		return 0, nil
	}
	p := b.Parts[0]
	if len(b.Parts) > 1 && len(p) < pushSize {
		b.Scratch = b.Scratch[:0]
		for _, part := range b.Parts {
			b.Scratch = append(b.Scratch, part[:min(len(part), pushSize-len(b.Scratch))]...)
		}
		p = b.Scratch
	}
	return c.conn.Write(p[:min(len(p), pushSize)])
}

func (c *netStream) TryWriteBig(*buffer.BigFrame) (int, error) { return 0, nil }

func (c *netStream) BlockingWriteBig(l *buffer.BigFrame) (int, error) {
	return c.cfg.Pools.WriteCopied(l, c.BlockingWrite)
}

func (c *netStream) CloseWrite() bool { return closeWrite(c.conn) }

// closeWrite half-closes a connection, and reports whether it could.
func closeWrite(conn net.Conn) bool {
	half, ok := conn.(interface{ CloseWrite() error })
	return ok && half.CloseWrite() == nil
}

func (c *netStream) Close() { _ = c.conn.Close() }

func (c *netStream) Abort(bool) (rest func()) { return c.Close }
