package frame

import "math"

// The largest lengths that the formats can express.
const (
	maxLength      = 0x3FFFFFFF         // of a frame without its length field: Thrift tells lengths and magic numbers apart by it
	maxFrame       = maxLength + 4      // of a frame
	maxHeaderWords = math.MaxUint16     // of a header, in words of four bytes
	maxHeader      = 4 * maxHeaderWords // the same in bytes
)

// Options are the limits of a [Codec] for frames that it decodes. In every field, zero means the default and negative means no limit but that of
// the format.
type Options struct {
	// MaxFrame is the size of the largest frame in bytes, as it is on the wire, with length and header: by default 4 MiB. The format allows
	// 1 GiB. A session has a limit of its own, which is lower by default: MaxMessage of its options.
	MaxFrame int
	// MaxBody is the size of the largest message in bytes after decompression: by default MaxFrame.
	MaxBody int
	// MaxHeader is the size of the largest header in bytes: by default 64 KiB. The format allows 256 KiB.
	MaxHeader int
	// MaxPairs is the largest number of pairs in a header, of strings and integers together: by default 256.
	MaxPairs int
	// MaxPair is the size of the largest key or value in bytes: by default 16 KiB. It also holds for the token.
	MaxPair int
	// MaxMethod is the size of the longest method name in bytes: by default 256.
	MaxMethod int
	// MaxDepth is how deep structs, lists, sets and maps may be nested in an unframed message: by default 64. A level costs 16 bytes.
	MaxDepth int
}

// withDefaults returns the limits as numbers that can be compared with.
func (o *Options) withDefaults() Options {
	var d Options
	if o != nil {
		d = *o
	}
	limit := func(value, byDefault, most int) int {
		switch {
		case value == 0:
			return min(byDefault, most)
		case value < 0:
			return most
		}
		return min(value, most)
	}
	d.MaxFrame = limit(d.MaxFrame, 4<<20, maxFrame)
	d.MaxBody = limit(d.MaxBody, d.MaxFrame, math.MaxInt32-1)
	d.MaxHeader = limit(d.MaxHeader, 64<<10, maxHeader)
	d.MaxPairs = limit(d.MaxPairs, 256, math.MaxInt32)
	d.MaxPair = limit(d.MaxPair, 16<<10, maxLength)
	d.MaxMethod = limit(d.MaxMethod, 256, maxLength)
	d.MaxDepth = limit(d.MaxDepth, 64, math.MaxInt32)
	return d
}
