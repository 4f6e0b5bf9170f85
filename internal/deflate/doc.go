// Package deflate compresses and inflates messages in the DEFLATE format (RFC 1951), for the compression of WebSocket messages (RFC 7692). Each
// message is a byte string of its own, which may refer to earlier messages on the same connection.
//
// compress/flate works on streams, which is expensive for messages. Its writer holds more than a megabyte, supports only the largest window, and
// clears tables for each message without context. Its reader takes single bytes from an interface. Here messages are slices. A connection with
// context holds an [Encoder] of 8 to 160 KiB and a [Window] of at most 40 KiB. A connection without context holds nothing: encoders can be
// pooled (see [Encoder.Reset]), and a [Decoder] always can.
//
// # How it compresses
//
// The encoder finds earlier occurrences of bytes in a table indexed by the hash of four bytes, and above level 3 in chains of positions with the
// same hash (match.go). The result are tokens, literals and matches, at most 16,384 a block. The encoder computes the size of the block with the
// fixed codes and with codes of its own (huffman.go, header.go), and writes the smallest form, which may also be stored (encoder.go).
//
// # How it inflates
//
// The decoder looks codes up in a table indexed by their first 8 or 10 bits, and longer codes in a second table (table.go). A loop without
// bounds checks does most of the work. A loop that checks each step handles the ends of input and output (decoder.go).
package deflate
