package wire

// Fragments writes one message in several frames (RFC 6455 §5.4). The message may be larger than memory, and its beginning can be sent before
// its end is known. Between its first frame and its last, no other message may be sent over the connection, but pings, pongs and a close frame
// may. One goroutine uses it at a time.
type Fragments struct {
	c     *Codec
	op    Opcode // of the next frame: OpContinuation after the first one
	first byte   // the compression bit of the first frame, or 0
	out   Deflater
	lent  bool // out belongs to the endpoint's pool
}

// Fragments begins a message of the given kind, OpText or OpBinary. If the handshake agreed on compression, the message is compressed, whatever
// its size, except with ReceiveOnly.
func (c *Codec) Fragments(op Opcode) *Fragments {
	f := &Fragments{c: c, op: op}
	if !c.deflates() || c.e.o.Compression.ReceiveOnly {
		return f
	}
	f.first, f.out = rsv1Bit, c.agreed.out
	if f.out == nil {
		f.lent = true
		f.out = c.e.deflater(c.agreed.deflate.bits)
	}
	return f
}

// Append appends the next frame, with the payload p; last says that it is the message's last one. Append copies p. The errors are those of
// [Codec.AppendMessage]. After the last frame, and after an error, the message is over.
func (f *Fragments) Append(dst, p []byte, last bool) ([]byte, error) {
	c := f.c
	if err := c.Sendable(); err != nil {
		f.Release()
		return dst, err
	}
	first := f.first | byte(f.op)
	if last {
		first |= finBit
	}
	f.op, f.first = OpContinuation, 0
	if f.out == nil {
		return c.appendFrame(dst, first, p), nil
	}
	start := len(dst)
	dst = c.appendHeader(dst, first, len(p))
	body := len(dst)
	dst = f.out.Append(dst, p)
	if last {
		f.Release()
	} else {
		dst = append(dst, 0, 0, 0xff, 0xff) // the end of the flush, which only the message's last frame leaves out
	}
	return c.fitHeader(dst, start, body, first), nil
}

// Release abandons an unfinished message. Its connection cannot send other messages afterwards.
func (f *Fragments) Release() {
	if f.lent {
		f.c.e.encoders[f.c.agreed.deflate.bits].Put(f.out)
		f.lent = false
	}
}
