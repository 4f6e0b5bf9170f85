package json

import "math"

// DefaultDepth is how deep a JSON value may be nested by default.
const DefaultDepth = 128

// Limits bound the accepted JSON. The zero value means the defaults, which the functions of this package use.
type Limits struct {
	// Depth is how deep objects and arrays may be nested in a value that is copied unchanged (data, the info of a client, a filter) or ignored.
	// Zero means DefaultDepth and negative means no limit: then a text of n bytes may take a stack of some 100·n bytes.
	Depth int
}

func (l Limits) withDefaults() Limits {
	if l.Depth == 0 {
		l.Depth = DefaultDepth
	}
	if l.Depth < 0 {
		l.Depth = math.MaxInt
	}
	return l
}

// CompactData checks that data is one JSON value and returns it in a form that fits on one line, as the encoders require for all raw values. If
// data has no line break outside of strings, it is returned as it is, without allocating. Otherwise the result is a copy without white space.
// Strings and numbers stay the same, byte for byte. The error is a *[SyntaxError], wrapped.
func CompactData(data []byte) ([]byte, error) { return Limits{}.CompactData(data) }

// CompactData is [CompactData] with other limits.
func (l Limits) CompactData(data []byte) ([]byte, error) {
	s := newScanner(data, l)
	s.skip()
	if err := s.finish("data"); err != nil {
		return nil, err
	}
	if !s.broken {
		return data, nil
	}
	return appendWithoutSpace(make([]byte, 0, len(data)), data), nil
}

// appendWithoutSpace appends a valid JSON text without the white space between its tokens.
func appendWithoutSpace(dst, text []byte) []byte {
	quoted := false
	for i := 0; i < len(text); i++ {
		switch b := text[i]; {
		case quoted && b == '\\': // the next byte cannot end the string
			dst = append(dst, b)
			i++
			dst = append(dst, text[i])
			continue
		case b == '"':
			quoted = !quoted
		case !quoted && (b == ' ' || b == '\t' || b == '\n' || b == '\r'):
			continue
		}
		dst = append(dst, text[i])
	}
	return dst
}
