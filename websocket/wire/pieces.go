package wire

// With Options.Pieces, Decode does not join the fragments of a message: it returns the arrived part of a frame at once, so that a message may be
// larger than memory. Each piece begins with a tag, one byte that describes it, because another goroutine may handle the piece after the codec's
// state has moved on. The tag replaces a byte that was used before: the last one of the header, or the last one of the previous piece. For that
// reason Decode reports the last byte of a piece as used only with the next piece.

// The bits of a tag, besides the opcode in the lowest four.
const (
	// TagLast marks the last piece of a message, and a control frame.
	TagLast = 0x80
	// TagDeflated marks the pieces of a compressed message, which Decode does not inflate.
	TagDeflated = 0x40
	// TagOpcode are the bits of the opcode: OpText or OpBinary in every piece of a message.
	TagOpcode = 0x0F
)

// begin returns the first piece of a data frame.
func (c *Codec) begin(h *header, in []byte) (piece []byte, n int, err error) {
	w := c.ensureWork()
	if w.kind == OpContinuation {
		w.kind, w.deflated, w.total, w.fragments = h.op, h.deflated, 0, 0
	}
	w.streaming, w.fin, w.left, w.key = true, h.fin, h.length, h.key
	w.total += h.length
	w.fragments++
	return c.cut(in, h.size-1)
}

// cut returns the arrived part of the current payload, which starts behind in[at]. The tag replaces in[at], which was used before.
func (c *Codec) cut(in []byte, at int) (piece []byte, n int, err error) {
	w := c.work
	k := min(len(in)-at-1, w.left)
	if k <= 0 && w.left > 0 {
		if at == 0 {
			return nil, len(in) - 2, nil
		}
		return nil, at, nil // the header is used, except for the byte that becomes the tag
	}
	n = at + 1 + k
	payload := in[at+1 : n : n]
	unmask(payload, w.key)
	w.key = keyAt(w.key, k)
	w.left -= k
	last := w.left == 0 && w.fin
	if w.kind == OpText && !w.deflated && !c.e.o.SkipUTF8 && (!w.text.add(payload) || last && !w.text.complete()) {
		return nil, 0, c.fail(errNotUTF8())
	}
	tag := byte(w.kind)
	if w.deflated {
		tag |= TagDeflated
	}
	c.last = w.kind
	piece = in[at:n:n]
	if w.left == 0 {
		w.streaming = false
	} else {
		n--
	}
	if last {
		tag |= TagLast
		w.kind, w.deflated, w.total, w.fragments = OpContinuation, false, 0, 0
	}
	piece[0] = tag
	return piece, n, nil
}
