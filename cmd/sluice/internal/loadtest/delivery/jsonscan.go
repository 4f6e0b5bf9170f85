package delivery

import "bytes"

// Found is a publication that a scanner has found.
type Found struct {
	Channel uint32 // its number, below MaxStreams
	Data    []byte // borrowed from the message
	Offset  uint64 // 0 if there is none
}

// JSONScanner finds publications in the lines of a server without decoding JSON. Nearly all lines are pushes of one form. They differ only in the
// number of the channel, in the data, whose length is known, and in the offset. Package protocol/json decodes the lines of all other forms.
type JSONScanner struct {
	head []byte // {"push":{"channel":"PREFIX
	size int    // of the data, in bytes
}

const (
	scanMiddle = `","pub":{"data":`
	scanOffset = `,"offset":`
	scanEnd    = `}}}`
)

// NewJSONScanner returns a scanner for data of a size, in channels that are named after a prefix and their number.
func NewJSONScanner(prefix string, size int) JSONScanner {
	return JSONScanner{head: []byte(`{"push":{"channel":"` + prefix), size: size}
}

// Push parses a line, and reports whether it has the form of a push.
func (s *JSONScanner) Push(line []byte) (f Found, ok bool) {
	if !bytes.HasPrefix(line, s.head) {
		return f, false
	}
	n, in := leadingNumber(line[len(s.head):])
	if len(in) < len(scanMiddle)+s.size+len(scanEnd) || string(in[:len(scanMiddle)]) != scanMiddle || n >= MaxStreams {
		return f, false
	}
	in = in[len(scanMiddle):]
	f.Channel, f.Data, in = uint32(n), in[:s.size], in[s.size:] //nolint:gosec // below MaxStreams
	if rest, has := bytes.CutPrefix(in, []byte(scanOffset)); has {
		f.Offset, in = leadingNumber(rest)
	}
	return f, string(in) == scanEnd
}

// leadingNumber parses the decimal number at the start of in, at most 18 digits, and returns the bytes after it. If there is no digit, or a
// needless leading zero, it returns nil for them, so that the caller's next comparison fails.
func leadingNumber(in []byte) (n uint64, rest []byte) {
	i := 0
	for i < len(in) && i < 18 && in[i]-'0' <= 9 {
		n = n*10 + uint64(in[i]-'0')
		i++
	}
	if i == 0 || in[0] == '0' && i > 1 {
		return 0, nil
	}
	return n, in[i:]
}
