package codec

import "errors"

// DefaultMax is the largest message, in bytes, when a codec's Max is zero.
const DefaultMax = 64 << 10

// Errors of the codecs, to be compared with errors.Is. None of them is io.EOF, which would tell a session that the peer ended in
// order.
var (
	// ErrTooLarge says that a message is larger than Max, or than its length field can say.
	ErrTooLarge = errors.New("codec: message is too large")
	// ErrLength says that the length of [Length] means nothing: it is smaller than what it counts at least, a varint has no end,
	// or a whole frame to be encoded does not have the length it declares.
	ErrLength = errors.New("codec: length is wrong")
	// ErrNewline says that a message for [Line] contains a line feed or ends in a carriage return: the receiver would see
	// another message.
	ErrNewline = errors.New("codec: message contains a line end")
	// ErrDelimiter says that a message for [Delimiter] contains the delimiter, or forms one with the delimiter behind it.
	ErrDelimiter = errors.New("codec: message contains the delimiter")
	// ErrSize says that a message for [Fixed] does not have its size.
	ErrSize = errors.New("codec: message is not of the fixed size")
	// ErrCorrupt says that a message for [Compressed] is not what a compressor writes: its form is unknown, it is cut off or
	// damaged, its checksum is wrong, or something follows its end.
	ErrCorrupt = errors.New("codec: compressed message is corrupt")
)

// Framer is what all codecs here have in common, and what [Compression] is put around: two methods that do as the package comment
// says. Users write their own. It is the same interface as Codec of package session.
type Framer interface {
	// Decode looks at in, the unread bytes of a connection, and returns the message at its start and how many bytes it used.
	Decode(in []byte) (msg []byte, n int, err error)
	// AppendEncode appends msg to dst as it goes over the wire.
	AppendEncode(dst, msg []byte) ([]byte, error)
}

// limit returns what a Max field means: zero is the default, negative is no limit.
func limit(limit int) uint64 {
	switch {
	case limit == 0:
		return DefaultMax
	case limit < 0:
		return maxInt
	default:
		return uint64(limit)
	}
}

// maxInt is the largest int of this platform.
const maxInt = uint64(^uint(0) >> 1)
