package codec

import "fmt"

// Length frames each message with its length before it. The zero value writes 4 bytes, most significant byte first, and allows
// [DefaultMax]. Length counts the message only, not itself. All methods may be called concurrently.
type Length struct {
	// Bytes is the size of the length field: 1, 2, 4 or 8; zero means 4. Any other size makes every call panic.
	Bytes int
	// Little puts the least significant byte first (little endian).
	Little bool
	// Max is the largest message in bytes, in both directions: zero means [DefaultMax], negative no limit but that of the
	// length field and of the platform's int.
	Max int
}

// Decode returns the first message in in, as the package comment says. It fails with [ErrTooLarge] as soon as the length field
// is complete, before any of the message has to be there.
func (c Length) Decode(in []byte) (msg []byte, n int, err error) {
	head := c.size()
	if len(in) < head {
		return nil, len(in) - head, nil
	}
	size := c.get(in[:head])
	if size > c.most() {
		return nil, 0, fmt.Errorf("%w: %d bytes are declared, at most %d are allowed", ErrTooLarge, size, c.most())
	}
	whole := head + int(size)
	if len(in) < whole {
		return nil, len(in) - whole, nil
	}
	return in[head:whole:whole], whole, nil
}

// AppendEncode appends the length of msg and msg to dst. It fails with [ErrTooLarge].
func (c Length) AppendEncode(dst, msg []byte) ([]byte, error) {
	head := c.size()
	if uint64(len(msg)) > c.most() {
		return dst, fmt.Errorf("%w: it has %d bytes, at most %d are allowed", ErrTooLarge, len(msg), c.most())
	}
	for i := range head {
		shift := 8 * (head - 1 - i)
		if c.Little {
			shift = 8 * i
		}
		dst = append(dst, byte(uint64(len(msg))>>shift))
	}
	return append(dst, msg...), nil
}

// get reads the length field.
func (c Length) get(field []byte) uint64 {
	var size uint64
	for i := range field {
		b := field[i]
		if c.Little {
			b = field[len(field)-1-i]
		}
		size = size<<8 | uint64(b)
	}
	return size
}

// size is the number of bytes of the length field.
func (c Length) size() int {
	switch c.Bytes {
	case 0:
		return 4
	case 1, 2, 4, 8:
		return c.Bytes
	default:
		panic(fmt.Sprintf("codec: a length field of %d bytes: use 1, 2, 4 or 8", c.Bytes))
	}
}

// most is the largest message that is allowed, such that adding the field's size to it still fits an int.
func (c Length) most() uint64 {
	most := min(limit(c.Max), maxInt-8)
	if size := c.size(); size < 8 {
		most = min(most, 1<<(8*size)-1)
	}
	return most
}
