package codec

// The gzip format around deflate is written here, and its headers are read by package gzipheader. Package compress/gzip would allocate for the
// optional fields of a header, whatever size they declare.

// gzipTrailer is the size of the trailer after the compressed data: a checksum and a size (RFC 1952 §2.3).
const gzipTrailer = 8

// appendGzipHeader appends a header without optional fields: deflate, no time, unknown system (RFC 1952 §2.3).
func appendGzipHeader(dst []byte) []byte {
	return append(dst, 0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255)
}
