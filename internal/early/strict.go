package early

import "bytes"

var (
	crlf        = []byte("\r\n")
	requestLine = []byte(" HTTP/1.1")
	hostName    = []byte("host")
)

// framing lists the header fields, in lower case, that say that something follows the head, or that the server has to answer before that.
// A request with one of them is net/http's.
var framing = [...]string{"content-length", "transfer-encoding", "expect", "trailer", "te"}

// isPlain reports whether the head of a request is written so plainly that every reader takes it for the same: a path without escapes, lines
// that end with CRLF, names of tokens only, one host, and nothing that announces a body (RFC 9112 §2.2, §3, §5.1, §6). text ends with an
// empty line. net/http refuses or rewrites some of what is not plain, so whatever is not is left to it.
func isPlain(text []byte) bool {
	line, rest, _ := bytes.Cut(text, crlf)
	target, isHTTP := bytes.CutSuffix(line[len(get):], requestLine)
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
		for _, f := range framing {
			if bytes.EqualFold(name, []byte(f)) {
				return false
			}
		}
		if bytes.EqualFold(name, hostName) {
			if hosts++; !all(bytes.Trim(value, " \t"), isHost) {
				return false
			}
		}
	}
}

// isPlainTarget reports whether target is a path that needs no decoding and no cleaning, and perhaps a query.
func isPlainTarget(target []byte) bool {
	path, query, _ := bytes.Cut(target, []byte("?"))
	clean := bytes.HasPrefix(path, []byte("/")) && !bytes.Contains(path, []byte("//")) && !bytes.Contains(path, []byte("/."))
	return clean && all(path, isPath) && all(query, isQuery)
}

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

// isQuery reports whether c may stand in a query (RFC 3986 §3.4): it is handed on as it is, escapes too.
func isQuery(c byte) bool { return isPath(c) || bytes.IndexByte([]byte("%!$&'()*+,;=:@?"), c) >= 0 }
