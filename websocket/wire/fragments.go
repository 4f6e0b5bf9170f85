package wire

// Fragments writes one message in several frames (RFC 6455 §5.4), so that it may be larger than memory and begin before its end is
// known. Between its first frame and its last no other message may be sent over the connection; pings, pongs and a close frame may. It is
// used by one goroutine at a time.
type Fragments struct {
	c     *Codec
	op    Opcode // of the next frame: OpContinuation from the second on
	first byte   // the bit of compression for the first frame
	out   Deflater
	lent  bool // out is the endpoint's
}

// Fragments begins a message of the given kind, OpText or OpBinary. It is compressed if that was agreed on, whatever its size, unless
// the endpoint only receives.
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

// Append appends the next frame, with p in it; last says that it is the message's last one. It copies p. The errors are those of
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

// Release gives up a message that will not be finished. Its connection cannot be used for other messages then.
func (f *Fragments) Release() {
	if f.lent {
		f.c.e.encoders[f.c.agreed.deflate.bits].Put(f.out)
		f.lent = false
	}
}
