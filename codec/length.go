package codec

import (
	"encoding/binary"
	"fmt"
)

// Length frames each message with its length before it. The zero value writes 4 bytes, most significant byte first, and allows
// [DefaultMax]. The length counts the message only, not itself, unless Adjust says otherwise. All methods may be called
// concurrently.
//
//	Length{Bytes: 2}                        2 bytes of length, message
//	Length{Adjust: -4}                      4 bytes of length that count themselves as well, message
//	Length{Adjust: -4, Whole: true}         the same on the wire; the message is the whole frame
//	Length{Varint: true}                    length as Protocol Buffers delimit messages, message
//	Length{Offset: 1, Varint: true, Whole: true}   one byte, a varint of what follows: a packet of MQTT
type Length struct {
	// Bytes is the size of the length field: 1, 2, 4 or 8; zero means 4. Any other size makes every call panic.
	Bytes int
	// Varint makes the length field a varint of 1 to 10 bytes: 7 bits a byte, the least significant first (unsigned LEB128,
	// [binary.Uvarint]). The shortest form is written; longer forms of up to 10 bytes are read as well, because there are peers
	// that leave room for a length and fill it in later. Bytes must be zero, otherwise every call panics. Little means nothing.
	Varint bool
	// Little puts the least significant byte first (little endian).
	Little bool
	// Whole makes the message the whole frame, with its length and what is before it. AppendEncode is then given such a frame,
	// checks that the length in it is right, and leaves it as it is.
	Whole bool
	// Offset is how many bytes of the frame come before the length field: a magic number, a command. They would be lost if the
	// message were not the whole frame, so every call panics when Offset is not zero and Whole is false, or Offset is negative.
	Offset int
	// Adjust is added to the length to get the number of bytes that follow the length field. It is negative when the length
	// counts more than these (−4 for 4 bytes that count themselves), and positive when it counts less (a header of fixed size
	// between length and body, which is then part of the message).
	Adjust int
	// Max is the largest message in bytes, in both directions: zero means [DefaultMax], negative no limit but that of the
	// length field and of the platform's int. When Whole is set it is the largest frame.
	Max int
}

// Decode returns the first message in in, as the package comment says. It fails as soon as the length field is complete, before any
// of the message has to be there: with [ErrTooLarge], and with [ErrLength] when the length is less than it counts at least, or is a
// varint that does not end or exceeds 64 bits.
func (c Length) Decode(in []byte) (msg []byte, n int, err error) {
	length, head := c.field(in)
	switch {
	case head < 0:
		return nil, head, nil
	case head == 0:
		return nil, 0, fmt.Errorf("%w: a varint exceeds 64 bits", ErrLength)
	}
	body := length + uint64(c.Adjust) // modulo 2^64: what is below zero turns out too large
	if length > maxInt || body > maxInt-uint64(head) {
		return nil, 0, c.refuse(length)
	}
	from, whole := head, head+int(body)
	if c.Whole {
		from = 0
	}
	if uint64(whole-from) > limit(c.Max) {
		return nil, 0, c.refuse(length)
	}
	if len(in) < whole {
		return nil, len(in) - whole, nil
	}
	return in[from:whole:whole], whole, nil
}

// AppendEncode appends the length of msg and msg to dst; when Whole is set, just msg. It fails with [ErrTooLarge], and with
// [ErrLength] when a whole frame does not have the length it declares, or when msg is shorter than Adjust.
func (c Length) AppendEncode(dst, msg []byte) ([]byte, error) {
	dst, err := c.AppendHeader(dst, msg)
	if err != nil {
		return dst, err
	}
	return append(dst, msg...), nil
}

// AppendHeader appends what AppendEncode appends before msg, for who writes msg from where it lies.
func (c Length) AppendHeader(dst, msg []byte) ([]byte, error) {
	if c.Whole {
		return dst, c.checkWhole(msg)
	}
	if uint64(len(msg)) > limit(c.Max) {
		return dst, fmt.Errorf("%w: it has %d bytes, at most %d are allowed", ErrTooLarge, len(msg), limit(c.Max))
	}
	if c.Adjust > len(msg) {
		return dst, fmt.Errorf("%w: the message has %d bytes, at least %d are not counted", ErrLength, len(msg), c.Adjust)
	}
	length := uint64(len(msg) - c.Adjust)
	size := c.size()
	switch {
	case c.Varint:
		dst = binary.AppendUvarint(dst, length)
	case size < 8 && length>>(8*size) != 0:
		return dst, fmt.Errorf("%w: a field of %d bytes cannot say %d", ErrTooLarge, size, length)
	case c.Little:
		dst = appendLittle(dst, length, size)
	default:
		dst = appendBig(dst, length, size)
	}
	return dst, nil
}

// checkWhole says what is wrong with a frame that has its length already.
func (c *Length) checkWhole(frame []byte) error {
	_, n, err := c.Decode(frame)
	switch {
	case err != nil:
		return err
	case n <= 0:
		return fmt.Errorf("%w: the frame has %d bytes, at least %d are missing", ErrLength, len(frame), -n)
	case n < len(frame):
		return fmt.Errorf("%w: the frame has %d bytes and declares %d", ErrLength, len(frame), n)
	}
	return nil
}

// field reads the length field. head is how many bytes the frame has up to its end; if it is negative that many bytes are
// missing at least, if it is zero there is no such length.
func (c *Length) field(in []byte) (length uint64, head int) {
	size := c.size()
	head = c.Offset + size
	if len(in) < head {
		return 0, len(in) - head
	}
	field := in[c.Offset:]
	switch {
	case c.Varint:
		length, size = binary.Uvarint(field)
		switch {
		case size > 0:
			return length, c.Offset + size
		case size < 0 || len(field) >= binary.MaxVarintLen64:
			return 0, 0
		default:
			return 0, -1
		}
	case c.Little:
		return little(field, size), head
	default:
		return big(field, size), head
	}
}

// size is the number of bytes of the length field, or the least number if it is a varint.
func (c *Length) size() int {
	if c.Bytes == 0 && !c.Varint && c.Offset == 0 { // as ordinary as can be, and small enough to be inlined
		return 4
	}
	return c.checkedSize()
}

// checkedSize is size for all settings. It refuses those that mean nothing.
func (c *Length) checkedSize() int {
	switch {
	case c.Offset != 0 && (c.Offset < 0 || !c.Whole):
		panic(fmt.Sprintf("codec: Length with Offset %d: use a positive one, and Whole", c.Offset))
	case c.Varint && c.Bytes == 0:
		return 1
	case c.Varint:
		panic(fmt.Sprintf("codec: Length with Varint and Bytes %d: use one of them", c.Bytes))
	}
	switch c.Bytes {
	case 0:
		return 4
	case 1, 2, 4, 8:
		return c.Bytes
	default:
		panic(fmt.Sprintf("codec: a length field of %d bytes: use 1, 2, 4 or 8", c.Bytes))
	}
}

// refuse returns what is wrong with a length.
func (c *Length) refuse(length uint64) error {
	if c.Adjust < 0 && length < uint64(-c.Adjust) {
		return fmt.Errorf("%w: %d bytes are declared, at least %d are always counted", ErrLength, length, -c.Adjust)
	}
	return fmt.Errorf("%w: a length of %d is declared, messages of at most %d bytes are allowed", ErrTooLarge, length, limit(c.Max))
}

// big reads an integer of size bytes, the most significant first.
func big(field []byte, size int) uint64 {
	switch size {
	case 4:
		return uint64(binary.BigEndian.Uint32(field))
	case 2:
		return uint64(binary.BigEndian.Uint16(field))
	case 8:
		return binary.BigEndian.Uint64(field)
	default:
		return uint64(field[0])
	}
}

// little reads an integer of size bytes, the least significant first.
func little(field []byte, size int) uint64 {
	switch size {
	case 4:
		return uint64(binary.LittleEndian.Uint32(field))
	case 2:
		return uint64(binary.LittleEndian.Uint16(field))
	case 8:
		return binary.LittleEndian.Uint64(field)
	default:
		return uint64(field[0])
	}
}

// appendBig is the reverse of big.
func appendBig(dst []byte, length uint64, size int) []byte {
	switch size {
	case 4:
		return binary.BigEndian.AppendUint32(dst, uint32(length))
	case 2:
		return binary.BigEndian.AppendUint16(dst, uint16(length))
	case 8:
		return binary.BigEndian.AppendUint64(dst, length)
	default:
		return append(dst, byte(length))
	}
}

// appendLittle is the reverse of little.
func appendLittle(dst []byte, length uint64, size int) []byte {
	switch size {
	case 4:
		return binary.LittleEndian.AppendUint32(dst, uint32(length))
	case 2:
		return binary.LittleEndian.AppendUint16(dst, uint16(length))
	case 8:
		return binary.LittleEndian.AppendUint64(dst, length)
	default:
		return append(dst, byte(length))
	}
}
