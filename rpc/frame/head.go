package frame

// DecodeHead is [Codec.Decode] for programs that forward frames: it needs only the bytes before the body. It returns how many bytes precede the
// body, and the size of the whole frame, of which in may have less or more.
//
//	head > 0   the frame has size bytes, and its body begins at in[head]
//	head < 0   at least −head more bytes are needed before calling again makes sense
//	err        the stream is broken; an *[Error], which every later call repeats
//
// The next call has to begin with the first byte behind the frame. [Codec.Frame] has what precedes the body, and points into in. Its Body is what has
// arrived of the body. If the message is compressed, so is its envelope. Then nothing but the header is read: Sequence is that of the header, Method
// is the value of [KeyMethod], and Kind is 0, unless they are in the header.
//
// Limits hold as in Decode, except that MaxBody does not count what is compressed. An unframed message does not say its size: it is an
// ErrUnsupported.
func (c *Codec) DecodeHead(in []byte) (head, size int, err error) {
	if c.err != nil {
		return 0, 0, c.err
	}
	if head, size, err = c.decodeHead(in); err != nil {
		c.err = err
		return 0, 0, err
	}
	return head, size, nil
}

// decodeHead implements DecodeHead.
func (c *Codec) decodeHead(in []byte) (head, size int, err error) {
	c.Rest()
	if len(in) < 4 {
		return len(in) - 4, 0, nil
	}
	if p := messageProtocol(in[0], in[1]); p == Binary || p == Compact {
		return 0, 0, refuse(0, ErrUnsupported, "an unframed message, whose size is not known before it has arrived")
	}
	l, n, err := c.layout(in)
	if n < 0 || err != nil {
		return n, 0, err
	}
	in = in[:min(len(in), l.whole)]
	f := &c.frame
	f.Dialect = l.dialect
	at := 4
	if l.magic > 0 {
		if at, n, err = c.headerEnd(in, l); n < 0 || err != nil {
			return n, 0, err
		}
		if len(in) < at {
			return len(in) - at, 0, nil
		}
		if err := c.readHeader(in, l, at); err != nil {
			return 0, 0, err
		}
		if len(f.Transforms) > 0 && l.whole > at {
			f.Body = in[at:]
			return at, l.whole, c.compressedHead()
		}
	}
	if n := c.envelopeMissing(in[at:], l.whole-len(in)); n > 0 {
		return -n, 0, nil
	}
	r := reader{in: in[at:len(in):len(in)], base: at, missing: l.whole - len(in)}
	if l.magic > 0 {
		err = c.headedMessage(&r)
	} else {
		err = c.message(&r)
	}
	return len(in) - len(f.Body), l.whole, err
}

// compressedHead fills in what a header says of a message that is compressed.
func (c *Codec) compressedHead() error {
	if c.frame.Dialect.Framing == TTHeader && (c.frame.Flags&FlagStreaming != 0 || c.frame.Dialect.Protocol != 0) {
		body := c.frame.Body
		r := reader{}
		err := c.bare(&r)
		c.frame.Body = body
		return err
	}
	c.frame.Method = c.frame.Int(KeyMethod)
	return nil
}

// envelopeMissing returns how many bytes have to arrive, at least, before the envelope of a message can be read. rest is how many bytes follow m.
func (c *Codec) envelopeMissing(m []byte, rest int) int {
	f := &c.frame
	if f.Dialect.Framing == TTHeader && (f.Flags&FlagStreaming != 0 || f.Dialect.Protocol != 0) {
		return 0 // there is none
	}
	if len(m) < 2 {
		return min(2-len(m), rest)
	}
	p := messageProtocol(m[0], m[1])
	if p == 0 && f.Dialect.Framing == TTHeader { // there may be a length before the message
		if len(m) < 6 {
			return min(6-len(m), rest)
		}
		m = m[4:]
		p = messageProtocol(m[0], m[1])
	}
	if p == 0 {
		return 0 // which is refused
	}
	missing, _, err := envelopeSize(m, p, c.limits.MaxMethod)
	if err != nil {
		return 0 // so is this, with the right offset
	}
	return min(missing, rest)
}
