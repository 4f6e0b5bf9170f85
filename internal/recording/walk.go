package recording

import (
	"errors"
	"fmt"
)

// maxDepth is how deep JSON may be nested: as deep as encoding/json allows.
const maxDepth = 10_000

var errEndsEarly = errors.New("it ends early")

// place is where in the frame a value stands, as far as symbols are concerned.
type place uint8

const (
	elsewhere place = iota
	atTop           // the frame itself
	inData          // the member "data" of the frame, or an element of it
)

// walk goes once through a frame: it checks that the frame is one JSON value, as strictly as encoding/json does, and notes what may
// name the symbol. It allocates nothing; what it notes points into the frame.
func (f *finder) walk(in []byte) error {
	*f = finder{in: in}
	f.space()
	if err := f.value(atTop); err != nil {
		return err
	}
	f.space()
	if f.at < len(f.in) {
		return f.unexpected()
	}
	return nil
}

func (f *finder) unexpected() error {
	if f.at >= len(f.in) {
		return errEndsEarly
	}
	return fmt.Errorf("unexpected %q at byte %d", f.in[f.at], f.at)
}

// peek returns the next byte, or 0, which is valid nowhere, at the end.
func (f *finder) peek() byte {
	if f.at < len(f.in) {
		return f.in[f.at]
	}
	return 0
}

func (f *finder) space() {
	for f.at < len(f.in) {
		switch f.in[f.at] {
		case ' ', '\t', '\n', '\r':
			f.at++
		default:
			return
		}
	}
}

func (f *finder) value(where place) error {
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

// enter passes an opening bracket. What closes it (see leave) needs no call after an error.
func (f *finder) enter() error {
	if f.depth++; f.depth > maxDepth {
		return fmt.Errorf("it is nested deeper than %d levels", maxDepth)
	}
	f.at++
	f.space()
	return nil
}

// leave passes the bracket end if it stands here.
func (f *finder) leave(end byte) bool {
	if f.peek() != end {
		return false
	}
	f.at++
	f.depth--
	return true
}

func (f *finder) object(where place) error {
	if err := f.enter(); err != nil || f.leave('}') {
		return err
	}
	for {
		f.space()
		if f.peek() != '"' {
			return f.unexpected()
		}
		key, err := f.text()
		if err != nil {
			return err
		}
		if f.space(); f.peek() != ':' {
			return f.unexpected()
		}
		f.at++
		f.space()
		if err := f.member(where, key); err != nil {
			return err
		}
		more, err := f.more('}')
		if !more {
			return err
		}
	}
}

func (f *finder) member(where place, key []byte) error {
	if where == elsewhere {
		return f.value(elsewhere)
	}
	if f.peek() == '"' {
		text, err := f.text()
		if err == nil {
			f.note(where, key, text)
		}
		return err
	}
	if where == atTop && string(key) == "data" {
		return f.value(inData)
	}
	return f.value(elsewhere)
}

func (f *finder) array(where place) error {
	if err := f.enter(); err != nil || f.leave(']') {
		return err
	}
	inner := elsewhere
	if where == inData {
		inner = inData
	}
	for {
		f.space()
		start := f.at
		if err := f.value(inner); err != nil {
			return err
		}
		if where == atTop {
			f.noteElement(f.in[start:f.at])
		}
		more, err := f.more(']')
		if !more {
			return err
		}
	}
}

// more passes the comma between two elements, or the bracket after the last.
func (f *finder) more(end byte) (bool, error) {
	f.space()
	if f.peek() == ',' {
		f.at++
		return true, nil
	}
	if f.leave(end) {
		return false, nil
	}
	return false, f.unexpected()
}

// text passes a string and returns what is between its quotes, escapes as they are.
func (f *finder) text() ([]byte, error) {
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

func (f *finder) escape() error {
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

func (f *finder) literal(word string) error {
	for i := range len(word) {
		if f.peek() != word[i] {
			return f.unexpected()
		}
		f.at++
	}
	return nil
}

func (f *finder) number() error {
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

// digits passes one digit or more.
func (f *finder) digits() error {
	n := countDigits(f.in[f.at:])
	if n == 0 {
		return f.unexpected()
	}
	f.at += n
	return nil
}
