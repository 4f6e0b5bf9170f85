package load

import "bytes"

// scanner finds publications in what a server says, without reading what surrounds them as JSON: nearly all lines are pushes of the same
// form, which differ in the number of the channel, the data, whose length is known, and the offset. Whatever is not exactly of this form
// it leaves to package protocol, which understands all.
type scanner struct {
	head []byte // {"push":{"channel":"PREFIX
	size int    // of the data
}

const (
	scanMiddle = `","pub":{"data":`
	scanOffset = `,"offset":`
	scanEnd    = `}}}`
)

func newScanner(prefix string, size int) scanner {
	return scanner{head: []byte(`{"push":{"channel":"` + prefix), size: size}
}

// found is a publication in a line.
type found struct {
	channel uint32
	data    []byte // borrowed from the line
	offset  uint64 // 0 when there is none
}

// push takes a line apart.
func (s *scanner) push(line []byte) (f found, ok bool) {
	if !bytes.HasPrefix(line, s.head) {
		return f, false
	}
	n, in := leadingNumber(line[len(s.head):])
	if len(in) < len(scanMiddle)+s.size+len(scanEnd) || string(in[:len(scanMiddle)]) != scanMiddle || n >= maxStreams {
		return f, false
	}
	in = in[len(scanMiddle):]
	f.channel, f.data, in = uint32(n), in[:s.size], in[s.size:] //nolint:gosec // below maxStreams
	if rest, has := bytes.CutPrefix(in, []byte(scanOffset)); has {
		f.offset, in = leadingNumber(rest)
	}
	return f, string(in) == scanEnd
}

// leadingNumber reads the digits that a text begins with, at most 18 of them. A number that has none, or a needless zero before it, is read
// as nothing: then what follows does not fit.
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

// nextLine cuts a frame at its first line end. A frame of one line, which nearly all are, ends without one.
func nextLine(frame []byte) (line, rest []byte) {
	i := bytes.IndexByte(frame, '\n')
	if i < 0 {
		return frame, nil
	}
	return frame[:i], frame[i+1:]
}
