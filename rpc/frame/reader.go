package frame

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// reader reads the parts of a complete header or message one after the other. After the first error it returns zeros.
type reader struct {
	in   []byte
	at   int // the next byte
	base int // the offset of in[0] in the frame
	err  error
	// inflated says that in is a decompressed message.
	inflated bool
	// missing is how many bytes of the body have not arrived. Only DecodeHead reads messages without them.
	missing int
}

// fail keeps the first error, about the byte at an index of in.
func (r *reader) fail(at int, err error, format string, args ...any) {
	if r.err == nil {
		r.err = &Error{Offset: r.base + at, Inflated: r.inflated, Err: err, Reason: fmt.Sprintf(format, args...)}
	}
}

// left returns how many bytes have not been read.
func (r *reader) left() int { return len(r.in) - r.at }

// bytes reads n bytes, which the caller has limited. They share memory with in and are not nil.
func (r *reader) bytes(n int, what string) []byte {
	if r.err == nil && n > r.left() {
		r.fail(r.at, ErrMalformed, "%s has %d bytes, only %d are left", what, n, r.left())
	}
	if r.err != nil {
		return nil
	}
	from := r.at
	r.at += n
	return r.in[from:r.at:r.at]
}

// byte reads one byte.
func (r *reader) byte(what string) byte {
	if b := r.bytes(1, what); b != nil {
		return b[0]
	}
	return 0
}

// uint16 reads an integer of two bytes.
func (r *reader) uint16(what string) uint16 {
	if b := r.bytes(2, what); b != nil {
		return binary.BigEndian.Uint16(b)
	}
	return 0
}

// uint32 reads an integer of four bytes.
func (r *reader) uint32(what string) uint32 {
	if b := r.bytes(4, what); b != nil {
		return binary.BigEndian.Uint32(b)
	}
	return 0
}

// varint reads a varint of 32 bits.
func (r *reader) varint(what string) uint32 {
	if r.err != nil {
		return 0
	}
	v, n, err := varint(r.in[min(r.at, len(r.in)):])
	switch {
	case err != nil:
		r.fail(r.at, ErrMalformed, "%s is a varint of more than 32 bits", what)
		return 0
	case n <= 0:
		r.fail(r.at, ErrMalformed, "%s is a varint without an end", what)
		return 0
	}
	r.at += n
	return v
}

// length checks a declared length against a limit.
func (r *reader) length(at int, n uint32, most int, what string) int {
	if r.err == nil && uint64(n) > uint64(most) {
		r.fail(at, ErrTooLarge, "%s has %d bytes, at most %d are allowed", what, n, most)
	}
	if r.err != nil {
		return 0
	}
	return int(n)
}

// string16 reads bytes preceded by their length in two bytes.
func (r *reader) string16(most int, what string) []byte {
	at := r.at
	return r.bytes(r.length(at, uint32(r.uint16(what)), most, what), what)
}

// string32 reads bytes preceded by their length in four bytes.
func (r *reader) string32(most int, what string) []byte {
	at := r.at
	return r.bytes(r.length(at, r.uint32(what), most, what), what)
}

// stringVarint reads bytes preceded by their length as a varint.
func (r *reader) stringVarint(most int, what string) []byte {
	at := r.at
	return r.bytes(r.length(at, r.varint(what), most, what), what)
}

// errVarint says that a varint has more than 32 bits.
var errVarint = errors.New("varint has more than 32 bits")

// varint reads an unsigned varint of 32 bits at the start of in: 7 bits a byte, the least significant first. It returns 0 bytes if the end is
// missing.
func varint(in []byte) (v uint32, n int, err error) {
	for i, b := range in {
		if i == 4 && b > 0x0F {
			return 0, 0, errVarint
		}
		v |= uint32(b&0x7F) << (7 * i)
		if b < 0x80 {
			return v, i + 1, nil
		}
	}
	return 0, 0, nil
}
