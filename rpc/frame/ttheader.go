package frame

import (
	"bytes"
	"encoding/binary"
	"math"
)

// Info blocks of a TTHeader header, besides infoPairs.
const (
	infoPadding = 0x00
	infoInts    = 0x10
	infoToken   = 0x11
)

// readTTHeader reads the part of a TTHeader header that the header size counts.
func (c *Codec) readTTHeader(r *reader) {
	f := &c.frame
	f.ProtocolID = r.byte("the protocol id")
	switch f.ProtocolID {
	case idBinary, idCompact, idCompactV2, idProtobuf:
		// The message says which it is: Kitex gives Protobuf the id of binary.
	case idThriftStruct:
		f.Dialect.Protocol = ThriftStruct
	case idProtobufStruct:
		f.Dialect.Protocol = ProtobufStruct
	case idBare:
		f.Dialect.Protocol = Bare
	default:
		r.fail(0, ErrUnsupported, "protocol id %#x", f.ProtocolID)
	}
	at := r.at
	count := r.byte("the number of transforms")
	if count > maxTransforms {
		r.fail(at, ErrTooLarge, "%d transforms, at most %d are allowed", count, maxTransforms)
	}
	for range count {
		at = r.at
		c.transform(r, at, uint32(r.byte("a transform")))
	}
	for r.err == nil && r.left() > 0 {
		at = r.at
		switch info := r.byte("an info id"); info {
		case infoPadding:
		case infoPairs:
			c.readPairs(r)
		case infoInts:
			c.readInts(r)
		case infoToken:
			f.Token = r.string16(c.limits.MaxPair, "the token")
		default:
			r.fail(at, ErrMalformed, "the unknown info id %#x", info)
		}
	}
}

// readPairs reads a block of string keys and values.
func (c *Codec) readPairs(r *reader) {
	at := r.at
	count := r.uint16("the number of pairs")
	c.countPairs(r, at, uint32(count))
	for range count {
		if r.err != nil {
			return
		}
		key := r.string16(c.limits.MaxPair, "a key")
		value := r.string16(c.limits.MaxPair, "a value")
		short, persistent := bytes.CutPrefix(key, []byte(persistPrefix))
		c.frame.Pairs = append(c.frame.Pairs, Pair{Key: short, Value: value, Persistent: persistent})
	}
}

// readInts reads a block of integer keys and their values.
func (c *Codec) readInts(r *reader) {
	at := r.at
	count := r.uint16("the number of pairs")
	c.countPairs(r, at, uint32(count))
	for range count {
		if r.err != nil {
			return
		}
		key := r.uint16("a key")
		c.frame.Ints = append(c.frame.Ints, IntPair{Key: key, Value: r.string16(c.limits.MaxPair, "a value")})
	}
}

// appendTTHeader appends the part of a TTHeader header that the header size counts, but for the padding. The order of the blocks is that of
// cloudwego/gopkg.
func (f *Frame) appendTTHeader(dst []byte) ([]byte, error) {
	id := f.ProtocolID
	switch f.Dialect.Protocol {
	case ThriftStruct:
		id = idThriftStruct
	case ProtobufStruct:
		id = idProtobufStruct
	case Bare:
		id = idBare
	}
	dst = append(dst, id, byte(len(f.Transforms)))
	for _, t := range f.Transforms {
		dst = append(dst, byte(t))
	}
	if f.Token != nil {
		dst = appendString16(append(dst, infoToken), f.Token)
	}
	if len(f.Pairs) > 0 {
		dst = binary.BigEndian.AppendUint16(append(dst, infoPairs), uint16(len(f.Pairs)))
		for i := range f.Pairs {
			p := &f.Pairs[i]
			if p.Persistent {
				dst = binary.BigEndian.AppendUint16(dst, uint16(len(persistPrefix)+len(p.Key)))
				dst = append(dst, persistPrefix...)
				dst = append(dst, p.Key...)
			} else {
				dst = appendString16(dst, p.Key)
			}
			dst = appendString16(dst, p.Value)
		}
	}
	return f.appendInts(dst), f.checkTTHeader()
}

// appendInts appends the block of integer keys. The method and the kind of a bare frame are two of them.
func (f *Frame) appendInts(dst []byte) []byte {
	bare := f.isBareCall()
	if len(f.Ints) == 0 && !bare {
		return dst
	}
	dst = append(dst, infoInts, 0, 0)
	count := len(dst) - 2
	binary.BigEndian.PutUint16(dst[count:], uint16(len(f.Ints)))
	for i := range f.Ints {
		dst = binary.BigEndian.AppendUint16(dst, f.Ints[i].Key)
		dst = appendString16(dst, f.Ints[i].Value)
	}
	if bare {
		binary.BigEndian.PutUint16(dst[count:], uint16(len(f.Ints)+1))
		dst = binary.BigEndian.AppendUint16(dst, KeyKind)
		dst = append(dst, 0, 1, '0'+byte(f.Kind))
		if len(f.Method) > 0 {
			binary.BigEndian.PutUint16(dst[count:], uint16(len(f.Ints)+2))
			dst = appendString16(binary.BigEndian.AppendUint16(dst, KeyMethod), f.Method)
		}
	}
	return dst
}

// isBareCall reports whether integer keys have the kind and the method of the frame.
func (f *Frame) isBareCall() bool {
	return f.Dialect.Protocol == Bare && f.Kind != Stream && f.Kind != Control
}

// checkTTHeader returns an error if a length or a number does not fit into its field of two bytes, or if a bare frame has its method twice.
func (f *Frame) checkTTHeader() error {
	most := max(len(f.Pairs), len(f.Ints)+2, len(f.Token))
	for i := range f.Pairs {
		key := len(f.Pairs[i].Key)
		if f.Pairs[i].Persistent {
			key += len(persistPrefix)
		}
		most = max(most, key, len(f.Pairs[i].Value))
	}
	for i := range f.Ints {
		most = max(most, len(f.Ints[i].Value))
		if key := f.Ints[i].Key; f.isBareCall() && (key == KeyKind || key == KeyMethod) {
			return refuse(-1, ErrUnsupported, "the integer key %d in a bare frame: set Kind and Method", key)
		}
	}
	if f.isBareCall() {
		most = max(most, len(f.Method))
	}
	if most > math.MaxUint16 {
		return refuse(-1, ErrTooLarge, "a length or a number of %d in the header, at most %d are allowed", most, math.MaxUint16)
	}
	return nil
}

// appendString16 appends bytes preceded by their length in two bytes.
func appendString16(dst, s []byte) []byte {
	dst = binary.BigEndian.AppendUint16(dst, uint16(len(s)))
	return append(dst, s...)
}
