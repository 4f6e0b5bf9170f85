// Package gzipheader measures headers of gzip (RFC 1952), for packages that decompress what follows by themselves.
package gzipheader

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
)

// Size is the size of a header without optional fields.
const Size = 10

// Flags of a header (RFC 1952 §2.3.1).
const (
	hasChecksum = 1 << 1
	hasExtra    = 1 << 2
	hasName     = 1 << 3
	hasComment  = 1 << 4
	reserved    = 0xe0
)

// Len returns the size of the header at the start of in, or 0 if the header is incomplete or invalid (RFC 1952 §2.3). It skips the optional fields,
// and checks only the header's checksum.
func Len(in []byte) int {
	if len(in) < Size || in[0] != 0x1f || in[1] != 0x8b || in[2] != 8 || in[3]&reserved != 0 {
		return 0
	}
	flags, n := in[3], Size
	if flags&hasExtra != 0 {
		if len(in) < n+2 {
			return 0
		}
		n += 2 + int(binary.LittleEndian.Uint16(in[n:]))
	}
	for _, text := range [...]byte{hasName, hasComment} {
		if flags&text != 0 {
			end := bytes.IndexByte(in[min(n, len(in)):], 0)
			if end < 0 {
				return 0
			}
			n += end + 1
		}
	}
	if flags&hasChecksum != 0 {
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
