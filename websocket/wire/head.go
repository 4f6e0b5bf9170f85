package wire

import (
	"bytes"
	"net/http"
	"net/textproto"
	"strings"
)

// This file scans the head of an HTTP/1.1 message. A handshake has no body, so the head is all of it. Servers scan requests, clients responses.

// head is a scanner for the lines of a head. It checks the form of each line (RFC 9112) when the line has arrived, so that malformed input is
// refused at its first bad line and no byte is searched twice. It keeps positions only.
type head struct {
	maxBytes, maxLines int
	checkFirst         func(line []byte) *Refusal // checks the first line

	line  int // the start of the first unchecked line
	seen  int // the bytes that have been searched for line ends
	lines int // checked lines, including the first
}

// scan checks the lines that have arrived since the last call. When the head is complete, end is the position behind its empty line. Each line
// must end in CRLF; a lone CR or LF is refused (RFC 9112 §2.2).
func (h *head) scan(in []byte) (end int, refusal *Refusal) {
	window := in[:min(len(in), h.maxBytes)]
	for {
		i := bytes.IndexByte(window[h.seen:], '\n')
		if i < 0 {
			h.seen = len(window)
			if len(window) == h.maxBytes {
				return 0, &Refusal{Status: http.StatusRequestHeaderFieldsTooLarge, Reason: "header is too large"}
			}
			return 0, nil
		}
		line, ok := bytes.CutSuffix(window[h.line:h.seen+i], []byte{'\r'})
		if !ok {
			return 0, malformed("line does not end in CRLF")
		}
		h.seen += i + 1
		h.line = h.seen
		h.lines++
		switch {
		case h.lines == 1:
			refusal = h.checkFirst(line)
		case len(line) == 0:
			return h.line, nil
		case h.lines-1 > h.maxLines:
			return 0, &Refusal{Status: http.StatusRequestHeaderFieldsTooLarge, Reason: "too many header lines"}
		default:
			refusal = checkFieldLine(line)
		}
		if refusal != nil {
			return 0, refusal
		}
	}
}

// checkFieldLine checks "name: value" (RFC 9112 §5). It allows no space before the colon, no continuation lines and no control characters.
func checkFieldLine(line []byte) *Refusal {
	colon := bytes.IndexByte(line, ':')
	if colon < 0 || !isToken(line[:colon]) {
		return malformed("malformed header line")
	}
	if !isValue(line[colon+1:]) {
		return malformed("control character in a header line")
	}
	return nil
}

// parseFields cuts checked lines, up to the empty one, into fields under their canonical names.
func parseFields(lines string) http.Header {
	n := strings.Count(lines, "\n") - 1 // every LF follows a CR, as scan has checked
	header := make(http.Header, n)
	values := make([]string, n) // one allocation for the values of fields that occur once
	for i := 0; ; i++ {
		var line string
		line, lines, _ = strings.Cut(lines, "\n")
		if len(line) <= 1 { // only the CR
			return header
		}
		name, value, _ := strings.Cut(line[:len(line)-1], ":")
		name, value = canonical(name), strings.Trim(value, " \t")
		if earlier := header[name]; earlier != nil {
			header[name] = append(earlier, value)
			continue
		}
		values[i] = value
		header[name] = values[i : i+1 : i+1]
	}
}

// canonical returns the canonical name of a field. For the usual spellings of common fields it does not allocate.
func canonical(name string) string {
	if known, ok := usual[name]; ok {
		return known
	}
	return textproto.CanonicalMIMEHeaderKey(name)
}

var usual = map[string]string{
	"Sec-WebSocket-Key": "Sec-Websocket-Key", "sec-websocket-key": "Sec-Websocket-Key",
	"Sec-WebSocket-Version": "Sec-Websocket-Version", "sec-websocket-version": "Sec-Websocket-Version",
	"Sec-WebSocket-Extensions": "Sec-Websocket-Extensions", "sec-websocket-extensions": "Sec-Websocket-Extensions",
	"Sec-WebSocket-Protocol": "Sec-Websocket-Protocol", "sec-websocket-protocol": "Sec-Websocket-Protocol",
	"Sec-WebSocket-Accept": "Sec-Websocket-Accept", "sec-websocket-accept": "Sec-Websocket-Accept",
	"Host": "Host", "host": "Host", "Upgrade": "Upgrade", "upgrade": "Upgrade", "Connection": "Connection", "connection": "Connection",
	"Origin": "Origin", "origin": "Origin", "User-Agent": "User-Agent", "user-agent": "User-Agent", "Cookie": "Cookie", "cookie": "Cookie",
}

// announcesBody reports whether the fields announce a body. A handshake has none, and a parser that guesses the end of a body allows request
// smuggling.
func announcesBody(h http.Header) bool {
	length := h["Content-Length"]
	return len(h["Transfer-Encoding"]) > 0 || len(length) > 1 || len(length) == 1 && length[0] != "0"
}

func malformed(reason string) *Refusal {
	return &Refusal{Status: http.StatusBadRequest, Reason: reason}
}

// isToken reports whether s is a token of HTTP (RFC 9110 §5.6.2), which is never empty.
func isToken[T string | []byte](s T) bool { return len(s) > 0 && only(&ofTokens, s) }

// isHost reports whether s consists of characters of a host and port (RFC 3986 §3.2.2). It does not check whether the host exists.
func isHost(s string) bool { return s != "" && only(&ofHosts, s) }

// set is a set of bytes.
type set [256]bool

var (
	ofTokens = setOf("!#$%&'*+-.^_`|~")
	ofHosts  = setOf("-._~%!$&'()*+,;=:[]")
)

// setOf returns the set of letters, digits and the bytes of others.
func setOf(others string) (all set) {
	for b := range len(all) {
		all[b] = isLetter(byte(b)) || isDigit(byte(b)) || strings.IndexByte(others, byte(b)) >= 0
	}
	return all
}

// only reports whether all bytes of s are in the set.
func only[T string | []byte](in *set, s T) bool {
	for i := range len(s) {
		if !in[s[i]] {
			return false
		}
	}
	return true
}

// isValue reports whether s may be the value of a field (RFC 9110 §5.5). It allows no control characters but tabs, so that the value stays on
// its line.
func isValue[T string | []byte](s T) bool {
	for i := range len(s) {
		if b := s[i]; b < ' ' && b != '\t' || b == 0x7f {
			return false
		}
	}
	return true
}

// isTarget reports whether s consists of characters of a request target (RFC 9112 §3.2): visible ASCII without a fragment.
func isTarget(s string) bool {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] >= 0x7f || s[i] == '#' {
			return false
		}
	}
	return s != ""
}

func isLetter(b byte) bool { return 'a' <= b|0x20 && b|0x20 <= 'z' }

func isDigit(b byte) bool { return '0' <= b && b <= '9' }
