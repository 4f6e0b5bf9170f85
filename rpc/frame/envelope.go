package frame

import "encoding/binary"

// The first two bytes of a message in the binary protocol and in the envelope of Kitex, and the first of one in the compact protocol, whose second
// byte has the version in its lower five bits.
const (
	binaryMagic      = 0x8001
	protobufMagic    = 0x9001
	compactMagic     = 0x82
	compactVersion   = 1
	compactVersions  = 0x1F
	compactKindShift = 5
)

// messageProtocol returns the protocol of a message that begins with two bytes, zero if it is none of those with an envelope.
func messageProtocol(first, second byte) Protocol {
	switch {
	case first == binaryMagic>>8 && second == binaryMagic&0xFF:
		return Binary
	case first == protobufMagic>>8 && second == protobufMagic&0xFF:
		return Protobuf
	case first == compactMagic && second&compactVersions == compactVersion:
		return Compact
	}
	return 0
}

// readEnvelope reads the envelope of a message into kind, method and sequence of f.
func (f *Frame) readEnvelope(r *reader, maxMethod int) {
	at := r.at
	switch f.Dialect.Protocol {
	case Compact:
		r.byte("the envelope")
		f.Kind = Kind(r.byte("the envelope") >> compactKindShift)
		f.Sequence = int32(r.varint("the sequence id"))
		f.Method = r.stringVarint(maxMethod, "the method")
	case Binary, Protobuf:
		f.Kind = Kind(min(r.uint32("the envelope")&0xFFFF, 0xFF))
		f.Method = r.string32(maxMethod, "the method")
		f.Sequence = int32(r.uint32("the sequence id"))
	}
	if f.Kind < Call || f.Kind > OneWay {
		r.fail(at, ErrMalformed, "a message of the unknown kind %d", f.Kind)
	}
}

// appendEnvelope appends the envelope of a message.
func (f *Frame) appendEnvelope(dst []byte, kind Kind, sequence int32) []byte {
	switch f.Dialect.Protocol {
	case Compact:
		dst = append(dst, compactMagic, compactVersion|byte(kind)<<compactKindShift)
		dst = binary.AppendUvarint(dst, uint64(uint32(sequence)))
		dst = binary.AppendUvarint(dst, uint64(len(f.Method)))
		return append(dst, f.Method...)
	case Binary:
		dst = binary.BigEndian.AppendUint32(dst, binaryMagic<<16|uint32(kind))
	case Protobuf:
		dst = binary.BigEndian.AppendUint32(dst, protobufMagic<<16|uint32(kind))
	default:
		return dst
	}
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(f.Method)))
	dst = append(dst, f.Method...)
	return binary.BigEndian.AppendUint32(dst, uint32(sequence))
}

// envelopeSize returns how many bytes of a message have to arrive before its envelope can be read, at least: the number grows as lengths
// become known. It returns 0 if the envelope is complete.
func envelopeSize(in []byte, protocol Protocol, maxMethod int) (missing, size int, err error) {
	if protocol != Compact {
		if len(in) < 8 {
			return 8 - len(in), 0, nil
		}
		length := binary.BigEndian.Uint32(in[4:])
		if uint64(length) > uint64(maxMethod) {
			return 0, 0, refuse(4, ErrTooLarge, "the method has %d bytes, at most %d are allowed", length, maxMethod)
		}
		size = 12 + int(length)
		return max(size-len(in), 0), size, nil
	}
	size = 2
	for _, what := range [...]string{"the sequence id", "the method"} {
		value, n, err := varint(in[min(size, len(in)):])
		switch {
		case err != nil:
			return 0, 0, refuse(size, ErrMalformed, "%s is a varint of more than 32 bits", what)
		case n == 0:
			return 1, 0, nil
		case what == "the method" && uint64(value) > uint64(maxMethod):
			return 0, 0, refuse(size, ErrTooLarge, "the method has %d bytes, at most %d are allowed", value, maxMethod)
		case what == "the method":
			size += int(value)
		}
		size += n
	}
	return max(size-len(in), 0), size, nil
}
