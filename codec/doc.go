// Package codec holds stateless framers: values that cut a stream of bytes into messages and put a message back into the form
// it has on the wire. They do no I/O, start no goroutine and keep nothing between calls, so one value serves any number of
// connections at once.
//
//	[Length]  a message preceded by its length in 1, 2, 4 or 8 bytes
//	[Line]    a message ended by \n or \r\n
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
// peer: it is within Max, but it is no reason to allocate that much before the bytes arrive.
//
// # Encoding
//
// AppendEncode appends the whole frame to dst and returns the longer slice. On an error dst is returned as it was.
//
// # Limits
//
// Max bounds a message in both directions. It is on by default ([DefaultMax]); a message that is larger gives [ErrTooLarge], in
// Decode as early as that is certain.
package codec
