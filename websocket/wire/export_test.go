package wire

// Doors for the tests of this package.
var (
	Unmask = unmask
	KeyAt  = keyAt
)

// TextCheck is the checker of text that arrives in pieces.
type TextCheck struct{ textCheck }

func (t *TextCheck) Add(p []byte) bool { return t.add(p) }

func (t *TextCheck) Complete() bool { return t.complete() }
