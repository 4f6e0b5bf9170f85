package delta

import (
	"fmt"
	"unicode/utf8"
)

// parser is a strict parser of one JSON text (RFC 8259), which it reads into a tree. It stops at the first error and keeps it in err. After an
// error its position is the end of the text, so every loop ends.
type parser struct {
	text []byte
	t    *tree
	pos  int
	err  *FormatError
}

// fail stores an error at byte at, unless there was one before, and ends the parsing.
func (p *parser) fail(at int, format string, args ...any) {
	if p.err == nil {
		p.err = &FormatError{Offset: at, Reason: fmt.Sprintf(format, args...)}
	}
	p.pos = len(p.text)
}

// unexpected reports an error at the current byte.
func (p *parser) unexpected(want string) {
	if p.pos >= len(p.text) {
		p.fail(p.pos, "unexpected end of JSON, expected %s", want)
		return
	}
	r, _ := utf8.DecodeRune(p.text[p.pos:])
	p.fail(p.pos, "unexpected %q, expected %s", r, want)
}

// peek skips white space and returns the next byte, 0 at the end of the text.
func (p *parser) peek() byte {
	for ; p.pos < len(p.text); p.pos++ {
		switch b := p.text[p.pos]; b {
		case ' ', '\t', '\n', '\r':
		default:
			return b
		}
	}
	return 0
}

// member appends a node for the next value, and nodes for the members in it.
func (p *parser) member(m node, depth int) {
	m.kind = p.peek()
	m.value = int32(p.pos)
	i := len(p.t.nodes)
	p.t.nodes = append(p.t.nodes, m)
	if m.kind == '{' {
		p.object(int32(i), depth)
	} else {
		p.value(depth)
	}
	p.t.nodes[i].end = int32(p.pos)
	p.t.nodes[i].next = int32(len(p.t.nodes))
}

// value checks a value and skips it.
func (p *parser) value(depth int) {
	switch b := p.peek(); {
	case b == '"':
		p.quoted()
	case b == '{':
		p.object(none, depth)
	case b == '[':
		if !p.descend(depth) {
			return
		}
		for more := p.first(']'); more; more = p.next(']') {
			p.value(depth + 1)
		}
	case b == '-' || b >= '0' && b <= '9':
		p.number()
	case b == 't':
		p.literal("true")
	case b == 'f':
		p.literal("false")
	case b == 'n':
		p.literal("null")
	default:
		p.unexpected("a value")
	}
}

// none is the node of an object in an array; its members get no nodes. It is also the missing node of a merger.
const none = -1

// object reads the object that begins here and has the node parent.
func (p *parser) object(parent int32, depth int) {
	if !p.descend(depth) {
		return
	}
	for more := p.first('}'); more; more = p.next('}') {
		if p.peek() != '"' {
			p.unexpected("a member name")
			return
		}
		m := node{parent: parent, name: int32(p.pos + 1)}
		m.escaped = p.quoted()
		m.nameEnd = int32(p.pos - 1)
		if p.peek() != ':' {
			p.unexpected("':'")
			return
		}
		p.pos++
		if parent == none {
			p.value(depth + 1)
			continue
		}
		if m.escaped {
			p.unescape(&m)
		}
		p.member(m, depth+1)
	}
}

// unescape stores the name of m without its escapes.
func (p *parser) unescape(m *node) {
	var ok bool
	m.plain = int32(len(p.t.names))
	p.t.names, ok = appendUnescaped(p.t.names, p.text[m.name:m.nameEnd])
	m.plainEnd = int32(len(p.t.names))
	if !ok {
		p.fail(int(m.name)-1, "a member name with half of a surrogate pair")
	}
}

// descend skips the opening brace or bracket. It fails if the nesting is too deep.
func (p *parser) descend(depth int) bool {
	if depth == MaxDepth {
		p.fail(p.pos, "nested deeper than %d levels", MaxDepth)
		return false
	}
	p.pos++
	return true
}

// first reports whether the object or array is not empty. If it is empty, first skips its end.
func (p *parser) first(end byte) bool {
	if p.peek() == end {
		p.pos++
		return false
	}
	return p.err == nil
}

// next skips the comma before the next element and returns true, or skips the end of the object or array and returns false.
func (p *parser) next(end byte) bool {
	switch p.peek() {
	case ',':
		p.pos++
		return true
	case end:
		p.pos++
	default:
		p.unexpected(fmt.Sprintf("',' or %q", end))
	}
	return false
}

// literal skips true, false or null, whose first letter has been seen.
func (p *parser) literal(word string) {
	if text := p.text[p.pos:]; len(text) < len(word) || string(text[:len(word)]) != word {
		p.unexpected(word)
		return
	}
	p.pos += len(word)
}

// number skips a number.
func (p *parser) number() {
	p.sign("-")
	if !p.sign("0") {
		p.digits()
	}
	if p.sign(".") {
		p.digits()
	}
	if p.sign("eE") {
		p.sign("+-")
		p.digits()
	}
}

// sign skips the next byte if it is one of some, and reports whether it did.
func (p *parser) sign(some string) bool {
	if p.pos < len(p.text) {
		for i := range len(some) {
			if p.text[p.pos] == some[i] {
				p.pos++
				return true
			}
		}
	}
	return false
}

// digits skips at least one digit.
func (p *parser) digits() {
	start := p.pos
	for p.pos < len(p.text) && p.text[p.pos]-'0' <= 9 {
		p.pos++
	}
	if p.pos == start {
		p.unexpected("a digit")
	}
}

// ordinary marks the bytes that stand for themselves in a string and need no further check.
var ordinary = func() (table [256]bool) {
	for b := ' '; b < utf8.RuneSelf; b++ {
		table[b] = b != '"' && b != '\\'
	}
	return table
}()

// quoted skips a string, whose opening quote has been seen, and reports whether it contains escapes.
func (p *parser) quoted() (escaped bool) {
	text := p.text
	for i := p.pos + 1; i < len(text); {
		switch b := text[i]; {
		case ordinary[b]:
			i++
		case b == '"':
			p.pos = i + 1
			return escaped
		case b == '\\':
			n := escapeLen(text[i:])
			if n == 0 {
				p.fail(i, "an escape that JSON does not know")
				return false
			}
			escaped = true
			i += n
		case b < ' ':
			p.fail(i, "a control character in a string")
			return false
		default:
			r, size := utf8.DecodeRune(text[i:])
			if r == utf8.RuneError && size == 1 {
				p.fail(i, "invalid UTF-8 in a string")
				return false
			}
			i += size
		}
	}
	p.fail(len(text), "a string does not end")
	return false
}

// escapeLen returns the length of the escape at the start of b, 0 if there is no valid one.
func escapeLen(b []byte) int {
	if len(b) < 2 {
		return 0
	}
	switch b[1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return 2
	case 'u':
		if len(b) < 6 {
			return 0
		}
		for _, c := range b[2:6] {
			if _, ok := hexValue(c); !ok {
				return 0
			}
		}
		return 6
	}
	return 0
}
