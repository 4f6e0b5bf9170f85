package frame

import (
	"bytes"
	"compress/flate"
	"encoding/binary"
	"errors"
	"hash/adler32"
	"hash/crc32"
	"io"
	"strconv"
	"sync"

	"github.com/sluice-push/sluice/internal/gzipheader"
)

// Transform is a way in which the message of a frame is compressed.
type Transform uint8

// The transforms. HMAC (2) and Snappy (3) of Apache's format are refused, as Apache's own libraries do.
const (
	Zlib Transform = 0x01 // RFC 1950: THeader of all languages, and reserved in TTHeader
	Gzip Transform = 0x20 // RFC 1952, one member: TTHeader frames between programs that use this package; no other peer has it
)

// String returns the name of the transform.
func (t Transform) String() string {
	switch t {
	case Zlib:
		return "zlib"
	case Gzip:
		return "gzip"
	}
	return "transform " + strconv.Itoa(int(t))
}

const (
	maxTransforms = 4        // in a frame; every one after the first makes it larger
	keptBuffer    = 64 << 10 // the largest buffer that a Codec keeps for the next message
	keptPairs     = 64       // the most pairs for which it keeps room
	zlibTrailer   = 4        // a checksum (RFC 1950 §2.2)
	gzipTrailer   = 8        // a checksum and a size (RFC 1952 §2.3.1)
)

// errTooLong says that decompressed data exceed the limit.
var errTooLong = errors.New("too long")

// decompressor is a pooled decompressor and its input. The input is an io.ByteReader, so that the decompressor reads no byte behind the end of
// the compressed data.
type decompressor struct {
	in bytes.Reader
	r  io.ReadCloser // also a flate.Resetter
}

// Pools, because a compressor has more than a megabyte and a decompressor 40 KiB.
var (
	decompressors = sync.Pool{New: func() any {
		d := new(decompressor)
		d.r = flate.NewReader(&d.in)
		return d
	}}
	compressors = sync.Pool{New: func() any {
		c := new(compressor)
		c.w, _ = flate.NewWriter(c, flate.BestSpeed) // fails only for an unknown level
		return c
	}}
)

// inflate appends to dst the deflated bytes at the start of in, and returns how many bytes follow them. dst grows with the output and never has
// room for more than most bytes and one: what the input declares is not believed.
func inflate(dst, in []byte, most int) (out []byte, rest int, err error) {
	d := decompressors.Get().(*decompressor)
	defer decompressors.Put(d)
	d.in.Reset(in)
	defer d.in.Reset(nil)
	_ = d.r.(flate.Resetter).Reset(&d.in, nil) // never fails
	for {
		if len(dst) == cap(dst) {
			size := max(512, 2*len(in), 2*cap(dst))
			if size > most/2 {
				size = most + 1 // and no more after that
			}
			grown := make([]byte, len(dst), size)
			copy(grown, dst)
			dst = grown
		}
		n, err := d.r.Read(dst[len(dst):min(cap(dst), most+1)])
		dst = dst[:len(dst)+n]
		switch {
		case len(dst) > most:
			return dst, 0, errTooLong
		case errors.Is(err, io.EOF):
			return dst, d.in.Len(), nil
		case err != nil:
			return dst, 0, err
		}
	}
}

// undo decompresses a payload that begins at an offset of the frame. The last transform is undone first. The result is in a buffer of the codec.
func (c *Codec) undo(payload []byte, offset int) ([]byte, error) {
	for i := len(c.frame.Transforms) - 1; i >= 0; i-- {
		t := c.frame.Transforms[i]
		header, trailer := zlibHeader(payload), zlibTrailer
		if t == Gzip {
			header, trailer = gzipheader.Len(payload), gzipTrailer
		}
		if header == 0 {
			return nil, refuse(offset, ErrMalformed, "the message has no valid header of %v", t)
		}
		out := &c.inflated[i&1]
		data, rest, err := inflate((*out)[:0], payload[header:], c.limits.MaxBody)
		*out = data
		switch {
		case errors.Is(err, errTooLong):
			return nil, refuse(offset, ErrTooLarge, "the decompressed message has more than the %d bytes that are allowed", c.limits.MaxBody)
		case err != nil:
			return nil, refuse(offset, ErrMalformed, "%v: %v", t, err)
		case rest != trailer:
			return nil, refuse(offset+len(payload)-rest, ErrMalformed, "%d bytes follow the data of %v, not the %d of its checksum", rest, t, trailer)
		case !checked(t, data, payload[len(payload)-rest:]):
			return nil, refuse(offset+len(payload)-rest, ErrMalformed, "the checksum of %v is wrong", t)
		}
		payload, offset = data[:len(data):len(data)], 0
	}
	return payload, nil
}

// checked reports whether the trailer fits the decompressed data.
func checked(t Transform, data, trailer []byte) bool {
	if t == Gzip {
		return binary.LittleEndian.Uint32(trailer) == crc32.ChecksumIEEE(data) && binary.LittleEndian.Uint32(trailer[4:]) == uint32(len(data))
	}
	return binary.BigEndian.Uint32(trailer) == adler32.Checksum(data)
}

// zlibHeader returns the size of the zlib header at the start of in, 0 if it is incomplete, invalid, or asks for a preset dictionary (RFC 1950 §2.2).
func zlibHeader(in []byte) int {
	if len(in) < 2 || in[0]&0x0F != 8 || in[0]>>4 > 7 || binary.BigEndian.Uint16(in)%31 != 0 || in[1]&(1<<5) != 0 {
		return 0
	}
	return 2
}

// compressor is a pooled compressor, its output, and a buffer for what is compressed.
type compressor struct {
	w     *flate.Writer
	out   []byte
	plain []byte
}

// Write implements io.Writer for w.
func (c *compressor) Write(p []byte) (int, error) {
	c.out = append(c.out, p...)
	return len(p), nil
}

// append appends data to dst, compressed.
func (c *compressor) append(dst, data []byte, t Transform) []byte {
	if t == Gzip {
		dst = append(dst, 0x1F, 0x8B, 8, 0, 0, 0, 0, 0, 0, 255) // deflate, no time, unknown system (RFC 1952 §2.3.1)
	} else {
		dst = append(dst, 0x78, 0x01) // deflate, a window of 32 KiB, the fastest level (RFC 1950 §2.2)
	}
	c.out = dst
	c.w.Reset(c)
	_, _ = c.w.Write(data) // Write above never fails
	_ = c.w.Close()
	dst, c.out = c.out, nil
	if t == Gzip {
		dst = binary.LittleEndian.AppendUint32(dst, crc32.ChecksumIEEE(data))
		return binary.LittleEndian.AppendUint32(dst, uint32(len(data)))
	}
	return binary.BigEndian.AppendUint32(dst, adler32.Checksum(data))
}

// appendCompressed appends to dst the message of f with a body, compressed by all transforms.
func (f *Frame) appendCompressed(dst, body []byte) []byte {
	c := compressors.Get().(*compressor)
	defer compressors.Put(c)
	c.plain = f.appendMessage(c.plain[:0], body)
	last := len(f.Transforms) - 1
	for i, t := range f.Transforms {
		if i < last {
			c.plain = c.append(nil, c.plain, t)
			continue
		}
		dst = c.append(dst, c.plain, t)
	}
	if cap(c.plain) > keptBuffer {
		c.plain = nil
	}
	return dst
}
