package wire

import "unicode/utf8"

// textCheck finds out whether a text that arrives in pieces is UTF-8, at the earliest byte that decides it. The zero textCheck is
// at the start of a text.
type textCheck struct {
	begun [utf8.UTFMax]byte // a character of which the rest has not arrived
	n     uint8             // its bytes so far
}

// add takes the next piece and reports whether the text can still become UTF-8.
func (t *textCheck) add(p []byte) bool {
	for t.n > 0 && len(p) > 0 {
		t.begun[t.n] = p[0]
		t.n++
		p = p[1:]
		if char := t.begun[:t.n]; utf8.FullRune(char) { // true also as soon as it cannot become a character
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

// complete reports whether no character is left unfinished.
func (t *textCheck) complete() bool { return t.n == 0 }

// begunLen is the number of bytes at the end of p that may be the beginning of a character.
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
