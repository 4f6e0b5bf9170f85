package websocket

import (
	"errors"
	"io"

	"github.com/sluice-push/sluice/websocket/wire"
)

// pieceBytes is the size of a writer's buffer and of its largest frame, in bytes.
const pieceBytes = 16 << 10

// fragmented is the writer of a message in several frames. It belongs to one goroutine.
type fragmented struct {
	c    *Conn
	f    *wire.Fragments
	buf  []byte
	last bool  // the frame that is being encoded ends the message
	err  error // the error of further writes
}

var errWriterClosed = errors.New("websocket: write to a message that was closed")

// NextWriter begins a message, OpText or OpBinary, that the caller writes piece by piece. The message may be larger than memory, and its
// beginning is sent before its end is known. Its frames have at most 16 KiB. The caller must close the writer, which ends the message. Until
// then other messages to this connection are refused with [ErrWriterOpen]. The writer belongs to one goroutine. Its errors are those of
// [Conn.Send]; after an error the connection should be closed.
func (c *Conn) NextWriter(op Opcode) (io.WriteCloser, error) {
	if err := c.codec.Sendable(); err != nil {
		return nil, asClosed(err)
	}
	return &fragmented{c: c, f: c.codec.Fragments(op)}, nil
}

// Write implements io.Writer.
func (w *fragmented) Write(p []byte) (n int, err error) {
	for len(p) > 0 && w.err == nil {
		if len(w.buf) == pieceBytes {
			w.flush(false)
			continue
		}
		if w.buf == nil {
			w.buf = make([]byte, 0, pieceBytes)
		}
		k := min(len(p), pieceBytes-len(w.buf))
		w.buf = append(w.buf, p[:k]...)
		n, p = n+k, p[k:]
	}
	return n, w.err
}

// Close ends the message. Closing again does nothing.
func (w *fragmented) Close() error {
	if w.err == nil {
		w.flush(true)
	}
	if errors.Is(w.err, errWriterClosed) {
		return nil
	}
	return w.err
}

// flush sends the buffer as one frame.
func (w *fragmented) flush(last bool) {
	w.last = last
	w.err = w.c.s.Load().SendAs(w, w.buf)
	w.buf = w.buf[:0]
	switch {
	case w.err != nil:
		w.f.Release()
	case last:
		w.err = errWriterClosed
	}
}

// AppendEncode implements session.Encoder. The session calls encoders in the order of the frames, so the first frame claims the connection here.
func (w *fragmented) AppendEncode(dst, p []byte) ([]byte, error) {
	c := w.c
	if c.frag != nil && c.frag != w {
		return dst, ErrWriterOpen
	}
	dst, err := w.f.Append(dst, p, w.last)
	if err == nil {
		c.frag = w
		if w.last {
			c.frag = nil
		}
	}
	return encoded(dst, err)
}
