package compression

import (
	"encoding/binary"
	"hash/crc32"
	"sync"

	"github.com/sluice-push/sluice/internal/deflate"
)

// Threshold is the size in bytes from which messages should be compressed on their own. Shorter ones hardly become smaller.
const Threshold = 128

// MessageBits says how far back a message that is compressed on its own refers: 2^MessageBits bytes. Nothing of the window outlives the message.
const MessageBits = deflate.MaxWindowBits

const (
	level      = 1
	streamBits = 12
	// kept is the largest buffer that a pool keeps.
	kept = 64 << 10
)

// encoders compress messages on their own, and buffers, *[]byte, hold the results until it is known whether they are smaller.
var (
	encoders = sync.Pool{New: func() any { return deflate.NewEncoder(level, MessageBits) }}
	buffers  = sync.Pool{New: func() any { return new([]byte) }}
)

// AppendDeflated appends the payload of a compressed WebSocket message, as RFC 7692, section 7.2.1, has it. It refers to no other message, and back
// by up to 2^[MessageBits] bytes. The message must not overlap dst.
func AppendDeflated(dst, message []byte) []byte {
	e := encoders.Get().(*deflate.Encoder) //nolint:forcetypeassert // the pool has nothing else
	e.Reset()
	dst = e.Append(dst, message)
	encoders.Put(e)
	return dst
}

// Shrink compresses a message in place of itself with one of the functions of this package: dst from start on is the message. It reports whether
// that was done: a message is left as it is if it is shorter than [Threshold], or would not become smaller.
func Shrink(dst []byte, start int, compress func(dst, message []byte) []byte) ([]byte, bool) {
	message := dst[start:]
	if len(message) < Threshold {
		return dst, false
	}
	buffer := buffers.Get().(*[]byte) //nolint:forcetypeassert // the pool has nothing else
	*buffer = compress((*buffer)[:0], message)
	smaller := len(*buffer) < len(message)
	if smaller {
		dst = append(dst[:start], *buffer...)
	}
	if cap(*buffer) <= kept {
		buffers.Put(buffer)
	}
	return dst, smaller
}

// header is that of a gzip stream without a name and a time, of an unknown system (RFC 1952, section 2.3).
var header = [...]byte{0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255}

const (
	flushed = "\x00\x00\xff\xff" // the end of an empty stored block, whose beginning ends what an encoder appends
	final   = "\x03\x00"         // an empty final block
)

// AppendGzip appends a message as a gzip stream. The message must not overlap dst.
func AppendGzip(dst, message []byte) []byte {
	dst = append(AppendDeflated(append(dst, header[:]...), message), flushed...)
	return appendTrailer(dst, crc32.ChecksumIEEE(message), uint32(len(message))) //nolint:gosec // modulo 2^32, as RFC 1952 has it
}

func appendTrailer(dst []byte, sum, size uint32) []byte {
	return binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(append(dst, final...), sum), size)
}

// Stream compresses the body of one response. One goroutine at a time may use it. It holds 24 KiB, from the first Append on.
type Stream struct {
	encoder   *deflate.Encoder
	sum, size uint32
	begun     bool
}

// NewStream returns a stream to which nothing was appended.
func NewStream() *Stream { return &Stream{encoder: deflate.NewEncoder(level, streamBits)} }

// Append appends the compressed form of the next part of the body. The client can inflate all of it at once. The part must not overlap dst.
func (s *Stream) Append(dst, part []byte) []byte {
	dst = s.begin(dst)
	if len(part) == 0 {
		return dst
	}
	s.sum = crc32.Update(s.sum, crc32.IEEETable, part)
	s.size += uint32(len(part)) //nolint:gosec // modulo 2^32, as RFC 1952 has it
	return append(s.encoder.Append(dst, part), flushed...)
}

// AppendEnd appends the end of the body. A client that does not get it takes the body for cut off. Nothing is appended afterwards.
func (s *Stream) AppendEnd(dst []byte) []byte { return appendTrailer(s.begin(dst), s.sum, s.size) }

func (s *Stream) begin(dst []byte) []byte {
	if !s.begun {
		s.begun = true
		dst = append(dst, header[:]...)
	}
	return dst
}
