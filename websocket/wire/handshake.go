package wire

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"net/textproto"
	"net/url"
	"runtime/debug"
	"strings"
)

// The handshake's request is read in two passes. The first one, scan, goes over the lines as they arrive and checks the form of
// each (RFC 9112), so that rubbish is refused at its first bad line and no byte is searched twice; it keeps nothing but positions.
// When the empty line is there, the second pass, parseRequest, copies the whole head into one string and cuts the fields out of it.
// What the fields have to say (RFC 6455 §4.2.1) is checked in accept.go, for this parser and for net/http alike.

// Request is the client's side of the handshake. Its strings may share one copy of the whole request: clone what is kept for long.
type Request struct {
	// Target is the request target as it was sent, Path its decoded path, RawQuery what follows the question mark.
	Target, Path, RawQuery string
	// Host is the host, with its port if one was given, that the client wants to talk to.
	Host string
	// Origin is the web page that asks, as "scheme://host[:port]" or "null"; empty when the client is no browser.
	Origin string
	// Protocols are the subprotocols offered, in the client's order.
	Protocols []string
	// Header holds all fields but Host under their canonical names. It is not to be changed.
	Header http.Header

	key string // Sec-WebSocket-Key, checked
}

// handshake is the state of a codec that waits for its request.
type handshake struct {
	options Options // with defaults
	line    int     // where the first line that was not checked starts
	seen    int     // bytes from the start in which no line end is left to find
	lines   int     // lines checked, the request line included
}

// decodeRequest is Decode until the request was answered.
func (c *Codec) decodeRequest(in []byte) (int, error) {
	end, refusal := c.hs.scan(in)
	if end == 0 && refusal == nil {
		return 0, nil
	}
	var response *Response
	var req *Request
	if refusal == nil {
		req, refusal = parseRequest(string(in[:end]))
	}
	if refusal == nil {
		response, refusal = c.hs.decide(req)
	}
	if refusal != nil {
		c.err = refusal
		c.state.Store(stateClosed)
		c.replies = refusal.AppendResponse(c.replies)
		return 0, refusal
	}
	c.take(response)
	c.replies = response.append(c.replies, req.key)
	c.hs = nil
	return end, nil
}

// take makes the codec do what the handshake agreed on.
func (c *Codec) take(r *Response) {
	c.subprotocol = r.Subprotocol
	if r.Opcode == OpText || r.Opcode == OpBinary {
		c.opcode = r.Opcode
	}
}

// decide is Options.accept with panics of the user's functions turned into a refusal.
func (h *handshake) decide(r *Request) (res *Response, refusal *Refusal) {
	defer func() {
		if p := recover(); p != nil {
			res = nil
			refusal = &Refusal{
				Status: http.StatusInternalServerError,
				Err:    fmt.Errorf("panic in Accept or CheckOrigin: %v\n%s", p, debug.Stack()),
			}
		}
	}()
	return h.options.accept(r)
}

// scan checks the lines that arrived since the last call and returns the length of the head, empty line included, once it is
// complete. Each line must end in CRLF; a lone CR or LF is refused (RFC 9112 §2.2).
func (h *handshake) scan(in []byte) (end int, refusal *Refusal) {
	window := in[:min(len(in), h.options.MaxHeaderBytes)]
	for {
		i := bytes.IndexByte(window[h.seen:], '\n')
		if i < 0 {
			h.seen = len(window)
			if len(window) == h.options.MaxHeaderBytes {
				return 0, &Refusal{Status: http.StatusRequestHeaderFieldsTooLarge, Reason: "request is too large"}
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
			refusal = checkRequestLine(line)
		case len(line) == 0:
			return h.line, nil
		case h.lines-1 > h.options.MaxHeaderLines:
			return 0, &Refusal{Status: http.StatusRequestHeaderFieldsTooLarge, Reason: "too many header lines"}
		default:
			refusal = checkFieldLine(line)
		}
		if refusal != nil {
			return 0, refusal
		}
	}
}

// checkRequestLine checks "GET target HTTP/1.1" with single spaces (RFC 9112 §3).
func checkRequestLine(line []byte) *Refusal {
	method, rest, ok := strings.Cut(string(line), " ")
	if !ok || !isToken(method) {
		return malformed("malformed request line")
	}
	target, version, ok := strings.Cut(rest, " ")
	if !ok || target == "" {
		return malformed("malformed request line")
	}
	for i := range len(target) {
		if target[i] <= ' ' || target[i] >= 0x7f || target[i] == '#' {
			return malformed("malformed request target")
		}
	}
	return checkMethod(method, version)
}

// checkMethod checks what RFC 6455 §4.1 demands of the request line besides its target.
func checkMethod(method, version string) *Refusal {
	if version != "HTTP/1.1" {
		name, digits, _ := strings.Cut(version, "/")
		if name == "HTTP" && len(digits) == 3 && isDigit(digits[0]) && digits[1] == '.' && isDigit(digits[2]) {
			return &Refusal{Status: http.StatusHTTPVersionNotSupported, Reason: "HTTP/1.1 is required"}
		}
		return malformed("malformed request line")
	}
	if method != http.MethodGet {
		return &Refusal{
			Status: http.StatusMethodNotAllowed, Reason: "method GET is required",
			Header: http.Header{"Allow": {http.MethodGet}},
		}
	}
	return nil
}

// checkFieldLine checks "name: value" (RFC 9112 §5): no space before the colon, no continuation lines, no control characters.
func checkFieldLine(line []byte) *Refusal {
	colon := bytes.IndexByte(line, ':')
	if colon < 0 || !isToken(line[:colon]) {
		return malformed("malformed header line")
	}
	for _, b := range line[colon+1:] {
		if b < ' ' && b != '\t' || b == 0x7f {
			return malformed("control character in a header line")
		}
	}
	return nil
}

// parseRequest cuts a head whose lines were checked into a Request, and checks what belongs to the message rather than to
// WebSocket: the target, Host, and that no body follows.
func parseRequest(head string) (*Request, *Refusal) {
	line, rest, _ := strings.Cut(head, "\r\n")
	_, line, _ = strings.Cut(line, " ")
	target, _, _ := strings.Cut(line, " ")
	r := &Request{Target: target, Header: make(http.Header, strings.Count(rest, "\r\n")-1)}
	for {
		line, rest, _ = strings.Cut(rest, "\r\n")
		if line == "" {
			break
		}
		name, value, _ := strings.Cut(line, ":")
		name = textproto.CanonicalMIMEHeaderKey(name)
		r.Header[name] = append(r.Header[name], strings.Trim(value, " \t"))
	}
	hosts := r.Header["Host"]
	delete(r.Header, "Host")
	if len(hosts) != 1 || !isHost(hosts[0]) { // RFC 9112 §3.2
		return nil, malformed("Host is required exactly once")
	}
	r.Host = hosts[0]
	if refusal := r.parseTarget(); refusal != nil {
		return nil, refusal
	}
	// The bytes behind the head have to be frames: a body is no part of this request, and guessing its end is how requests are
	// smuggled.
	length := r.Header["Content-Length"]
	if len(r.Header["Transfer-Encoding"]) > 0 || len(length) > 1 || len(length) == 1 && length[0] != "0" {
		return nil, malformed("request has a body")
	}
	return r, nil
}

// parseTarget accepts the origin form and the absolute form (RFC 9112 §3.2). The latter brings its own host, which wins.
func (r *Request) parseTarget() *Refusal {
	u, err := url.ParseRequestURI(r.Target)
	switch {
	case err != nil:
		return malformed("malformed request target")
	case r.Target[0] == '/':
	case (u.Scheme == "http" || u.Scheme == "https") && isHost(u.Host) && u.User == nil:
		r.Host = u.Host
	default:
		return malformed("malformed request target")
	}
	r.Path, r.RawQuery = u.Path, u.RawQuery
	return nil
}

func malformed(reason string) *Refusal {
	return &Refusal{Status: http.StatusBadRequest, Reason: reason}
}

// isToken reports whether s is what HTTP calls a token (RFC 9110 §5.6.2): never empty.
func isToken[T string | []byte](s T) bool {
	for i := range len(s) {
		b := s[i]
		if !isLetter(b) && !isDigit(b) && strings.IndexByte("!#$%&'*+-.^_`|~", b) < 0 {
			return false
		}
	}
	return len(s) > 0
}

// isHost reports whether s holds only what a host and port are made of (RFC 3986 §3.2.2); whether it can be reached is not asked.
func isHost(s string) bool {
	for i := range len(s) {
		b := s[i]
		if !isLetter(b) && !isDigit(b) && strings.IndexByte("-._~%!$&'()*+,;=:[]", b) < 0 {
			return false
		}
	}
	return s != ""
}

func isLetter(b byte) bool { return 'a' <= b|0x20 && b|0x20 <= 'z' }

func isDigit(b byte) bool { return '0' <= b && b <= '9' }

// Refusal is a handshake that did not succeed: what the client is told, and why. It is the error of [Codec.Decode] and [Upgrade],
// and what Options.Accept returns to choose the answer; AppendResponse writes one without a codec.
type Refusal struct {
	// Status is the HTTP status, 400–599. Anything else is sent as 500.
	Status int
	// Reason is one line for people, told to the client. Empty: the text of the status.
	Reason string
	// Header is added to the response. Fields that describe its form are left out.
	Header http.Header
	// Err is the cause, which the client is not told.
	Err error
}

// Error names the status, the reason and the cause.
func (r *Refusal) Error() string {
	text := fmt.Sprintf("websocket: handshake: refused with status %d: %s", r.status(), r.reason())
	if r.Err != nil {
		text += ": " + r.Err.Error()
	}
	return text
}

// Unwrap returns the cause.
func (r *Refusal) Unwrap() error { return r.Err }

func (r *Refusal) status() int {
	if r.Status < 400 || r.Status > 599 {
		return http.StatusInternalServerError
	}
	return r.Status
}

func (r *Refusal) reason() string {
	if r.Reason == "" {
		return http.StatusText(r.status())
	}
	return r.Reason
}

// asRefusal makes a refusal of what Options.Accept returned.
func asRefusal(err error) *Refusal {
	if r, ok := errors.AsType[*Refusal](err); ok {
		return r
	}
	return &Refusal{Status: http.StatusForbidden, Err: err}
}
