// Package codec implements framers. A framer splits a stream of bytes into messages, and puts a message into the form that it has on the wire.
// Framers do no I/O and start no goroutine.
//
//	[Length]      a message preceded by its length: 1, 2, 4 or 8 bytes or a varint, counting itself or not
//	[Line]        a message ended by \n or \r\n
//	[Delimiter]   a message ended by a given byte sequence
//	[Fixed]       messages that all have the same size
//	[Raw]         the bytes that have arrived, without boundaries
//	[Compressed]  deflate or gzip, message by message, in the frames of another codec
//
// With package session a codec is all that defines the framing:
//
//	srv := session.NewServer(codec.Length{Bytes: 2}, handler, nil)
//
// All codecs but Compressed are stateless: they are values whose fields are their settings, and one of them serves any number of connections at
// once. A Compressed belongs to one connection and is made by a [Compression], which the connections share. Invalid settings, such as a length
// field of 3 bytes, are mistakes of the programmer: every call panics with a message that says what to do.
//
// A custom codec has two methods, those of [Framer]; see the example OwnCodec.
//
// # Decoding
//
// Decode receives the unread bytes of a connection and looks for one message at their start:
//
//	n > 0   one message was found in the first n bytes. msg points into in and is never nil, though it may be empty
//	n == 0  more bytes are needed, and their number is unknown
//	n < 0   at least −n more bytes are needed before calling again makes sense
//	err     the stream is broken; no message after this point can be read
//
// "More is needed" is a value and not an error, because it is the ordinary case. The peer declares the length behind n < 0. It is within Max,
// but the caller should not allocate that much before the bytes arrive. A message points into in unless it was compressed; a message that was
// compressed is valid until the next Decode.
//
// So there are five outcomes. To find several messages, the caller calls Decode again with the rest of the bytes:
//
//	            error                  how much is needed    known to be needed   one message   several
//	            (msg nil, n 0)         is not known yet                           (n > 0)       (n > 0 each time)
//	Length      ErrTooLarge,           n < 0: rest of the    n < 0: rest of       length and    yes
//	            ErrLength              length field          the message          message
//	Line        ErrTooLarge            n == 0                —                    through \n    yes
//	Delimiter   ErrTooLarge            n < 0: rest of the    —                    through End   yes
//	                                   delimiter
//	Fixed       —                      —                     n < 0: rest of       Size bytes    yes
//	                                                         the message
//	Raw         —                      n == 0: in is empty   —                    all, up to    only beyond
//	                                                                              Max           Max
//	Compressed  ErrTooLarge,           as inside             as inside            as inside     yes
//	            ErrCorrupt, as inside
//
// # Encoding
//
// AppendEncode appends the whole frame to dst and returns the longer slice. On an error dst is returned as it was.
//
// # Limits
//
// Max bounds a message in both directions. It is on by default ([DefaultMax]). A larger message gives [ErrTooLarge], in Decode as soon as that
// is certain. All codecs but Compressed allocate no memory for a message, so the only cost that a peer can cause is reading bytes: [Delimiter]
// says how often. [Compressed] describes the cost of decompression.
package codec
