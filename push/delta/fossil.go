package delta

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"slices"
)

// maxFossil is the largest number in a Fossil delta: the SDKs use 32 bits.
const maxFossil = 1<<32 - 1

// fossilDigits are the digits of a number, by value (section 3.0).
const fossilDigits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz~"

// notDigit is the value of bytes that are not digits.
const notDigit = 64

// fossilValues are the values of digits, by byte.
var fossilValues = func() (values [256]byte) {
	for i := range values {
		values[i] = notDigit
	}
	for i := range len(fossilDigits) {
		values[fossilDigits[i]] = byte(i)
	}
	return values
}()

// digits returns how many digits n has.
func digits(n uint32) int { return (bits.Len32(n|1) + 5) / 6 }

// appendNumber appends n and the byte end.
func appendNumber(dst []byte, n uint32, end byte) []byte {
	for d := digits(n) - 1; d >= 0; d-- {
		dst = append(dst, fossilDigits[n>>(6*d)&63])
	}
	return append(dst, end)
}

// checksum returns the sum of b as 32-bit words in big-endian order, the last one filled with zeros (section 2.2).
func checksum(b []byte) uint32 {
	var sum uint32
	for ; len(b) >= 8; b = b[8:] {
		two := binary.BigEndian.Uint64(b)
		sum += uint32(two>>32) + uint32(two)
	}
	var rest [8]byte
	copy(rest[:], b)
	two := binary.BigEndian.Uint64(rest[:])
	return sum + uint32(two>>32) + uint32(two)
}

// ApplyFossil applies delta to from: it appends the new value to dst, and returns the extended slice. If the delta's header states a value of
// more than limit bytes, the error is [ErrTooLarge] at once. The limit matters for deltas from untrusted sources, because a few bytes of delta
// can copy all of from a thousand times.
//
// The delta may come from any source: each length is checked before it is used, at most limit bytes are allocated, and the checksum is verified.
// Input with a wrong format is a [*FormatError]. A segment outside from and a wrong checksum are [ErrOtherBase]. After an error dst is returned
// unchanged, but bytes behind its length may have been written.
//
// The result does not share memory with from or delta, which are only read; dst must not overlap them. Any number of calls may run at the same
// time.
func ApplyFossil(dst, from, delta []byte, limit int) ([]byte, error) {
	out, err := applyFossil(dst, from, fossilReader{text: delta}, max(limit, 0))
	if err != nil {
		return dst, fmt.Errorf("delta: apply Fossil delta: %w", err)
	}
	return out, nil
}

func applyFossil(dst, from []byte, r fossilReader, limit int) ([]byte, error) {
	size, err := r.size()
	if err != nil {
		return nil, err
	}
	if uint64(size) > uint64(limit) {
		return nil, fmt.Errorf("%w: it has %d bytes, %d are allowed", ErrTooLarge, size, limit)
	}
	start := len(dst)
	end := start + int(size)
	dst = slices.Grow(dst, int(size))
	for {
		at := r.pos
		count, err := r.number()
		if err != nil {
			return nil, err
		}
		switch op := r.next(); op {
		case '@', ':':
			if room := end - len(dst); uint64(count) > uint64(room) {
				return nil, r.wrong(at, "a segment of %d bytes where %d are left of the size", count, room)
			}
			part, err := r.segment(op, count, from)
			if err != nil {
				return nil, err
			}
			dst = append(dst, part...)
		case ';':
			return dst, r.finish(dst[start:], int(size), count)
		default:
			return nil, r.wrong(r.pos, "no '@', ':' or ';' behind a number")
		}
	}
}

// fossilReader reads the parts of a delta.
type fossilReader struct {
	text []byte
	pos  int
}

// wrong returns an error at position at.
func (r *fossilReader) wrong(at int, format string, args ...any) error {
	return &FormatError{Offset: min(at, len(r.text)), Reason: fmt.Sprintf(format, args...)}
}

// next returns the next byte. At the end of the text it returns 0.
func (r *fossilReader) next() byte {
	if r.pos == len(r.text) {
		return 0
	}
	r.pos++
	return r.text[r.pos-1]
}

// number reads at least one digit and all that follow. Leading zeros are allowed.
func (r *fossilReader) number() (uint32, error) {
	start := r.pos
	var n uint64
	for ; r.pos < len(r.text); r.pos++ {
		v := fossilValues[r.text[r.pos]]
		if v == notDigit {
			break
		}
		if n = n<<6 | uint64(v); n > maxFossil {
			return 0, r.wrong(start, "a number of more than 32 bits")
		}
	}
	if r.pos == start {
		return 0, r.wrong(start, "no number")
	}
	return uint32(n), nil
}

// size reads the header.
func (r *fossilReader) size() (uint32, error) {
	n, err := r.number()
	if err == nil && r.next() != '\n' {
		err = r.wrong(r.pos, "the size does not end with a line")
	}
	return n, err
}

// copied reads the end of a copy and returns its part of from.
func (r *fossilReader) copied(count uint32, from []byte) ([]byte, error) {
	offset, err := r.number()
	if err != nil {
		return nil, err
	}
	if r.next() != ',' {
		return nil, r.wrong(r.pos, "no ',' behind the offset of a copy")
	}
	end := uint64(offset) + uint64(count)
	if end > uint64(len(from)) {
		return nil, fmt.Errorf("%w: it copies bytes %d to %d of one that has %d", ErrOtherBase, offset, end, len(from))
	}
	return from[offset:end], nil
}

// segment returns the bytes of a segment whose number and operator have been read.
func (r *fossilReader) segment(op byte, count uint32, from []byte) ([]byte, error) {
	if op == '@' {
		return r.copied(count, from)
	}
	at := r.pos
	if left := len(r.text) - at; uint64(count) > uint64(left) {
		return nil, r.wrong(at, "a literal of %d bytes where %d are left of the delta", count, left)
	}
	r.pos += int(count)
	return r.text[at:r.pos], nil
}

// finish checks the new value against the delta's size and checksum.
func (r *fossilReader) finish(made []byte, size int, sum uint32) error {
	switch {
	case r.pos < len(r.text):
		return r.wrong(r.pos, "bytes behind the checksum")
	case len(made) < size:
		return r.wrong(r.pos, "the end after %d bytes of %d", len(made), size)
	case checksum(made) != sum:
		return fmt.Errorf("%w: the checksum is %d instead of %d", ErrOtherBase, checksum(made), sum)
	}
	return nil
}
