package codec

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
)

// The frame of gzip around deflate is read and written here rather than by compress/gzip, which allocates for the optional fields of
// a header whatever they declare.

// Flags of a gzip header (RFC 1952 §2.3.1). That it is text, 1, means nothing here.
const (
	gzipHasChecksum = 1 << 1
	gzipHasExtra    = 1 << 2
	gzipHasName     = 1 << 3
	gzipHasComment  = 1 << 4
	gzipReserved    = 7 << 5
)

// gzipTrailer is the size of what follows the compressed data: a checksum and a size (RFC 1952 §2.3).
const gzipTrailer = 8

// appendGzipHeader appends a header without optional fields: deflate, no time, unknown system (RFC 1952 §2.3).
func appendGzipHeader(dst []byte) []byte {
	return append(dst, 0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255)
}

// gzipHeader returns the size of the header at the start of in, or 0 if there is no whole and right one (RFC 1952 §2.3). What the
// optional fields say is not looked at, but for the header's checksum.
func gzipHeader(in []byte) int {
	if len(in) < 10 || in[0] != 0x1f || in[1] != 0x8b || in[2] != 8 {
		return 0
	}
	flags, n := in[3], 10
	if flags&gzipReserved != 0 {
		return 0
	}
	if flags&gzipHasExtra != 0 {
		if len(in) < n+2 {
			return 0
		}
		n += 2 + int(binary.LittleEndian.Uint16(in[n:]))
	}
	for _, text := range [...]byte{gzipHasName, gzipHasComment} {
		if flags&text != 0 {
			end := bytes.IndexByte(in[min(n, len(in)):], 0)
			if end < 0 {
				return 0
			}
			n += end + 1
		}
	}
	if flags&gzipHasChecksum != 0 {
		if len(in) < n+2 || uint16(crc32.ChecksumIEEE(in[:n])) != binary.LittleEndian.Uint16(in[n:]) {
			return 0
		}
		n += 2
	}
	if n > len(in) {
		return 0
	}
	return n
}
