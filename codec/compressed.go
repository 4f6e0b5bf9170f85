package codec

import "fmt"

// Compressed is a codec that compresses each message by itself and frames it with another codec. [Compression.New] makes one for each
// connection; with sessions, in Open:
//
//	comp := codec.NewCompression(nil)
//	srv := session.NewServer(nil, &session.Handler{
//		Open: func(s *session.Session) error { s.SetCodec(comp.New(codec.Length{})); return nil },
//		…
//
// # On the wire
//
// The payload of a frame is one byte that says what follows, and the body:
//
//	0  the message, uncompressed: it is small, or does not shrink
//	1  raw deflate (RFC 1951)
//	2  one member of gzip (RFC 1952)
//
// Decode accepts all three forms, whatever AppendEncode writes. The compressed data must fill the frame exactly. Truncated data, bytes after its
// end, a second member, a wrong checksum, any other first byte and a frame without payload give [ErrCorrupt]. A member may have the optional
// fields of its header, which are skipped. There is no dictionary: no message depends on another, so one encoded frame can be written to many
// connections.
//
// # Cost
//
// Decode relies on no size that a peer declares. It stops at Max: a decompression bomb costs the time to decompress Max bytes, and at most twice
// that memory, which is given back at once. There is another kind of bomb: compress/flate builds tables for each block. For an empty block of 46
// bytes they can take 38 KB and 50 µs; they are garbage as soon as the next block begins. So one byte from the peer can cost a microsecond. The
// limit of the inner codec bounds the compressed size, and should therefore be small.
//
// AppendEncode borrows a compressor of about a megabyte; there are as many of these as there are concurrent encoders. Decode borrows a
// decompressor of 40 KB. For a compressed message, Decode also borrows a buffer, until the next Decode or until [Compressed.Rest] is called.
//
// # Concurrency
//
// Decode and Rest must be called by the goroutine that reads the connection. AppendEncode may be called by any number of other goroutines at the
// same time, if the inner codec allows it.
type Compressed struct {
	// Set by New.
	shared *Compression
	inner  Framer

	// Owned by the reader.
	lent *buffer // the memory of the last message, or nil
}

// Decode returns the first message in in, as the package comment describes. It fails with [ErrTooLarge], [ErrCorrupt] and the errors of the
// inner codec. The message is valid until the next call of Decode or Rest.
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

// unpack returns the message in the payload of a frame. It may set c.lent.
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

// AppendEncode appends the frame of msg to dst, compressed if that makes it smaller. It fails with [ErrTooLarge] and the errors of the inner
// codec. A session calls it under its write lock. To send one message to many sessions, encode it once and use Session.WriteShared.
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

// Rest gives back the memory of the last message, which must not be used any more. A call is never necessary, because Decode does the same. At
// the end of a handler, Rest saves the memory that an idle connection would keep: up to 128 KiB, or a larger last message.
func (c *Compressed) Rest() {
	if c.lent != nil {
		c.shared.putBuffer(c.lent)
		c.lent = nil
	}
}
