package wire

import "strings"

// Access to unexported state for the tests of this package.
var (
	Unmask      = unmask
	UnmaskWords = unmaskWords
	KeyAt       = keyAt
)

// TextCheck is the checker of text that arrives in pieces.
type TextCheck struct{ textCheck }

func (t *TextCheck) Add(p []byte) bool { return t.add(p) }

func (t *TextCheck) Complete() bool { return t.complete() }

// Working reports whether the codec holds more than the struct.
func (c *Codec) Working() bool { return c.work != nil }

// SetKey gives the handshake a key of 24 characters that the test knows.
func (h *ClientHandshake) SetKey(key string) {
	h.request = []byte(strings.Replace(string(h.request), h.key, key, 1))
	h.key = key
}

// Step makes the codec decode all frames on the general path, without decodeWhole.
func (c *Codec) Step() *Codec {
	c.e.whole = -1
	return c
}

// Held returns the size of the memory that the codec holds for the current message.
func (c *Codec) Held() int { return cap(c.currentWork().message) }
