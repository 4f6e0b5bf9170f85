package wire

import (
	"encoding/binary"
	"slices"
)

// appendBytes appends bytes with their number before them.
func appendBytes[T string | []byte](dst []byte, b T) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(b))), b...)
}

// reader reads fields from bytes that a peer has sent. After a field that does not fit, isBad is set, and all further fields are zero.
type reader struct {
	rest  []byte
	isBad bool
}

// fail marks what is read as bad.
func (r *reader) fail() { r.rest, r.isBad = nil, true }

func (r *reader) octet() byte {
	if len(r.rest) == 0 {
		r.fail()
		return 0
	}
	b := r.rest[0]
	r.rest = r.rest[1:]
	return b
}

func (r *reader) uvarint() uint64 {
	if len(r.rest) > 0 && r.rest[0] < 0x80 { // most are lengths of a byte
		v := r.rest[0]
		r.rest = r.rest[1:]
		return uint64(v)
	}
	v, n := binary.Uvarint(r.rest)
	if n <= 0 {
		r.fail()
		return 0
	}
	r.rest = r.rest[n:]
	return v
}

func (r *reader) varint() int64 {
	v, n := binary.Varint(r.rest)
	if n <= 0 {
		r.fail()
		return 0
	}
	r.rest = r.rest[n:]
	return v
}

// bytes returns bytes that belong to what is read.
func (r *reader) bytes() []byte {
	n := r.uvarint()
	if n > uint64(len(r.rest)) {
		r.fail()
		return nil
	}
	b := r.rest[:n:n]
	r.rest = r.rest[n:]
	return b
}

// owned returns a copy of bytes, nil if there are none.
func (r *reader) owned() []byte {
	if b := r.bytes(); len(b) > 0 {
		return slices.Clone(b)
	}
	return nil
}

// count returns a number of items, each of which takes at least so many bytes. So a peer that sends little cannot have much allocated.
func (r *reader) count(each int) int {
	n := r.uvarint()
	if n > uint64(len(r.rest)/each) { //nolint:gosec // each is positive
		r.fail()
		return 0
	}
	return int(n) //nolint:gosec // checked
}

// sized returns a reader for a message, which has its size before it.
func (r *reader) sized() reader {
	if len(r.rest) < sizeBytes {
		r.fail()
		return reader{isBad: true}
	}
	n := binary.LittleEndian.Uint32(r.rest)
	r.rest = r.rest[sizeBytes:]
	if uint64(n) > uint64(len(r.rest)) {
		r.fail()
		return reader{isBad: true}
	}
	one := reader{rest: r.rest[:n:n]}
	r.rest = r.rest[n:]
	return one
}
