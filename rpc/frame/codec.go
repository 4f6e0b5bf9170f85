package frame

import "encoding/binary"

// The magic numbers of headers, and the places of the fixed fields in a header, counted from the magic number.
const (
	theaderMagic  = 0x0FFF
	ttheaderMagic = 0x1000

	flagsAt      = 2
	sequenceAt   = 4
	headerSizeAt = 8
	fixedHeader  = 10 // magic, flags, sequence, header size
)

// Codec reads frames of all dialects from the bytes of one connection, each frame in the dialect of its first bytes. It has the methods of a codec
// of package session. It must be used by one goroutine at a time, except that AppendEncode and
// AppendHeader may run beside Decode.
type Codec struct {
	limits Options
	frame  Frame
	err    error

	// The unframed message that has begun to arrive, if walking is set, and the size of its envelope.
	walker   walker
	walking  bool
	envelope int

	inflated [2][]byte // the decompressed message, and that before the last transform but one
}

// New returns a codec for one connection. The options may be nil.
func New(o *Options) *Codec {
	c := &Codec{limits: o.withDefaults()}
	c.walker.most, c.walker.depth = c.limits.MaxFrame, c.limits.MaxDepth
	return c
}

// Frame returns the frame that Decode has found. It is the same Frame for the whole life of the codec. What is in it is valid until the next
// Decode, and undefined if Decode has not found a frame.
func (c *Codec) Frame() *Frame { return &c.frame }

// Decode looks for a frame at the start of in, the bytes of the connection that have not been used. If it finds one, it returns its body and the
// number of bytes of the frame; [Codec.Frame] has the rest. The body is never nil.
//
//	n > 0   a frame was found in the first n bytes
//	n < 0   at least −n more bytes are needed before calling again makes sense
//	err     the stream is broken; an *[Error], which every later call repeats
//
// The next call has to begin with the first byte that was not used. A frame points into in, unless it was compressed. Sizes are checked before the
// bytes that they count have arrived.
func (c *Codec) Decode(in []byte) (body []byte, n int, err error) {
	if c.err != nil {
		return nil, 0, c.err
	}
	if n, err = c.decode(in); err != nil {
		c.err = err
		return nil, 0, err
	}
	if n <= 0 {
		return nil, n, nil
	}
	return c.frame.Body, n, nil
}

// AppendEncode appends a frame that is complete already. To encode a [Frame], use its own AppendEncode: with a session, Session.SendAs(frame, body).
func (c *Codec) AppendEncode(dst, frame []byte) ([]byte, error) { return append(dst, frame...), nil }

// AppendHeader appends nothing: it tells package session that a large frame may be written from where it is.
func (c *Codec) AppendHeader(dst, _ []byte) ([]byte, error) { return dst, nil }

// Allows returns an error, an [ErrTooLarge], if a codec with the same limits would not decode f with a body of so many bytes. Compression is taken
// to save nothing. It may run beside all other methods.
func (c *Codec) Allows(f *Frame, size int) error {
	l := &c.limits
	pairs, text := len(f.Pairs)+len(f.Ints), len(f.Method)+len(f.Token)
	longest := len(f.Token)
	for i := range f.Pairs {
		key, value := len(f.Pairs[i].Key), len(f.Pairs[i].Value)
		if f.Pairs[i].Persistent && f.Dialect.Framing == TTHeader {
			key += len(persistPrefix)
		}
		longest, text = max(longest, key, value), text+key+value
	}
	for i := range f.Ints {
		value := len(f.Ints[i].Value)
		longest, text = max(longest, value), text+value
	}
	if f.isBareCall() {
		if pairs++; len(f.Method) > 0 { // its kind and its method
			pairs++
		}
		longest = max(longest, len(f.Method))
	}
	switch {
	case len(f.Method) > l.MaxMethod:
		return refuse(-1, ErrTooLarge, "the method has %d bytes, at most %d are allowed", len(f.Method), l.MaxMethod)
	case f.Dialect.Framing.HasHeader() && pairs > l.MaxPairs:
		return refuse(-1, ErrTooLarge, "%d pairs, at most %d are allowed", pairs, l.MaxPairs)
	case longest > l.MaxPair:
		return refuse(-1, ErrTooLarge, "a key or value has %d bytes, at most %d are allowed", longest, l.MaxPair)
	}
	if most := text + 10*pairs + 64; len(f.Transforms) < 2 && most <= l.MaxHeader && most+size+size>>10 <= min(l.MaxBody, l.MaxFrame) {
		return nil // without counting exactly
	}
	return c.allowsExactly(f, size)
}

// allowsExactly is Allows for what is near the limits, or beyond.
func (c *Codec) allowsExactly(f *Frame, size int) error {
	header := 0
	if f.Dialect.Framing.HasHeader() {
		bytes, err := f.appendHeader(nil)
		if err != nil {
			return err
		}
		header = len(bytes)
	}
	body := len(f.appendMessagePrefix(nil, size)) + size
	whole := header + body
	if f.Dialect.Framing != Unframed {
		whole += 4
	}
	if more, n := size>>10+64, len(f.Transforms); n > 0 { // what does not become smaller becomes a little larger
		whole += n * more
		body += (n - 1) * more // of what one transform makes of another
	}
	switch { // the other length of a frame, or of a message
	case f.Dialect.Wrapped && f.Dialect.Framing == THeader:
		whole += 4
	case f.Dialect.Wrapped && len(f.Transforms) == 0:
		body -= 4 // the length of the frame says it too; in what is compressed it counts
	}
	switch l := &c.limits; {
	case header-fixedHeader > l.MaxHeader:
		return refuse(-1, ErrTooLarge, "the header has %d bytes, at most %d are allowed", header-fixedHeader, l.MaxHeader)
	case body > l.MaxBody:
		return refuse(-1, ErrTooLarge, "the message has %d bytes, at most %d are allowed", body, l.MaxBody)
	case whole > l.MaxFrame:
		return refuse(-1, ErrTooLarge, "the frame has %d bytes, at most %d are allowed", whole, l.MaxFrame)
	}
	return nil
}

// decode implements Decode.
func (c *Codec) decode(in []byte) (n int, err error) {
	if c.walking {
		return c.unframed(in)
	}
	c.Rest()
	if len(in) < 4 {
		return len(in) - 4, nil
	}
	if p := messageProtocol(in[0], in[1]); p == Binary || p == Compact {
		c.frame.Dialect = Dialect{Framing: Unframed, Protocol: p}
		c.walking, c.envelope = true, 0
		return c.unframed(in)
	}
	l, n, err := c.layout(in)
	switch {
	case n < 0, err != nil:
		return n, err
	case l.magic > 0:
		return c.header(in[:min(len(in), l.whole)], l)
	case len(in) < l.whole:
		return len(in) - l.whole, nil
	}
	c.frame.Dialect = l.dialect
	r := reader{in: in[:l.whole], at: 4}
	return l.whole, c.message(&r)
}

// layout is what the first bytes of a frame with a length say.
type layout struct {
	whole   int     // the size of the frame
	magic   int     // the index of the header's magic number, 0 if there is no header
	dialect Dialect // its protocol is known if there is no header
}

// layout reads the first bytes of a frame with a length, at least four. n < 0 says that it needs so many more.
func (c *Codec) layout(in []byte) (l layout, n int, err error) {
	length := binary.BigEndian.Uint32(in)
	switch {
	case length > maxLength:
		return l, 0, refuse(0, ErrDialect, "the bytes % x begin no frame", in[:4])
	case uint64(length)+4 > uint64(c.limits.MaxFrame):
		return l, 0, refuse(0, ErrTooLarge, "the frame has %d bytes, at most %d are allowed", uint64(length)+4, c.limits.MaxFrame)
	case length < 4:
		return l, 0, refuse(0, ErrMalformed, "a length of %d, the shortest message has more", length)
	case len(in) < 8:
		return l, len(in) - 8, nil
	}
	whole := 4 + int(length)
	second := binary.BigEndian.Uint32(in[4:])
	switch magic := second >> 16; {
	case magic == theaderMagic:
		return layout{whole, 4, Dialect{Framing: THeader}}, 0, nil
	case magic == ttheaderMagic:
		return layout{whole, 4, Dialect{Framing: TTHeader}}, 0, nil
	case uint64(second)+8 == uint64(whole) && whole >= 8+fixedHeader:
		if len(in) < 10 {
			return l, len(in) - 10, nil
		}
		if binary.BigEndian.Uint16(in[8:]) == theaderMagic {
			return layout{whole, 8, Dialect{Framing: THeader, Wrapped: true}}, 0, nil
		}
	}
	p := messageProtocol(in[4], in[5])
	if p == 0 {
		return l, 0, refuse(4, ErrDialect, "the bytes % x after the length begin neither a header nor a message", in[4:8])
	}
	return layout{whole, 0, Dialect{Framing: Framed, Protocol: p}}, 0, nil
}

// Rest gives back the memory of the last frame, which must not be used any more, and forgets what it points to. A call is never necessary, because
// the next Decode does the same. At the end of a handler, Rest saves the memory that an idle connection would keep: the bytes of the frame, if they
// are not in a shared buffer.
func (c *Codec) Rest() {
	f := &c.frame
	f.Reset()
	if cap(f.Pairs) > keptPairs {
		f.Pairs = nil
	}
	if cap(f.Ints) > keptPairs {
		f.Ints = nil
	}
	for i := range c.inflated {
		if cap(c.inflated[i]) > keptBuffer {
			c.inflated[i] = nil
		}
	}
}

// header reads a frame with a header. in ends where the frame ends, or before.
func (c *Codec) header(in []byte, l layout) (n int, err error) {
	end, n, err := c.headerEnd(in, l)
	switch {
	case n < 0, err != nil:
		return n, err
	case len(in) < l.whole:
		return len(in) - l.whole, nil
	}
	if err := c.readHeader(in, l, end); err != nil {
		return 0, err
	}
	return l.whole, c.payload(in, end)
}

// headerEnd returns the index of the first byte behind a header. n < 0 says that it needs so many more bytes.
func (c *Codec) headerEnd(in []byte, l layout) (end, n int, err error) {
	from := l.magic + fixedHeader
	switch {
	case l.whole < from:
		return 0, 0, refuse(0, ErrMalformed, "the frame has %d bytes, its header at least %d", l.whole, from)
	case len(in) < from:
		return 0, len(in) - from, nil
	}
	size := 4 * int(binary.BigEndian.Uint16(in[l.magic+headerSizeAt:]))
	switch {
	case size > c.limits.MaxHeader:
		return 0, 0, refuse(l.magic+headerSizeAt, ErrTooLarge, "the header has %d bytes, at most %d are allowed", size, c.limits.MaxHeader)
	case from+size > l.whole:
		return 0, 0, refuse(l.magic+headerSizeAt, ErrMalformed, "the header has %d bytes, only %d are left in the frame", size, l.whole-from)
	case size < 2:
		return 0, 0, refuse(l.magic+headerSizeAt, ErrMalformed, "the header has no protocol id")
	}
	return from + size, 0, nil
}

// readHeader reads a header that is complete and ends at an index.
func (c *Codec) readHeader(in []byte, l layout, end int) error {
	f := &c.frame
	f.Dialect = l.dialect
	f.Flags = binary.BigEndian.Uint16(in[l.magic+flagsAt:])
	f.HeaderSequence = int32(binary.BigEndian.Uint32(in[l.magic+sequenceAt:]))
	f.Sequence = f.HeaderSequence
	from := l.magic + fixedHeader
	r := reader{in: in[from:end], base: from}
	if l.dialect.Framing == THeader {
		c.readTHeader(&r)
	} else {
		c.readTTHeader(&r)
	}
	return r.err
}

// payload reads what follows a header.
func (c *Codec) payload(in []byte, at int) error {
	r := reader{in: in[at:len(in):len(in)], base: at}
	if transforms := c.frame.Transforms; len(transforms) > 0 && r.left() > 0 {
		message, err := c.undo(r.in, at)
		if err != nil {
			return err
		}
		r = reader{in: message, inflated: true}
	}
	return c.headedMessage(&r)
}

// headedMessage reads the message behind a header.
func (c *Codec) headedMessage(r *reader) error {
	if c.frame.Dialect.Framing == TTHeader {
		return c.ttheaderMessage(r)
	}
	if p := c.frame.Dialect.Protocol; r.left() < 2 || messageProtocol(r.in[0], r.in[1]) != p {
		r.fail(0, ErrMalformed, "no message in the %v protocol, which the header declares", p)
		return r.err
	}
	return c.message(r)
}

// message reads an envelope and the body after it.
func (c *Codec) message(r *reader) error {
	c.checkSize(r)
	c.frame.readEnvelope(r, c.limits.MaxMethod)
	c.frame.Body = r.bytes(r.left(), "the body")
	return r.err
}

// checkSize checks the size of a message.
func (c *Codec) checkSize(r *reader) {
	if size := r.left() + r.missing; size > c.limits.MaxBody {
		r.fail(r.at, ErrTooLarge, "the message has %d bytes, at most %d are allowed", size, c.limits.MaxBody)
	}
}

// ttheaderMessage reads the message of a TTHeader frame, which says itself what it is if its protocol has an envelope.
func (c *Codec) ttheaderMessage(r *reader) error {
	f := &c.frame
	if f.Flags&FlagStreaming != 0 || f.Dialect.Protocol != 0 {
		return c.bare(r)
	}
	if r.left()+r.missing == 0 && f.HeaderSequence == 0 {
		f.Kind, f.Dialect.Protocol, f.Body = Control, Bare, r.in
		return nil
	}
	if r.left() >= 6 {
		if p := messageProtocol(r.in[4], r.in[5]); p != 0 && messageProtocol(r.in[0], r.in[1]) == 0 {
			f.Dialect.Wrapped = true
			length := r.uint32("the length of the message")
			if size := r.left() + r.missing; int64(length) != int64(size) {
				r.fail(0, ErrMalformed, "a length of %d before a message of %d bytes", length, size)
			}
		}
	}
	if r.left() >= 2 {
		f.Dialect.Protocol = messageProtocol(r.in[r.at], r.in[r.at+1])
	}
	if p := f.Dialect.Protocol; p == 0 || p == Protobuf && !f.Dialect.Wrapped {
		r.fail(r.at, ErrMalformed, "no message after the header")
		return r.err
	}
	if err := c.message(r); err != nil {
		return err
	}
	if f.Kind == Reply && f.HeaderSequence == 0 && f.Sequence == 0 {
		f.Kind = Control
	}
	return nil
}

// bare reads a message without envelope. The header has its kind and its method.
func (c *Codec) bare(r *reader) error {
	f := &c.frame
	c.checkSize(r)
	f.Body = r.bytes(r.left(), "the body")
	f.Method = f.Int(KeyMethod)
	streaming := f.Flags&FlagStreaming != 0
	switch p := f.Dialect.Protocol; {
	case p.hasEnvelope() || p == 0:
		r.fail(0, ErrUnsupported, "a frame of a stream with the protocol id %#x", f.ProtocolID)
	case streaming:
		f.Kind = Stream
	case p != Bare:
		r.fail(0, ErrMalformed, "the protocol id %#x without the flag of streams", f.ProtocolID)
	case f.HeaderSequence == 0:
		f.Kind, f.Method = Control, nil
	default:
		kind := f.Int(KeyKind)
		if len(kind) != 1 || kind[0] < '0'+byte(Call) || kind[0] > '0'+byte(OneWay) {
			r.fail(0, ErrMalformed, "the header gives %q as the kind, from %d to %d are allowed", kind, Call, OneWay)
			break
		}
		f.Kind = Kind(kind[0] - '0')
		if len(f.Method) > c.limits.MaxMethod {
			r.fail(0, ErrTooLarge, "the method has %d bytes, at most %d are allowed", len(f.Method), c.limits.MaxMethod)
		}
		rest := f.Ints[:0]
		for _, p := range f.Ints {
			if p.Key != KeyMethod && p.Key != KeyKind {
				rest = append(rest, p)
			}
		}
		clear(f.Ints[len(rest):])
		f.Ints = rest
	}
	return r.err
}

// unframed goes on with a message that has no length.
func (c *Codec) unframed(in []byte) (n int, err error) {
	protocol := c.frame.Dialect.Protocol
	if c.envelope == 0 {
		missing, size, err := envelopeSize(in, protocol, c.limits.MaxMethod)
		if missing > 0 || err != nil {
			return -missing, err
		}
		c.envelope = size
		c.walker.start(size, protocol == Compact)
	}
	missing, err := c.walker.walk(in)
	if missing > 0 || err != nil {
		return -missing, err
	}
	c.walking = false
	n = c.walker.at
	r := reader{in: in[:n:n]}
	return n, c.message(&r)
}
