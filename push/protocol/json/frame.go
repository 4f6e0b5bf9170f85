package json

import "bytes"

// NextLine returns the first line of a frame that is not blank, without its line end, and the rest of the frame; nil if there is none. Both
// share the memory of frame. Each line is one command or one reply:
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
