package json

import (
	"fmt"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// scanner is a strict parser of one JSON text (RFC 8259): it checks skipped values as closely as returned ones. It stops at the first syntax
// error, which stays in err. After that it is at the end of the text, every reading method returns zero, and loops over members and elements
// end. So callers check err once, at the end.
//
// A valid value of the wrong type is no syntax error: it is skipped and noted in ill, where the first one counts, and reading goes on. So the ID
// of a command is found even if it follows such a value.
type scanner struct {
	data []byte
	pos  int
	err  *SyntaxError

	where string // the present request or result, for instance subscribe; begins the message of ill
	ill   *typeError

	key      []byte // name of the current member, without its quotes
	maxDepth int    // of a skipped or copied value
	depth    int    // nesting at the present byte in such a value
	broken   bool   // a line break was seen between tokens
}

// typeError describes a valid value of the wrong type.
type typeError struct {
	where, field, want string
	refused            string // what is wrong with a value of any type; then field and want are empty
	offset             int
}

func newScanner(data []byte, l Limits) scanner {
	return scanner{data: data, maxDepth: l.withDefaults().Depth}
}

// fail records a syntax error at byte at, and ends the reading.
func (s *scanner) fail(at int, reason string) {
	if s.err == nil {
		s.err = &SyntaxError{Offset: at, Reason: reason}
	}
	s.pos = len(s.data)
}

// unexpected fails at the current byte.
func (s *scanner) unexpected(want string) {
	if s.pos >= len(s.data) {
		s.fail(s.pos, "unexpected end, expected "+want)
		return
	}
	r, _ := utf8.DecodeRune(s.data[s.pos:])
	s.fail(s.pos, "unexpected "+strconv.QuoteRune(r)+", expected "+want)
}

// illTyped records that the value that begins at byte at does not have the type of field.
func (s *scanner) illTyped(field, want string, at int) {
	if s.ill == nil && s.err == nil {
		s.ill = &typeError{where: s.where, field: field, want: want, offset: at}
	}
}

// refuse records that the value at byte at is JSON that some parsers cannot read.
func (s *scanner) refuse(reason string, at int) {
	if s.ill == nil && s.err == nil {
		s.ill = &typeError{where: s.where, refused: reason, offset: at}
	}
}

// peek skips white space and returns the next byte, 0 at the end of the text.
func (s *scanner) peek() byte {
	for ; s.pos < len(s.data); s.pos++ {
		switch b := s.data[s.pos]; b {
		case ' ', '\t':
		case '\n', '\r':
			s.broken = true
		default:
			return b
		}
	}
	return 0
}

// end checks that nothing follows.
func (s *scanner) end() {
	if s.peek(); s.pos < len(s.data) {
		s.unexpected("the end")
	}
}

// begin enters the object that the whole text has to be.
func (s *scanner) begin() bool {
	if s.peek() != '{' {
		s.unexpected("'{'")
	}
	return s.enter("")
}

// finish checks that nothing follows, and returns the error of the text.
func (s *scanner) finish(what string) error {
	s.end()
	switch {
	case s.err != nil:
		return fmt.Errorf("protocol: decode %s: %w", what, s.err)
	case s.ill != nil:
		return fmt.Errorf("protocol: decode %s: %w", what, s.ill.fatal())
	default:
		return nil
	}
}

// enter enters an object and moves to its first member. It returns false if there is none: the object is empty, or another value is in its
// place, where null counts as absent. Loops read
//
//	for more := s.enter(field); more; more = s.next() { switch string(s.key) … }
//
// and must consume exactly one value in each iteration.
func (s *scanner) enter(field string) bool {
	switch s.peek() {
	case '{':
		s.pos++
		if s.peek() == '}' {
			s.pos++
			return false
		}
		return s.member()
	case 'n':
		s.literal("null")
	default:
		s.skipFor(field, "an object")
	}
	return false
}

// next moves to the next member of the current object, or past its end.
func (s *scanner) next() bool {
	switch s.peek() {
	case ',':
		s.pos++
		s.peek()
		return s.member()
	case '}':
		s.pos++
	default:
		s.unexpected("',' or '}'")
	}
	return false
}

// member reads a member's name and colon.
func (s *scanner) member() bool {
	if s.peek() != '"' {
		s.unexpected("a member name")
		return false
	}
	raw, escaped := s.quoted()
	if escaped {
		raw = unescape(raw)
	}
	s.key = raw
	if s.peek() != ':' {
		s.unexpected("':'")
		return false
	}
	s.pos++
	return s.err == nil
}

// enterArray enters an array and moves to its first element, like enter for objects; nextElement continues.
func (s *scanner) enterArray(field string) bool {
	switch s.peek() {
	case '[':
		s.pos++
		if s.peek() == ']' {
			s.pos++
			return false
		}
		return s.err == nil
	case 'n':
		s.literal("null")
	default:
		s.skipFor(field, "an array")
	}
	return false
}

func (s *scanner) nextElement() bool {
	switch s.peek() {
	case ',':
		s.pos++
		return s.err == nil
	case ']':
		s.pos++
	default:
		s.unexpected("',' or ']'")
	}
	return false
}

// skipFor skips a value of the wrong type.
func (s *scanner) skipFor(field, want string) {
	s.peek()
	at := s.pos
	s.skip()
	s.illTyped(field, want, at)
}

// str reads a string and copies it; null is "".
func (s *scanner) str(field string) string {
	switch s.peek() {
	case '"':
		raw, escaped := s.quoted()
		if escaped {
			raw = unescape(raw)
		}
		return string(raw)
	case 'n':
		s.literal("null")
	default:
		s.skipFor(field, "a string")
	}
	return ""
}

// boolean reads true or false; null is false.
func (s *scanner) boolean(field string) bool {
	switch s.peek() {
	case 't':
		return s.literal("true")
	case 'f':
		s.literal("false")
	case 'n':
		s.literal("null")
	default:
		s.skipFor(field, "true or false")
	}
	return false
}

// unsigned reads an integer between 0 and most; null is 0.
func (s *scanner) unsigned(field string, most uint64) uint64 {
	if s.peek() == 'n' {
		s.literal("null")
		return 0
	}
	at := s.pos
	s.skip()
	n, ok := parseUint(s.data[at:s.pos])
	if !ok || n > most {
		s.illTyped(field, "an integer between 0 and "+strconv.FormatUint(most, 10), at)
		return 0
	}
	return n
}

// signed32 reads an integer of 32 bits; null is 0.
func (s *scanner) signed32(field string) int32 {
	if s.peek() == 'n' {
		s.literal("null")
		return 0
	}
	at := s.pos
	s.skip()
	n, err := strconv.ParseInt(string(s.data[at:s.pos]), 10, 32)
	if err != nil {
		s.illTyped(field, "an integer of 32 bits", at)
		return 0
	}
	return int32(n)
}

// stringMap reads an object of strings, nil if it is empty.
func (s *scanner) stringMap(field string) map[string]string {
	var m map[string]string
	for more := s.enter(field); more; more = s.next() {
		if m == nil {
			m = make(map[string]string)
		}
		name := string(s.key)
		m[name] = s.str(field)
	}
	return m
}

// raw returns the bytes of a value, which share the memory of the text. If the value spans several lines, raw returns a copy without white
// space.
func (s *scanner) raw() []byte {
	s.peek()
	at := s.pos
	before := s.broken
	s.broken = false
	s.skip()
	if s.err != nil {
		return nil
	}
	value := s.data[at:s.pos:s.pos]
	if s.broken {
		value = appendWithoutSpace(make([]byte, 0, len(value)), value)
	}
	s.broken = s.broken || before
	return value
}

// rawUnlessNull is raw for values where null counts as absent.
func (s *scanner) rawUnlessNull() []byte {
	if value := s.raw(); string(value) != "null" {
		return value
	}
	return nil
}

// skip skips one value.
func (s *scanner) skip() {
	switch b := s.peek(); {
	case b == '"':
		s.quoted()
	case b == '{' || b == '[':
		s.skipNested(b)
	case b == '-' || b >= '0' && b <= '9':
		s.number()
	case b == 't':
		s.literal("true")
	case b == 'f':
		s.literal("false")
	case b == 'n':
		s.literal("null")
	default:
		s.unexpected("a value")
	}
}

// skipNested skips the object or the array that begins here.
func (s *scanner) skipNested(open byte) {
	if s.depth == s.maxDepth {
		s.refuse("a value is nested deeper than "+strconv.Itoa(s.maxDepth)+" levels", s.pos)
		s.skipRefused()
		return
	}
	s.depth++
	if open == '{' {
		for more := s.enter(""); more; more = s.next() {
			s.skip()
		}
	} else {
		for more := s.enterArray(""); more; more = s.nextElement() {
			s.skip()
		}
	}
	s.depth--
}

// skipRefused skips the object or the array that begins here without recursion: up to the matching bracket, without a check of its content.
func (s *scanner) skipRefused() {
	for open := 0; s.pos < len(s.data); {
		switch s.data[s.pos] {
		case '"':
			s.quoted() // moves on
			continue
		case '[', '{':
			open++
		case ']', '}':
			if open--; open == 0 {
				s.pos++
				return
			}
		case '\n', '\r':
			s.broken = true
		}
		s.pos++
	}
	s.unexpected("']' or '}'")
}

// literal skips true, false or null, whose first letter the caller has seen.
func (s *scanner) literal(word string) bool {
	if len(s.data)-s.pos < len(word) || string(s.data[s.pos:s.pos+len(word)]) != word {
		s.unexpected("a value")
		return false
	}
	s.pos += len(word)
	return true
}

// number skips a number.
func (s *scanner) number() {
	if s.at('-') {
		s.pos++
	}
	if s.at('0') {
		s.pos++
	} else {
		s.digits()
	}
	if s.at('.') {
		s.pos++
		s.digits()
	}
	if s.at('e') || s.at('E') {
		s.pos++
		if s.at('+') || s.at('-') {
			s.pos++
		}
		s.digits()
	}
}

// digits skips at least one digit.
func (s *scanner) digits() {
	start := s.pos
	for s.pos < len(s.data) && s.data[s.pos]-'0' <= 9 {
		s.pos++
	}
	if s.pos == start {
		s.unexpected("a digit")
	}
}

func (s *scanner) at(b byte) bool { return s.pos < len(s.data) && s.data[s.pos] == b }

// quoted skips a string, whose opening quote the caller has seen. It returns the bytes between the quotes, which share the memory of the text,
// and whether they contain escapes.
func (s *scanner) quoted() (raw []byte, escaped bool) {
	start := s.pos + 1
	for i := start; i < len(s.data); {
		switch b := s.data[i]; {
		case b == '"':
			s.pos = i + 1
			return s.data[start:i], escaped
		case b == '\\':
			n := escapeLen(s.data[i:])
			if n == 0 {
				s.fail(i, "an escape that JSON does not know")
				return nil, false
			}
			escaped = true
			if n == 6 {
				n = s.surrogates(i)
			}
			i += n
		case b < ' ':
			s.fail(i, "a control character in a string")
			return nil, false
		case b < utf8.RuneSelf:
			i++
		default:
			r, size := utf8.DecodeRune(s.data[i:])
			if r == utf8.RuneError && size == 1 {
				s.fail(i, "invalid UTF-8 in a string")
				return nil, false
			}
			i += size
		}
	}
	s.fail(len(s.data), "a string does not end")
	return nil, false
}

// surrogates returns the length of the escape \uXXXX at byte i, together with the second half of a pair. It refuses half of a pair, which stands
// for no character (RFC 8259, section 8.2): strict parsers refuse the whole text, and one publisher must not disconnect their users.
func (s *scanner) surrogates(i int) int {
	unit, _ := unicodeEscape(s.data[i:])
	if !utf16.IsSurrogate(unit) {
		return 6
	}
	if second, ok := unicodeEscape(s.data[i+6:]); ok && utf16.DecodeRune(unit, second) != utf8.RuneError {
		return 12
	}
	s.refuse("half of a surrogate pair in a string", i)
	return 6
}

// parseUint parses a decimal number of digits only, which has to fit 64 bits.
func parseUint(digits []byte) (uint64, bool) {
	if len(digits) == 0 || len(digits) > 19 { // 19 digits always fit
		return 0, false
	}
	var n uint64
	for _, c := range digits {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + uint64(c-'0')
	}
	return n, true
}
