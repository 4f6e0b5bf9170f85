package wire

import (
	"bufio"
	"compress/flate"
	"errors"
	"io"
	"sync"

	"github.com/sluice-push/sluice/internal/deflate"
)

// Inflater reads one compressed message as it arrives, up to Options.MaxMessage. It holds only the window of the message that DEFLATE needs. It
// belongs to the goroutine that reads the messages, in their order.
type Inflater struct {
	c      *Codec
	kind   Opcode
	text   textCheck
	n      int             // bytes returned by Read
	src    *inflateState   // nil when the message is over
	within bool            // a block was begun, and no final one has ended since
	window *deflate.Window // data that blocks after a final one may refer to: the connection's context if there is one
	err    error
}

// inflateState is the pooled memory of an Inflater.
type inflateState struct {
	in   bufio.Reader
	tail tailReader
	z    io.ReadCloser // a flate.Resetter
}

var inflaters = sync.Pool{New: func() any {
	s := new(inflateState)
	s.z = flate.NewReader(&s.in)
	return s
}}

// tailReader reads the payload, then the four bytes that the sender leaves out (RFC 7692 §7.2.2), and then an empty final block, which ends DEFLATE
// data.
type tailReader struct {
	r    io.Reader // nil after its end
	tail string
	err  error // the error of r, unless it is a plain io.EOF
}

const deflateTail = "\x00\x00\xff\xff\x01\x00\x00\xff\xff"

func (t *tailReader) Read(p []byte) (int, error) {
	if t.r != nil {
		n, err := t.r.Read(p)
		if err == nil {
			return n, nil
		}
		if err != io.EOF { //nolint:errorlint // an error that wraps io.EOF can mean that the connection ended within the message
			t.err = err
			return n, err
		}
		t.r = nil
		if n > 0 {
			return n, nil
		}
	}
	if t.tail == "" {
		return 0, io.EOF
	}
	n := copy(p, t.tail)
	t.tail = t.tail[n:]
	return n, nil
}

// over reports whether the message is over. It is called before the first block and after each final block: some peers send empty messages
// without a byte, and some end all their blocks as final ones (§7.2.3.4).
func (s *inflateState) over() (bool, error) {
	if _, err := s.in.Peek(1); err != nil && s.tail.err != nil {
		return false, err
	}
	return s.tail.r == nil && s.in.Buffered()+len(s.tail.tail) <= len(deflateTail), nil
}

// Inflate returns a reader of a compressed message of the given kind. It reads the payload from r: the pieces of [Options.Pieces] without their
// tags, and then io.EOF. Read the message to its end before the next one.
func (c *Codec) Inflate(r io.Reader, kind Opcode) *Inflater {
	s := inflaters.Get().(*inflateState)
	s.tail = tailReader{r: r, tail: deflateTail}
	s.in.Reset(&s.tail)
	f := &Inflater{c: c, kind: kind, src: s, window: c.agreed.in}
	if f.window == nil {
		window := deflate.NewWindow(maxBits)
		f.window = &window
	}
	return f
}

// next reads up to the end of the message, across all final blocks.
func (f *Inflater) next(p []byte) (int, error) {
	for s := f.src; ; {
		if !f.within {
			if over, err := s.over(); err != nil {
				return 0, err
			} else if over {
				return 0, io.EOF
			}
			_ = s.z.(flate.Resetter).Reset(&s.in, f.window.Bytes()) // never fails
			f.within = true
		}
		n, err := s.z.Read(p)
		f.window.Append(p[:n])
		if !errors.Is(err, io.EOF) || s.tail.err != nil {
			return n, err
		}
		if f.within = false; n > 0 {
			return n, nil // the next block may not have arrived yet
		}
	}
}

// Read reads the inflated message. The errors are io.EOF at its end, those of the reader of the payload, and a *[CloseError] with which the
// connection should be closed: the message is too large, corrupt, or text that is not UTF-8.
func (f *Inflater) Read(p []byte) (int, error) {
	if f.err != nil {
		return 0, f.err
	}
	n, err := f.next(p)
	f.n += n
	checked := f.kind == OpText && !f.c.e.o.SkipUTF8
	var corrupt flate.CorruptInputError
	switch {
	case f.n > f.c.e.o.MaxMessage:
		err = errTooBig()
	case checked && !f.text.add(p[:n]), checked && errors.Is(err, io.EOF) && !f.text.complete() && f.src.tail.err == nil:
		err = errNotUTF8()
	case f.src.tail.err != nil:
	case errors.As(err, &corrupt), errors.Is(err, io.ErrUnexpectedEOF):
		err = errCorrupt()
	}
	if err != nil {
		f.err = err
		s := f.src
		f.src, f.window, s.tail = nil, nil, tailReader{}
		s.in.Reset(nil)
		inflaters.Put(s)
		if !errors.Is(err, io.EOF) {
			n = 0
		}
	}
	return n, err
}
