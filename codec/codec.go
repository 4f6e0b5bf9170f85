package codec

import "errors"

// DefaultMax is the largest message, in bytes, when a codec's Max is zero.
const DefaultMax = 64 << 10

// Errors of the codecs, to be compared with errors.Is.
var (
	// ErrTooLarge says that a message is larger than Max, or than its length field can say.
	ErrTooLarge = errors.New("codec: message is too large")
	// ErrNewline says that a message for [Line] contains a line feed or ends in a carriage return: the receiver would see
	// another message.
	ErrNewline = errors.New("codec: message contains a line end")
)

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
