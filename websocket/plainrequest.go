package websocket

import "bytes"

var (
	crlf        = []byte("\r\n")
	httpVersion = []byte(" HTTP/1.1")
	hostField   = []byte("host")
)

// framingFields are the header fields, in lower case, that announce bytes behind the head or ask for an answer before them. Requests with
// one of them are left to net/http.
var framingFields = [...]string{"content-length", "transfer-encoding", "expect", "trailer", "te"}

// isPlain reports whether every HTTP reader would take the head of a request in the same way (RFC 9112 §2.2, §3, §5.1, §6). A plain
// request has a path without escapes, lines that end in CRLF, field names that are tokens, exactly one host, and no framing field. The
// argument starts with GET and ends with an empty line. Requests that are not plain are left to net/http, which refuses or rewrites
// some of them: reading them here would open a way around its checks.
func isPlain(head []byte) bool {
	line, rest, _ := bytes.Cut(head, crlf)
	target, isHTTP := bytes.CutSuffix(line[len(getMethod):], httpVersion)
	if !isHTTP || !isPlainTarget(target) {
		return false
	}
	hosts := 0
	for {
		line, rest, _ = bytes.Cut(rest, crlf)
		if len(line) == 0 {
			return hosts == 1 && len(rest) == 0
		}
		name, value, found := bytes.Cut(line, []byte(":"))
		if !found || len(name) == 0 || !all(name, isToken) || !all(value, isValue) {
			return false
		}
		for _, f := range framingFields {
			if bytes.EqualFold(name, []byte(f)) {
				return false
			}
		}
		if bytes.EqualFold(name, hostField) {
			if hosts++; !all(bytes.Trim(value, " \t"), isHost) {
				return false
			}
		}
	}
}

// isPlainTarget reports whether target is a path that needs no decoding and no cleaning, optionally with a query.
func isPlainTarget(target []byte) bool {
	path, query, _ := bytes.Cut(target, []byte("?"))
	clean := bytes.HasPrefix(path, []byte("/")) && !bytes.Contains(path, []byte("//")) && !bytes.Contains(path, []byte("/."))
	return clean && all(path, isPath) && all(query, isQuery)
}

// all reports whether is holds for each byte of text.
func all(text []byte, is func(c byte) bool) bool {
	for _, c := range text {
		if !is(c) {
			return false
		}
	}
	return true
}

func isAlnum(c byte) bool { return '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'z' }

// isToken reports whether c may stand in the name of a header field (RFC 9110 §5.6.2).
func isToken(c byte) bool { return isAlnum(c) || bytes.IndexByte([]byte("!#$%&'*+-.^_`|~"), c) >= 0 }

// isValue reports whether c may stand in the value of a header field (RFC 9110 §5.5).
func isValue(c byte) bool { return c == '\t' || c >= ' ' && c != 0x7f }

func isHost(c byte) bool { return isAlnum(c) || bytes.IndexByte([]byte(".-_:[]"), c) >= 0 }

func isPath(c byte) bool { return isAlnum(c) || bytes.IndexByte([]byte("/-._~"), c) >= 0 }

// isQuery reports whether c may stand in a query (RFC 3986 §3.4). Escapes may: the query is handed on undecoded.
func isQuery(c byte) bool { return isPath(c) || bytes.IndexByte([]byte("%!$&'()*+,;=:@?"), c) >= 0 }
