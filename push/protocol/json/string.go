package json

import (
	"slices"
	"unicode/utf16"
	"unicode/utf8"
)

const hexDigits = "0123456789abcdef"

// appendString appends s as a JSON string. Invalid UTF-8 becomes U+FFFD, byte by byte as in encoding/json. The line separators U+2028 and U+2029
// are escaped, because parsers that evaluate JSON as JavaScript end a line there.
func appendString[T string | []byte](dst []byte, s T) []byte {
	dst = append(dst, '"')
	start := 0 // all bytes before it are written
	for i := 0; i < len(s); {
		if b := s[i]; b < utf8.RuneSelf {
			if b >= ' ' && b != '"' && b != '\\' {
				i++
				continue
			}
			dst = append(dst, s[start:i]...)
			dst = appendEscape(dst, b)
			i++
			start = i
			continue
		}
		r, size := utf8.DecodeRuneInString(string(s[i:min(i+utf8.UTFMax, len(s))]))
		switch {
		case r == utf8.RuneError && size == 1:
			dst = append(append(dst, s[start:i]...), `\ufffd`...)
			start = i + size
		case r == '\u2028' || r == '\u2029':
			dst = append(append(dst, s[start:i]...), `\u202`...)
			dst = append(dst, hexDigits[r&0xf])
			start = i + size
		}
		i += size
	}
	dst = append(dst, s[start:]...)
	return append(dst, '"')
}

// appendEscape appends an ASCII character that has to be escaped in a string.
func appendEscape(dst []byte, b byte) []byte {
	switch b {
	case '"', '\\':
		return append(dst, '\\', b)
	case '\b':
		return append(dst, '\\', 'b')
	case '\f':
		return append(dst, '\\', 'f')
	case '\n':
		return append(dst, '\\', 'n')
	case '\r':
		return append(dst, '\\', 'r')
	case '\t':
		return append(dst, '\\', 't')
	default:
		return append(dst, '\\', 'u', '0', '0', hexDigits[b>>4], hexDigits[b&0xf])
	}
}

// appendStringMap appends m as a JSON object whose members are ordered by name, so that equal values are equal bytes.
func appendStringMap(dst []byte, m map[string]string) []byte {
	var few [16]string
	names := few[:0] // on the stack for the few tags that publications have
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	dst = append(dst, '{')
	for i, name := range names {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(appendString(dst, name), ':')
		dst = appendString(dst, m[name])
	}
	return append(dst, '}')
}

// escapeLen returns the length of the escape at the beginning of b, 0 if there is none.
func escapeLen(b []byte) int {
	if len(b) < 2 {
		return 0
	}
	switch b[1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return 2
	case 'u':
		if _, ok := unicodeEscape(b); ok {
			return 6
		}
	}
	return 0
}

// unicodeEscape returns the code unit of the escape \uXXXX at the beginning of b.
func unicodeEscape(b []byte) (unit rune, ok bool) {
	if len(b) < 6 || b[0] != '\\' || b[1] != 'u' {
		return 0, false
	}
	for _, c := range b[2:6] {
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c >= 'a' && c <= 'f':
			c -= 'a' - 10
		case c >= 'A' && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, false
		}
		unit = unit<<4 | rune(c)
	}
	return unit, true
}

// unescape returns a copy of the content of a valid string, without its escapes. Half of a surrogate pair becomes U+FFFD, as in encoding/json.
func unescape(raw []byte) []byte {
	out := make([]byte, 0, len(raw))
	for i := 0; i < len(raw); {
		if raw[i] != '\\' {
			out = append(out, raw[i])
			i++
			continue
		}
		unit, ok := unicodeEscape(raw[i:])
		if !ok {
			out = append(out, shortEscape(raw[i+1]))
			i += 2
			continue
		}
		i += 6
		if utf16.IsSurrogate(unit) {
			second, _ := unicodeEscape(raw[i:])
			if unit = utf16.DecodeRune(unit, second); unit != utf8.RuneError {
				i += 6
			}
		}
		out = utf8.AppendRune(out, unit)
	}
	return out
}

// shortEscape returns the character of the escape \c.
func shortEscape(c byte) byte {
	switch c {
	case 'b':
		return '\b'
	case 'f':
		return '\f'
	case 'n':
		return '\n'
	case 'r':
		return '\r'
	case 't':
		return '\t'
	default:
		return c
	}
}
