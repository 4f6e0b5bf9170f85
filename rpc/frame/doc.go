// Package frame reads and writes the frames of RPC protocols: those of Apache Thrift and of Kitex, in all the dialects that their clients send to
// one port. It does no I/O, starts no goroutine and has no clock. Package rpc is built on it.
//
//	THeader    Apache Thrift: clients and servers for Go, Python, C++, Ruby and Node; binary and compact protocol, zlib
//	TTHeader   Kitex and other programs of CloudWeGo: Thrift and Protobuf, streams, control frames
//	framed     Thrift's TFramedTransport, binary and compact protocol; Kitex's Framed with Thrift and with Protobuf
//	unframed   Thrift's TSocket and TBufferedTransport, binary and compact protocol
//
// All of them become one [Frame]: a dialect, a kind (call, reply, exception, one-way, control, stream), a method, a sequence id, metadata and a
// body. A server answers with [Frame.Answer] and needs not know which dialect it was.
//
// # Use
//
// A [Codec] belongs to one connection. It is a codec for package session:
//
//	srv := session.NewServer(nil, &session.Handler{
//		Open: func(s *session.Session) error {
//			c := frame.New(nil)
//			s.SetCodec(c)
//			s.SetValue(c)
//			return nil
//		},
//		Message: func(s *session.Session, body []byte) {
//			var reply frame.Frame
//			reply.Answer(s.Value().(*frame.Codec).Frame(), frame.Reply)
//			_ = s.SendAs(&reply, body)
//		},
//	}, nil)
//
// The codec's Frame is that of the message being handled, until the handler returns. [Plain] sends a large body without copying it.
//
// A program that owns the connection itself calls Decode with the bytes that have arrived and not been used, and reads more when it returns a
// number that is not positive; see the example. A program that forwards frames calls DecodeHead, which needs no body.
//
// # Which dialect it is
//
// Each frame says by its first bytes what it is. All numbers are big-endian. L is a length.
//
//	80 01              unframed, binary
//	82 x1              unframed, compact; the lower five bits of the second byte are the version
//	L 0F FF            THeader
//	L L−4 0F FF        THeader, wrapped
//	L 10 00            TTHeader
//	L 80 01            framed, binary
//	L 82 x1            framed, compact
//	L 90 01            framed, Protobuf of Kitex
//
// A length is below 2^30, so it cannot be taken for a magic number. Anything else is an error with [ErrDialect], among it HTTP, and binary messages
// without a version, which Apache's servers for THeader refuse as well.
//
// # Headers
//
// THeader (doc/specs/HeaderFormat.md of apache/thrift) and TTHeader (cloudwego.io, reference, "Transport Protocol TTHeader"; package
// protocol/ttheader of cloudwego/gopkg) begin alike. TTHeader has fixed sizes where THeader has varints:
//
//	THeader                          TTHeader                       what
//	4                                4                              length of what follows
//	2  0F FF                         2  10 00                       magic number
//	2                                2                              flags
//	4                                4                              sequence id
//	2                                2                              size of the header in words of four bytes, from here
//	varint  0, 2                     1  0, 2, 3, 4, 10, 11 hex      protocol id
//	varint                           1                              number of transforms
//	varint each                      1 each                         transforms
//	varint 1, varint n, n pairs      1  01, 2 n, n pairs            string keys and values
//	varint 2, varint n, n pairs                                     the same, persistent (fbthrift)
//	                                 1  10, 2 n, n pairs            integer keys (2 bytes) and values
//	                                 1  11, string                  access token
//	00 to a multiple of 4            00 to a multiple of 4          padding
//	message                          message
//
// A string is preceded by its length: a varint in THeader, two bytes in TTHeader. A reader of THeader ignores what follows an unknown info block,
// a reader of TTHeader refuses it. The token is written first, then string keys, then integer keys, as gopkg does it.
//
// The sequence id of a THeader header may be 0 in every frame: Thrift's client for Node never sets it. [Frame.Sequence] is that of the message. In
// TTHeader, 0 is a frame about the connection ([Control]): with crrst as a key, Kitex announces that it will close.
//
// # Messages
//
// An envelope precedes the body, which is the struct of the arguments or of the result in Thrift:
//
//	binary     80 01 00 kind, 4 length, method, 4 sequence id
//	compact    82, kind·32+1, varint sequence id, varint length, method
//	Protobuf   90 01 00 kind, 4 length, method, 4 sequence id (pkg/remote/codec/protobuf of Kitex)
//
// In TTHeader, a length of 4 bytes may precede the envelope, and always does with Protobuf. The protocol id there says little, because Kitex
// declares binary for Protobuf; so the message says itself what it is. The ids 10 and 11 hex are the frames of Kitex's streams and have no
// envelope. The id 20 hex is of this package ([Bare]): method and kind are integer keys, and the body may be anything. Kitex refuses it.
//
// An unframed message has no length. The codec walks over its struct, value by value, and goes on where it stopped when more bytes arrive.
//
// # Compression
//
// Zlib (RFC 1950) is a transform of both headers, though no known peer uses it in TTHeader. Gzip (RFC 1952) is a transform of this package in
// TTHeader, 20 hex. gopkg ignores transforms, and so would hand compressed bytes to its user: a program has to know that its peer undoes them.
//
// # Limits
//
// Every size is checked against [Options] before the bytes arrive that it counts. Decoding allocates nothing, except for lists of a [Frame] that
// grow, and for a decompressed message: its buffer grows with the output, whatever the input declares, up to MaxBody. A connection that has
// received compressed messages keeps up to 128 KiB for the next. [Codec.Rest] says what it keeps of a frame.
package frame
