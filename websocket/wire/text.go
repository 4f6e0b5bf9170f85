package wire

import "unicode/utf8"

// textCheck checks whether a text that arrives in pieces is UTF-8, and fails at the first byte that makes it invalid. The zero textCheck is at
// the start of a text.
type textCheck struct {
	begun [utf8.UTFMax]byte // an incomplete character at the end of the last piece
	n     uint8             // the number of its bytes
}

// add checks the next piece and reports whether the text can still become UTF-8.
func (t *textCheck) add(p []byte) bool {
	for t.n > 0 && len(p) > 0 {
		t.begun[t.n] = p[0]
		t.n++
		p = p[1:]
		if char := t.begun[:t.n]; utf8.FullRune(char) { // also true if the bytes can no longer become a character
			if !utf8.Valid(char) {
				return false
			}
			t.n = 0
		}
	}
	whole := len(p) - begunLen(p)
	t.n += uint8(copy(t.begun[t.n:], p[whole:]))
	return utf8.Valid(p[:whole])
}

// validText reports whether a whole text is UTF-8.
func validText(p []byte) bool { return utf8.Valid(p) }

// complete reports whether the text does not end within a character.
func (t *textCheck) complete() bool { return t.n == 0 }

// begunLen returns the number of bytes at the end of p that may be the beginning of a character.
func begunLen(p []byte) int {
	for n := 1; n < utf8.UTFMax && n <= len(p); n++ {
		if last := p[len(p)-n:]; utf8.RuneStart(last[0]) {
			if utf8.FullRune(last) {
				return 0
			}
			return n
		}
	}
	return 0
}
