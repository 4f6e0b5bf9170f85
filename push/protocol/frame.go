package protocol

import "bytes"

// NextLine returns the first line of a frame that is not blank, without its line end, and what follows it; nil when there is
// none. Both are borrowed from frame. Each line is one command or one reply:
//
//	for line, rest := NextLine(frame); line != nil; line, rest = NextLine(rest) { … }
func NextLine(frame []byte) (line, rest []byte) {
	for len(frame) > 0 {
		line, rest, _ = bytes.Cut(frame, []byte{'\n'})
		if line = bytes.Trim(line, " \t\r"); len(line) > 0 {
			return line, rest
		}
		frame = rest
	}
	return nil, nil
}
