package frame

import "encoding/binary"

// AppendEncode appends the frame with a body to dst, as it goes over the wire. f.Body is not looked at; see [Frame.Append]. It fails with
// [ErrUnsupported] if the dialect cannot express what is in the frame, and with [ErrTooLarge] if a size exceeds what the format can express; dst is
// then returned as it was. It allocates nothing but room in dst, unless the frame is compressed. It does not change f, and keeps nothing of body.
//
// A Frame is an encoder of package session: Session.SendAs(frame, body) sends it. [Plain] saves the copy of a large body.
func (f *Frame) AppendEncode(dst, body []byte) ([]byte, error) {
	if err := f.check(); err != nil {
		return dst, err
	}
	out, err := f.append(dst, body)
	if err != nil {
		return dst, err
	}
	return out, nil
}

// Append is [Frame.AppendEncode] with f.Body as the body.
func (f *Frame) Append(dst []byte) ([]byte, error) { return f.AppendEncode(dst, f.Body) }

// check returns an error if the dialect cannot express the frame.
func (f *Frame) check() error {
	d := f.Dialect
	unsupported := func(what string) error {
		return refuse(-1, ErrUnsupported, "%s in a frame of the dialect %v", what, d)
	}
	switch {
	case d.Framing < THeader || d.Framing > Unframed || d.Protocol < Binary || d.Protocol > Bare:
		return unsupported("anything")
	case !d.Protocol.hasEnvelope() && d.Framing != TTHeader,
		d.Protocol == Protobuf && (d.Framing == THeader || d.Framing == Unframed):
		return unsupported("a message of this protocol")
	case d.Wrapped && !(d.Framing == THeader || d.Framing == TTHeader && d.Protocol.hasEnvelope()):
		return unsupported("another length")
	case !d.Wrapped && d.Framing == TTHeader && d.Protocol == Protobuf:
		return unsupported("a message without its own length")
	case !d.Framing.HasHeader() && (len(f.Pairs) > 0 || len(f.Ints) > 0 || f.Token != nil || len(f.Transforms) > 0 || f.Flags != 0):
		return unsupported("a header")
	}
	streaming := d.Framing == TTHeader && f.Flags&FlagStreaming != 0
	switch f.Kind {
	case Call, Reply, Exception, OneWay:
		if d.Protocol == ThriftStruct || d.Protocol == ProtobufStruct || streaming {
			return unsupported("a " + f.Kind.String())
		}
	case Control:
		if d.Framing != TTHeader || d.Protocol == ThriftStruct || d.Protocol == ProtobufStruct || streaming {
			return unsupported("a control frame")
		}
		if f.Sequence != 0 || f.HeaderSequence != 0 {
			return refuse(-1, ErrUnsupported, "a control frame with a sequence id")
		}
	case Stream:
		if d.Protocol.hasEnvelope() {
			return unsupported("a part of a stream")
		}
	default:
		return unsupported("a " + f.Kind.String())
	}
	if d.Protocol == Bare && f.Kind != Stream && (f.Sequence == 0) != (f.Kind == Control) {
		return refuse(-1, ErrUnsupported, "a bare %v with the sequence id %d, which is a control frame", f.Kind, f.Sequence)
	}
	return f.checkTransforms()
}

// checkTransforms returns an error if a transform is unknown.
func (f *Frame) checkTransforms() error {
	if len(f.Transforms) > maxTransforms {
		return refuse(-1, ErrTooLarge, "%d transforms, at most %d are allowed", len(f.Transforms), maxTransforms)
	}
	for _, t := range f.Transforms {
		if t != Zlib && !(t == Gzip && f.Dialect.Framing == TTHeader) {
			return refuse(-1, ErrUnsupported, "%v in a frame of the dialect %v", t, f.Dialect)
		}
	}
	return nil
}

// Plain is a [Frame] as an encoder of package session that has large bodies written from where they are, without a copy. It cannot compress: with
// transforms it fails with [ErrUnsupported].
//
//	err := s.SendAs((*frame.Plain)(&reply), body)
type Plain Frame

// AppendEncode is [Frame.AppendEncode].
func (p *Plain) AppendEncode(dst, body []byte) ([]byte, error) {
	dst, err := p.AppendHeader(dst, body)
	if err != nil {
		return dst, err
	}
	return append(dst, body...), nil
}

// AppendHeader appends what precedes the body, whose size is in it.
func (p *Plain) AppendHeader(dst, body []byte) ([]byte, error) {
	f := (*Frame)(p)
	if len(f.Transforms) > 0 {
		return dst, refuse(-1, ErrUnsupported, "a compressed frame cannot be written in two parts")
	}
	if err := f.check(); err != nil {
		return dst, err
	}
	out, err := f.appendPrefix(dst, len(body))
	if err != nil {
		return dst, err
	}
	return out, nil
}

// append implements AppendEncode.
func (f *Frame) append(dst, body []byte) ([]byte, error) {
	if len(f.Transforms) == 0 {
		dst, err := f.appendPrefix(dst, len(body))
		if err != nil {
			return nil, err
		}
		return append(dst, body...), nil
	}
	start := len(dst)
	dst, err := f.appendHead(dst)
	if err != nil {
		return nil, err
	}
	dst = f.appendCompressed(dst, body)
	return dst, f.putLength(dst[start:], 0)
}

// appendPrefix appends what precedes a body of a size that is not compressed.
func (f *Frame) appendPrefix(dst []byte, size int) ([]byte, error) {
	start := len(dst)
	dst, err := f.appendHead(dst)
	if err != nil {
		return nil, err
	}
	dst = f.appendMessagePrefix(dst, size)
	return dst, f.putLength(dst[start:], size)
}

// appendHead appends what precedes the message: room for the lengths, and the header.
func (f *Frame) appendHead(dst []byte) ([]byte, error) {
	if f.Dialect.Framing == Unframed {
		return dst, nil
	}
	dst = append(dst, 0, 0, 0, 0)
	if f.Dialect.Framing == THeader && f.Dialect.Wrapped {
		dst = append(dst, 0, 0, 0, 0)
	}
	if f.Dialect.Framing.HasHeader() {
		return f.appendHeader(dst)
	}
	return dst, nil
}

// putLength writes the lengths at the start of a frame that continues with more bytes.
func (f *Frame) putLength(frame []byte, more int) error {
	length := uint64(len(frame)) + uint64(more) - 4
	switch {
	case length > maxLength:
		return refuse(-1, ErrTooLarge, "the frame has %d bytes after its length, at most %d are allowed", length, maxLength)
	case f.Dialect.Framing == Unframed:
		return nil
	case f.Dialect.Framing == THeader && f.Dialect.Wrapped:
		binary.BigEndian.PutUint32(frame[4:], uint32(length-4))
	}
	binary.BigEndian.PutUint32(frame, uint32(length))
	return nil
}

// appendHeader appends a header, from its magic number to its padding.
func (f *Frame) appendHeader(dst []byte) (out []byte, err error) {
	magic, flags, sequence := uint16(theaderMagic), f.Flags, f.HeaderSequence
	if f.Dialect.Framing == TTHeader {
		magic = ttheaderMagic
	}
	if f.Kind == Stream {
		flags |= FlagStreaming
	}
	if !f.Dialect.Protocol.hasEnvelope() {
		sequence = f.Sequence
	}
	dst = binary.BigEndian.AppendUint16(dst, magic)
	dst = binary.BigEndian.AppendUint16(dst, flags)
	dst = binary.BigEndian.AppendUint32(dst, uint32(sequence))
	dst = append(dst, 0, 0)
	from := len(dst)
	if f.Dialect.Framing == THeader {
		dst, err = f.appendTHeader(dst)
	} else {
		dst, err = f.appendTTHeader(dst)
	}
	if err != nil {
		return nil, err
	}
	for (len(dst)-from)%4 != 0 {
		dst = append(dst, 0)
	}
	words := (len(dst) - from) / 4
	if words > maxHeaderWords {
		return nil, refuse(-1, ErrTooLarge, "the header has %d bytes, at most %d are allowed", len(dst)-from, maxHeader)
	}
	binary.BigEndian.PutUint16(dst[from-2:], uint16(words))
	return dst, nil
}

// appendMessage appends a message that is not compressed yet.
func (f *Frame) appendMessage(dst, body []byte) []byte {
	return append(f.appendMessagePrefix(dst, len(body)), body...)
}

// appendMessagePrefix appends what precedes a body of a size in its message: the envelope, if the protocol has one.
func (f *Frame) appendMessagePrefix(dst []byte, size int) []byte {
	wrapped := f.Dialect.Framing == TTHeader && f.Dialect.Wrapped
	start := len(dst)
	if wrapped {
		dst = append(dst, 0, 0, 0, 0)
	}
	kind := f.Kind
	if kind == Control {
		kind = Reply
	}
	dst = f.appendEnvelope(dst, kind, f.Sequence)
	if wrapped {
		binary.BigEndian.PutUint32(dst[start:], uint32(len(dst)-start-4+size))
	}
	return dst
}
