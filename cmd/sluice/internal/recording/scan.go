package recording

import (
	"errors"
	"fmt"
)

// maxDepth is how deep JSON may be nested: as deep as encoding/json allows.
const maxDepth = 10_000

var errEndsEarly = errors.New("it ends early")

// location says where in the frame a value is, as far as that matters for symbols.
type location uint8

const (
	elsewhere location = iota
	atTop              // the frame itself
	inData             // the member "data" of the frame, or an element of it
)

// scan parses a frame in one pass. It checks that the frame is one JSON value, as strictly as encoding/json does, and records the values that
// may name the symbol. It does not allocate; the recorded values point into the frame.
func (f *scanner) scan(in []byte) error {
	*f = scanner{in: in}
	f.skipSpace()
	if err := f.value(atTop); err != nil {
		return err
	}
	f.skipSpace()
	if f.at < len(f.in) {
		return f.unexpected()
	}
	return nil
}

func (f *scanner) unexpected() error {
	if f.at >= len(f.in) {
		return errEndsEarly
	}
	return fmt.Errorf("unexpected %q at byte %d", f.in[f.at], f.at)
}

// peek returns the next byte. At the end it returns 0, which is not valid anywhere in JSON.
func (f *scanner) peek() byte {
	if f.at < len(f.in) {
		return f.in[f.at]
	}
	return 0
}

func (f *scanner) skipSpace() {
	for f.at < len(f.in) {
		switch f.in[f.at] {
		case ' ', '\t', '\n', '\r':
			f.at++
		default:
			return
		}
	}
}

func (f *scanner) value(where location) error {
	switch c := f.peek(); c {
	case '{':
		return f.object(where)
	case '[':
		return f.array(where)
	case '"':
		_, err := f.text()
		return err
	case 't':
		return f.literal("true")
	case 'f':
		return f.literal("false")
	case 'n':
		return f.literal("null")
	default:
		return f.number()
	}
}

// enter skips an opening bracket. After an error, leave need not be called.
func (f *scanner) enter() error {
	if f.depth++; f.depth > maxDepth {
		return fmt.Errorf("it is nested deeper than %d levels", maxDepth)
	}
	f.at++
	f.skipSpace()
	return nil
}

// leave skips the closing bracket end, and reports whether it was the next byte.
func (f *scanner) leave(end byte) bool {
	if f.peek() != end {
		return false
	}
	f.at++
	f.depth--
	return true
}

func (f *scanner) object(where location) error {
	if err := f.enter(); err != nil || f.leave('}') {
		return err
	}
	for {
		f.skipSpace()
		if f.peek() != '"' {
			return f.unexpected()
		}
		key, err := f.text()
		if err != nil {
			return err
		}
		if f.skipSpace(); f.peek() != ':' {
			return f.unexpected()
		}
		f.at++
		f.skipSpace()
		if err := f.member(where, key); err != nil {
			return err
		}
		more, err := f.more('}')
		if !more {
			return err
		}
	}
}

func (f *scanner) member(where location, key []byte) error {
	if where == elsewhere {
		return f.value(elsewhere)
	}
	if f.peek() == '"' {
		text, err := f.text()
		if err == nil {
			f.addMember(where, key, text)
		}
		return err
	}
	if where == atTop && string(key) == "data" {
		return f.value(inData)
	}
	return f.value(elsewhere)
}

func (f *scanner) array(where location) error {
	if err := f.enter(); err != nil || f.leave(']') {
		return err
	}
	inner := elsewhere
	if where == inData {
		inner = inData
	}
	for {
		f.skipSpace()
		start := f.at
		if err := f.value(inner); err != nil {
			return err
		}
		if where == atTop {
			f.addElement(f.in[start:f.at])
		}
		more, err := f.more(']')
		if !more {
			return err
		}
	}
}

// more skips the comma between two elements, or the closing bracket after the last. It reports whether an element follows.
func (f *scanner) more(end byte) (bool, error) {
	f.skipSpace()
	if f.peek() == ',' {
		f.at++
		return true, nil
	}
	if f.leave(end) {
		return false, nil
	}
	return false, f.unexpected()
}

// text skips a string and returns the bytes between its quotes, with escapes.
func (f *scanner) text() ([]byte, error) {
	f.at++ // the quote
	start := f.at
	for f.at < len(f.in) {
		switch c := f.in[f.at]; {
		case c == '"':
			f.at++
			return f.in[start : f.at-1], nil
		case c == '\\':
			if err := f.escape(); err != nil {
				return nil, err
			}
		case c < 0x20:
			return nil, f.unexpected()
		default:
			f.at++
		}
	}
	return nil, errEndsEarly
}

func (f *scanner) escape() error {
	f.at++ // the backslash
	switch f.peek() {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		f.at++
		return nil
	case 'u':
		f.at++
	default:
		return f.unexpected()
	}
	for range 4 {
		switch c := f.peek(); {
		case c >= '0' && c <= '9', c >= 'a' && c <= 'f', c >= 'A' && c <= 'F':
			f.at++
		default:
			return f.unexpected()
		}
	}
	return nil
}

func (f *scanner) literal(word string) error {
	for i := range len(word) {
		if f.peek() != word[i] {
			return f.unexpected()
		}
		f.at++
	}
	return nil
}

func (f *scanner) number() error {
	if f.peek() == '-' {
		f.at++
	}
	if f.peek() == '0' {
		f.at++
	} else if err := f.digits(); err != nil {
		return err
	}
	if f.peek() == '.' {
		f.at++
		if err := f.digits(); err != nil {
			return err
		}
	}
	if c := f.peek(); c != 'e' && c != 'E' {
		return nil
	}
	f.at++
	if c := f.peek(); c == '+' || c == '-' {
		f.at++
	}
	return f.digits()
}

// digits skips one or more digits.
func (f *scanner) digits() error {
	n := countDigits(f.in[f.at:])
	if n == 0 {
		return f.unexpected()
	}
	f.at += n
	return nil
}
