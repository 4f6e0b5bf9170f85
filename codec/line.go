package codec

import (
	"bytes"
	"fmt"
)

// Line is a codec for lines of text: each message ends with a line feed. Decode also removes a carriage return before the line feed;
// AppendEncode writes one if CRLF is set. The zero value writes \n and allows [DefaultMax]. All methods may be called concurrently.
type Line struct {
	// Max is the size of the longest message in bytes, without its end, in both directions: zero means [DefaultMax], negative no limit.
	Max int
	// CRLF ends written lines with \r\n.
	CRLF bool
}

// Decode returns the first line in in without its end, as the package comment describes. It fails with [ErrTooLarge] as soon as in has more than
// Max bytes without an end.
func (c Line) Decode(in []byte) (msg []byte, n int, err error) {
	most := limit(c.Max)
	look := in
	if uint64(len(in)) > most && uint64(len(in))-most > 2 {
		look = in[:most+2]
	}
	end := bytes.IndexByte(look, '\n')
	if end < 0 {
		// One byte beyond Max may be the carriage return of a line end that has not arrived completely.
		have := uint64(len(in))
		if have > most && (have > most+1 || in[most] != '\r') {
			return nil, 0, fmt.Errorf("%w: a line is longer than %d bytes", ErrTooLarge, most)
		}
		return nil, 0, nil
	}
	size := end
	if size > 0 && in[size-1] == '\r' {
		size--
	}
	if uint64(size) > most {
		return nil, 0, fmt.Errorf("%w: a line is longer than %d bytes", ErrTooLarge, most)
	}
	return in[:size:size], end + 1, nil
}

// AppendEncode appends msg and a line end to dst. It fails with [ErrTooLarge], and with [ErrNewline] if msg contains a line feed or ends in a
// carriage return.
func (c Line) AppendEncode(dst, msg []byte) ([]byte, error) {
	if uint64(len(msg)) > limit(c.Max) {
		return dst, fmt.Errorf("%w: it has %d bytes, at most %d are allowed", ErrTooLarge, len(msg), limit(c.Max))
	}
	if bytes.IndexByte(msg, '\n') >= 0 || len(msg) > 0 && msg[len(msg)-1] == '\r' {
		return dst, ErrNewline
	}
	dst = append(dst, msg...)
	if c.CRLF {
		dst = append(dst, '\r')
	}
	return append(dst, '\n'), nil
}
