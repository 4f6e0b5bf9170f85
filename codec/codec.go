package codec

import "errors"

// DefaultMax is the size of the largest message, in bytes, if a codec's Max is zero.
const DefaultMax = 64 << 10

// Errors of the codecs, to be compared with errors.Is. None of them is io.EOF, which would tell a session that the peer has ended the stream in
// order.
var (
	// ErrTooLarge says that a message is larger than Max, or than its length field can express.
	ErrTooLarge = errors.New("codec: message is too large")
	// ErrLength says that the length of a [Length] frame is invalid: it is smaller than the bytes that it always counts, a varint has no end, or
	// a whole frame to be encoded does not have the length that it declares.
	ErrLength = errors.New("codec: length is invalid")
	// ErrNewline says that a message for [Line] contains a line feed or ends in a carriage return: the receiver would see
	// another message.
	ErrNewline = errors.New("codec: message contains a line end")
	// ErrDelimiter says that a message for [Delimiter] contains the delimiter, or forms one together with the delimiter that follows it.
	ErrDelimiter = errors.New("codec: message contains the delimiter")
	// ErrSize says that a message for [Fixed] does not have the fixed size.
	ErrSize = errors.New("codec: message is not of the fixed size")
	// ErrCorrupt says that a message for [Compressed] is not the output of a compressor: its form is unknown, it is truncated or damaged, its
	// checksum is wrong, or bytes follow its end.
	ErrCorrupt = errors.New("codec: compressed message is corrupt")
)

// Framer is the interface of all codecs of this package, and the inner codec of a [Compression]. The package comment describes the two methods.
// Users can write their own. It is the same interface as Codec of package session.
type Framer interface {
	// Decode looks for a message at the start of in, the unread bytes of a connection. It returns the message and the number of bytes that the
	// message used.
	Decode(in []byte) (msg []byte, n int, err error)
	// AppendEncode appends the frame of msg to dst, as it goes over the wire.
	AppendEncode(dst, msg []byte) ([]byte, error)
}

// limit returns the limit that a Max field stands for: zero is the default, negative is no limit.
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
