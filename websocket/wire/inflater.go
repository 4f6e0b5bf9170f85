package wire

import (
	"bufio"
	"compress/flate"
	"errors"
	"io"
	"sync"
)

// Inflater reads one compressed message as it arrives, of any size up to Options.MaxMessage, holding no more of it than the window that
// DEFLATE needs. It belongs to who reads the messages, in their order.
type Inflater struct {
	c    *Codec
	kind Opcode
	text textCheck
	n    int       // bytes read
	src  *inflates // nil when the message is over
	err  error
}

// inflates is what an Inflater borrows.
type inflates struct {
	in   bufio.Reader
	tail tailed
	z    io.ReadCloser // a flate.Resetter
}

var inflaters = sync.Pool{New: func() any {
	s := new(inflates)
	s.z = flate.NewReader(&s.in)
	return s
}}

// tailed reads what was left out at the end of a message (RFC 7692 §7.2.2), and then an empty last block, with which DEFLATE ends.
type tailed struct {
	r    io.Reader
	tail string
}

const deflateTail = "\x00\x00\xff\xff\x01\x00\x00\xff\xff"

func (t *tailed) Read(p []byte) (int, error) {
	if t.r != nil {
		n, err := t.r.Read(p)
		if !errors.Is(err, io.EOF) {
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

// Inflate reads a compressed message of the given kind, of which r gives the payload, the pieces of [Options.Pieces] without their
// tags, and then io.EOF. It has to be read to its end before the next message.
func (c *Codec) Inflate(r io.Reader, kind Opcode) *Inflater {
	s := inflaters.Get().(*inflates)
	s.tail = tailed{r: r, tail: deflateTail}
	s.in.Reset(&s.tail)
	var window []byte
	if in := c.agreed.in; in != nil {
		window = in.Bytes()
	}
	_ = s.z.(flate.Resetter).Reset(&s.in, window) // never fails
	return &Inflater{c: c, kind: kind, src: s}
}

// Read reads the message. The errors are io.EOF at its end, those of the reader that gives the payload, and a *[CloseError] with which the
// connection should be closed: the message is too large, corrupt, or text that is not UTF-8.
func (f *Inflater) Read(p []byte) (int, error) {
	if f.err != nil {
		return 0, f.err
	}
	n, err := f.src.z.Read(p)
	f.n += n
	if in := f.c.agreed.in; in != nil {
		in.Append(p[:n])
	}
	checked := f.kind == OpText && !f.c.e.o.SkipUTF8
	var corrupt flate.CorruptInputError
	switch {
	case f.n > f.c.e.o.MaxMessage:
		err = errTooBig()
	case checked && !f.text.add(p[:n]), checked && errors.Is(err, io.EOF) && !f.text.complete():
		err = errNotUTF8()
	case errors.As(err, &corrupt), errors.Is(err, io.ErrUnexpectedEOF):
		err = errCorrupt()
	}
	if err != nil {
		f.err = err
		s := f.src
		f.src, s.tail.r = nil, nil
		s.in.Reset(nil)
		inflaters.Put(s)
		if f.n > 0 && !errors.Is(err, io.EOF) {
			n = 0
		}
	}
	return n, err
}
