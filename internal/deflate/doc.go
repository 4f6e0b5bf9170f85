// Package deflate compresses and inflates messages in the DEFLATE format (RFC 1951), as the compression of WebSocket messages has them
// (RFC 7692): each message a byte string of its own, which may refer to those before it on the same connection.
//
// compress/flate works on streams, and for messages that has its price: its writer holds more than a megabyte, knows no window but the
// largest, and has tables to clear for each message without context; its reader takes byte by byte from an interface. Here
// messages are slices, a connection with context holds an [Encoder] of 8 to 160 KiB and a [Window] of at most 40 KiB, and a connection
// without context nothing: encoders can be pooled (see [Encoder.Reset]), and a [Decoder] always can.
//
// # How it compresses
//
// Where the bytes at a place were before is found in a table by the hash of four bytes, and above level 3 in chains of places with the same
// hash (match.go). What comes out are tokens, literals and matches, at most 16,384 a block. The sizes of the block in the fixed codes and
// in codes of its own (huffman.go, header.go) are computed, and it is written the smallest way, or stored (encoder.go).
//
// # How it inflates
//
// Codes are looked up in a table of their first 8 or 10 bits, and longer ones in a second table (table.go). A loop without checks
// does most of the work, and one that checks each step what is left at the ends of input and output (decoder.go).
package deflate
