package codec

import (
	"bytes"
	"fmt"
)

// Delimiter is a codec that ends each message with the same byte sequence. For lines there is [Line]. All methods may be called concurrently.
//
// Delimiter is stateless, so each Decode searches the unread bytes from their start. A peer that sends a message byte by byte thus makes the
// codec search up to Max²/2 bytes for it. With [DefaultMax] that is a microsecond for each byte on average, and eight if the bytes repeat the
// beginning of a longer delimiter: not much beside a read. But the cost grows with Max, which should therefore be as small as the protocol
// allows. Decode returns as its need the number of bytes that is certain: if the unread bytes contain no part of a delimiter of four bytes,
// Decode asks for four more.
type Delimiter struct {
	// End is the byte sequence that ends a message. If it is empty, every call panics. It should have a few bytes: more than 32 cost an
	// allocation of that size with every call.
	End string
	// Max is the size of the longest message in bytes, without its end, in both directions: zero means [DefaultMax], negative no limit.
	Max int
}

// Decode returns the first message in in without its end, as the package comment describes. It fails with [ErrTooLarge] as soon as it is certain
// that the message is longer than Max.
func (c Delimiter) Decode(in []byte) (msg []byte, n int, err error) {
	c.check()
	most := limit(c.Max)
	look := in
	if end := uint64(len(c.End)); uint64(len(in)) > most && uint64(len(in))-most > end {
		look = in[:most+end]
	}
	if size := bytes.Index(look, []byte(c.End)); size >= 0 {
		return in[:size:size], size + len(c.End), nil
	}
	begun := c.begun(look)
	if uint64(len(look)-begun) > most {
		return nil, 0, fmt.Errorf("%w: a message is longer than %d bytes", ErrTooLarge, most)
	}
	// With fewer bytes, neither the delimiter nor a message beyond Max can be complete.
	need := min(uint64(len(c.End)-begun), most+1-min(most, uint64(len(look))))
	return nil, -int(need), nil
}

// AppendEncode appends msg and its end to dst. It fails with [ErrTooLarge], and with [ErrDelimiter] if a receiver would find the end earlier.
func (c Delimiter) AppendEncode(dst, msg []byte) ([]byte, error) {
	c.check()
	if uint64(len(msg)) > limit(c.Max) {
		return dst, fmt.Errorf("%w: it has %d bytes, at most %d are allowed", ErrTooLarge, len(msg), limit(c.Max))
	}
	out := append(append(dst, msg...), c.End...)
	if bytes.Index(out[len(dst):], []byte(c.End)) != len(msg) {
		return dst, ErrDelimiter
	}
	return out, nil
}

// begun returns the number of bytes at the end of in that may be the beginning of a delimiter.
func (c *Delimiter) begun(in []byte) int {
	for n := min(len(c.End)-1, len(in)); n > 0; n-- {
		if string(in[len(in)-n:]) == c.End[:n] {
			return n
		}
	}
	return 0
}

func (c *Delimiter) check() {
	if c.End == "" {
		panic("codec: Delimiter without End: set it to the bytes that end a message")
	}
}
