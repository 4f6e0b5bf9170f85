// Package codec holds framers: values that cut a stream of bytes into messages and put a message back into the form it has on the
// wire. They do no I/O and start no goroutine.
//
//	[Length]      a message preceded by its length: 1, 2, 4 or 8 bytes or a varint, counting itself or not
//	[Line]        a message ended by \n or \r\n
//	[Delimiter]   a message ended by any other bytes
//	[Fixed]       messages that all have the same size
//	[Raw]         whatever has arrived
//	[Compressed]  deflate or gzip, message by message, in the frames of another codec
//
// With package session a codec is all that has to be said of framing:
//
//	srv := session.NewServer(codec.Length{Bytes: 2}, handler, nil)
//
// All but Compressed keep nothing between calls: they are values whose fields are their settings, and one of them serves any number
// of connections at once. Compressed belongs to one connection and is made by a [Compression], which they share. Settings that mean
// nothing, such as a length field of 3 bytes, are mistakes of the programmer: every call panics, and says what to do.
//
// A codec of your own is two methods, those of [Framer]; the example OwnCodec has one.
//
// # Decoding
//
// Decode is given the unread bytes of a connection and looks for one message at their start:
//
//	n > 0   one message was found; n bytes were used. msg points into in and is never nil, though it may be empty
//	n == 0  more bytes are needed, and nobody knows how many
//	n < 0   at least −n more bytes are needed before calling again makes sense
//	err     the stream is broken; nothing after this point can be read
//
// "More is needed" is a value and not an error, because it is the ordinary case. The count behind n < 0 has been declared by the
// peer: it is within Max, but it is no reason to allocate that much before the bytes arrive. A message points into in except when it
// was compressed; then it is valid until the next Decode.
//
// So there are five outcomes. Several messages are found by calling again with what is left:
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
// Max bounds a message in both directions. It is on by default ([DefaultMax]); a message that is larger gives [ErrTooLarge], in
// Decode as early as that is certain. Nothing is allocated for a message, so what a peer can make a codec do is look at bytes:
// [Delimiter] says how often. What it costs to decompress stands at [Compressed].
package codec
