package codec

import (
	"encoding/binary"
	"fmt"
)

// Length is a codec that writes the length of each message before it. The zero value writes 4 bytes, most significant byte first, and allows
// [DefaultMax]. The length counts the message only, not itself, unless Adjust says otherwise. All methods may be called concurrently.
//
//	Length{Bytes: 2}                        2 bytes of length, message
//	Length{Adjust: -4}                      4 bytes of length that count themselves as well, message
//	Length{Adjust: -4, Whole: true}         the same on the wire; the message is the whole frame
//	Length{Varint: true}                    length as Protocol Buffers delimit messages, message
//	Length{Offset: 1, Varint: true, Whole: true}   one byte, a varint of what follows: a packet of MQTT
type Length struct {
	// Bytes is the size of the length field: 1, 2, 4 or 8; zero means 4. Any other size makes every call panic.
	Bytes int
	// Varint makes the length field a varint of 1 to 10 bytes: 7 bits a byte, the least significant first (unsigned LEB128, [binary.Uvarint]).
	// The shortest form is written. Longer forms of up to 10 bytes are read as well, because some peers leave room for a length and fill it in
	// later. Bytes must be zero, otherwise every call panics. Little is ignored.
	Varint bool
	// Little puts the least significant byte first (little endian).
	Little bool
	// Whole makes the message the whole frame, including the length and the bytes before it. AppendEncode then takes such a frame, checks the
	// length in it, and does not change it.
	Whole bool
	// Offset is how many bytes of the frame come before the length field: a magic number, a command. They would be lost if the message were not
	// the whole frame. So every call panics if Offset is not zero and Whole is false, or if Offset is negative.
	Offset int
	// Adjust is added to the length to get the number of bytes that follow the length field. It is negative if the length counts more than these
	// bytes: −4 for a field of 4 bytes that counts itself. It is positive if the length counts less: for a header of fixed size between length
	// and body, which is then part of the message.
	Adjust int
	// Max is the size of the largest message in bytes, in both directions: zero means [DefaultMax], negative no limit but that of the length
	// field and of the platform's int. If Whole is set, Max is the size of the largest frame.
	Max int
}

// Decode returns the first message in in, as the package comment describes. It fails as soon as the length field is complete, before the message
// has arrived. The error is [ErrTooLarge], or [ErrLength] if the length is less than the bytes that it always counts, or is a varint that does
// not end or exceeds 64 bits.
func (c Length) Decode(in []byte) (msg []byte, n int, err error) {
	length, head := c.field(in)
	switch {
	case head < 0:
		return nil, head, nil
	case head == 0:
		return nil, 0, fmt.Errorf("%w: a varint exceeds 64 bits", ErrLength)
	}
	body := length + uint64(c.Adjust) // modulo 2^64: a negative result is a very large number, and so refused
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

// AppendEncode appends the length of msg and msg to dst; if Whole is set, it appends just msg. It fails with [ErrTooLarge], and with [ErrLength]
// if a whole frame does not have the length that it declares, or if msg is shorter than Adjust.
func (c Length) AppendEncode(dst, msg []byte) ([]byte, error) {
	dst, err := c.AppendHeader(dst, msg)
	if err != nil {
		return dst, err
	}
	return append(dst, msg...), nil
}

// AppendHeader appends the bytes that AppendEncode appends before msg. It is for callers that write msg without copying it.
func (c Length) AppendHeader(dst, msg []byte) ([]byte, error) {
	if c.Whole {
		return dst, c.checkWhole(msg)
	}
	if uint64(len(msg)) > limit(c.Max) {
		return dst, fmt.Errorf("%w: it has %d bytes, at most %d are allowed", ErrTooLarge, len(msg), limit(c.Max))
	}
	if c.Adjust > len(msg) {
		return dst, fmt.Errorf("%w: the message has %d bytes, fewer than the %d that the length excludes", ErrLength, len(msg), c.Adjust)
	}
	length := uint64(len(msg) - c.Adjust)
	size := c.size()
	switch {
	case c.Varint:
		dst = binary.AppendUvarint(dst, length)
	case size < 8 && length>>(8*size) != 0:
		return dst, fmt.Errorf("%w: a field of %d bytes cannot encode %d", ErrTooLarge, size, length)
	case c.Little:
		dst = appendLittle(dst, length, size)
	default:
		dst = appendBig(dst, length, size)
	}
	return dst, nil
}

// checkWhole returns an error if a frame does not have the length that it declares.
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

// field reads the length field. head is the number of bytes of the frame up to the end of the field. If head is negative, at least that many
// bytes are missing; if it is zero, the field is invalid.
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

// size returns the number of bytes of the length field, the least number if the field is a varint.
func (c *Length) size() int {
	if c.Bytes == 0 && !c.Varint && c.Offset == 0 { // the usual settings, in a function small enough to be inlined
		return 4
	}
	return c.checkedSize()
}

// checkedSize implements size for all settings. It panics if the settings are invalid.
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

// refuse returns the error for a length that is too small or too large.
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
