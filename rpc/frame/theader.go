package frame

import "encoding/binary"

// Info blocks of a THeader header. The first is Apache's, the second is that of fbthrift.
const (
	infoPairs      = 1
	infoPersistent = 2
)

// Protocol ids of headers. Those of THeader are varints, those of TTHeader single bytes.
const (
	idBinary         = 0x00
	idCompact        = 0x02
	idCompactV2      = 0x03 // TTHeader: accepted by Kitex; its versions up to 1.9.1 gave it to Protobuf
	idProtobuf       = 0x04 // TTHeader: accepted by Kitex, which itself writes idBinary
	idThriftStruct   = 0x10
	idProtobufStruct = 0x11
	idBare           = 0x20 // of this package
)

// readTHeader reads the part of a THeader header that the header size counts.
func (c *Codec) readTHeader(r *reader) {
	f := &c.frame
	at := r.at
	id := r.varint("the protocol id")
	f.ProtocolID = uint8(id)
	switch {
	case r.err != nil:
	case id == idBinary:
		f.Dialect.Protocol = Binary
	case id == idCompact:
		f.Dialect.Protocol = Compact
	default:
		r.fail(at, ErrUnsupported, "protocol id %d: binary is %d, compact %d", id, idBinary, idCompact)
	}
	at = r.at
	count := r.varint("the number of transforms")
	if count > maxTransforms {
		r.fail(at, ErrTooLarge, "%d transforms, at most %d are allowed", count, maxTransforms)
	}
	for range count {
		if r.err != nil {
			return
		}
		at = r.at
		c.transform(r, at, r.varint("a transform"))
	}
	for r.err == nil && r.left() > 0 {
		info := r.varint("an info id")
		if info != infoPairs && info != infoPersistent {
			return // padding, or something newer: Apache's format says that the rest may be ignored
		}
		at = r.at
		count := r.varint("the number of pairs")
		c.countPairs(r, at, count)
		for range count {
			if r.err != nil {
				return
			}
			key := r.stringVarint(c.limits.MaxPair, "a key")
			value := r.stringVarint(c.limits.MaxPair, "a value")
			f.Pairs = append(f.Pairs, Pair{Key: key, Value: value, Persistent: info == infoPersistent})
		}
	}
}

// countPairs checks the number of pairs in a block, at an index of the header, together with the blocks before it.
func (c *Codec) countPairs(r *reader, at int, count uint32) {
	if sum := uint64(count) + uint64(len(c.frame.Pairs)+len(c.frame.Ints)); sum > uint64(c.limits.MaxPairs) {
		r.fail(at, ErrTooLarge, "%d pairs, at most %d are allowed", sum, c.limits.MaxPairs)
	}
}

// transform adds a transform that was read at an index of the header.
func (c *Codec) transform(r *reader, at int, id uint32) {
	switch {
	case r.err != nil:
	case id == uint32(Zlib), id == uint32(Gzip) && c.frame.Dialect.Framing == TTHeader:
		c.frame.Transforms = append(c.frame.Transforms, Transform(id))
	default:
		r.fail(at, ErrUnsupported, "transform %d", id)
	}
}

// appendTHeader appends the part of a THeader header that the header size counts, but for the padding.
func (f *Frame) appendTHeader(dst []byte) ([]byte, error) {
	if len(f.Ints) > 0 || f.Token != nil {
		return dst, refuse(-1, ErrUnsupported, "THeader has no integer keys and no token")
	}
	id := byte(idBinary)
	if f.Dialect.Protocol == Compact {
		id = idCompact
	}
	dst = append(dst, id)
	dst = binary.AppendUvarint(dst, uint64(len(f.Transforms)))
	for _, t := range f.Transforms {
		dst = append(dst, byte(t))
	}
	persistent := 0
	for i := range f.Pairs {
		if f.Pairs[i].Persistent {
			persistent++
		}
	}
	dst = f.appendTHeaderPairs(dst, infoPairs, len(f.Pairs)-persistent)
	return f.appendTHeaderPairs(dst, infoPersistent, persistent), nil
}

// appendTHeaderPairs appends the block of persistent pairs or the block of the other pairs, unless it is empty.
func (f *Frame) appendTHeaderPairs(dst []byte, info byte, count int) []byte {
	if count == 0 {
		return dst
	}
	dst = append(dst, info)
	dst = binary.AppendUvarint(dst, uint64(count))
	for i := range f.Pairs {
		p := &f.Pairs[i]
		if p.Persistent == (info == infoPersistent) {
			dst = binary.AppendUvarint(dst, uint64(len(p.Key)))
			dst = append(dst, p.Key...)
			dst = binary.AppendUvarint(dst, uint64(len(p.Value)))
			dst = append(dst, p.Value...)
		}
	}
	return dst
}
