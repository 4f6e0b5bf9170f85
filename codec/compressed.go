package codec

import "fmt"

// Compressed compresses each message by itself, around a codec that cuts the frames. [Compression.New] makes one for each
// connection; with sessions, in Open:
//
//	comp := codec.NewCompression(nil)
//	srv := session.NewServer(nil, &session.Handler{
//		Open: func(s *session.Session) error { s.SetCodec(comp.New(codec.Length{})); return nil },
//		…
//
// # On the wire
//
// The payload of a frame is one byte that says what follows, and what follows:
//
//	0  the message as it is: it is small, or does not shrink
//	1  raw deflate (RFC 1951)
//	2  one member of gzip (RFC 1952)
//
// All three are understood, whatever is written. The compressed data fills the frame exactly: data that is cut off, bytes after its
// end, a second member, a wrong checksum, and any other first byte are [ErrCorrupt], as is a frame without payload. A member may have
// the optional fields of its header, which are skipped. There is no dictionary: no message depends on another, so one encoded frame
// can be written to many connections.
//
// # Cost
//
// No size that a peer declares is believed. Decode stops at Max: a bomb costs the time to decompress Max bytes, and no more memory
// than twice that, which is given back at once. There is another kind of bomb: compress/flate builds tables for each block, and for a
// block of 46 bytes that contains nothing they can take 38 KB and 50 µs, garbage as soon as the next block begins. So a peer pays a
// byte for a microsecond, and the limit of the inner codec, which is one for what is compressed, is worth being small.
//
// AppendEncode borrows a compressor of about a megabyte, of which there are as many as there are encoders at the same time. Decode borrows
// a decompressor of 40 KB, and for a message that was compressed a buffer, which stays borrowed until the next Decode, or until
// [Compressed.Rest] is called.
//
// # Concurrency
//
// Decode and Rest belong to the goroutine that reads the connection. AppendEncode may be called by any number of others at the same
// time, if inner allows it.
type Compressed struct {
	// Set at New.
	shared *Compression
	inner  Framer

	// Owned by the reader.
	lent *buffer // holds the last message
}

// Decode returns the first message in in, as the package comment says. It fails with [ErrTooLarge], [ErrCorrupt] and the errors of
// the inner codec. msg is valid until the next call of Decode or Rest.
func (c *Compressed) Decode(in []byte) (msg []byte, n int, err error) {
	c.Rest()
	payload, n, err := c.inner.Decode(in)
	if err != nil || n <= 0 || payload == nil {
		return nil, n, err
	}
	if msg, err = c.unpack(payload); err != nil {
		c.Rest()
		return nil, 0, err
	}
	return msg, n, nil
}

// unpack returns the message in the payload of a frame.
func (c *Compressed) unpack(payload []byte) (msg []byte, err error) {
	if len(payload) == 0 {
		return nil, fmt.Errorf("%w: the frame is empty", ErrCorrupt)
	}
	form, body := payload[0], payload[1:]
	switch form {
	case formPlain:
		if uint64(len(body)) > c.shared.most {
			return nil, fmt.Errorf("%w: it has %d bytes, at most %d are allowed", ErrTooLarge, len(body), c.shared.most)
		}
		return body[:len(body):len(body)], nil
	case formDeflate:
		c.lent = c.shared.buffer()
		err = c.shared.unpackDeflate(c.lent, body)
	case formGzip:
		c.lent = c.shared.buffer()
		err = c.shared.unpackGzip(c.lent, body)
	default:
		return nil, fmt.Errorf("%w: form %d", ErrCorrupt, form)
	}
	if err != nil {
		return nil, err
	}
	b := c.lent.b
	return b[:len(b):len(b)], nil
}

// AppendEncode appends msg to dst, compressed if that makes it smaller. It fails with [ErrTooLarge] and the errors of the inner
// codec. A session calls it under its write lock; who sends the same message to many encodes it once and uses Session.WriteShared.
func (c *Compressed) AppendEncode(dst, msg []byte) ([]byte, error) {
	if uint64(len(msg)) > c.shared.most {
		return dst, fmt.Errorf("%w: it has %d bytes, at most %d are allowed", ErrTooLarge, len(msg), c.shared.most)
	}
	b := c.shared.buffer()
	c.shared.pack(b, msg)
	dst, err := c.inner.AppendEncode(dst, b.b)
	c.shared.putBuffer(b)
	return dst, err
}

// Rest gives the memory of the last message back: that message must not be used any more. It is never necessary, since Decode does
// the same. At the end of a handler it saves what an idle connection would keep, up to 128 KiB or a larger last message.
func (c *Compressed) Rest() {
	if c.lent != nil {
		c.shared.putBuffer(c.lent)
		c.lent = nil
	}
}
