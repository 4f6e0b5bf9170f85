package wire

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"runtime/debug"
	"strings"
)

// The request of a handshake is read in two passes. While its lines arrive, head.scan checks their form. After the empty line, parseRequest
// copies the head into one string and cuts the fields out of it. The file accept.go checks the values of the fields (RFC 6455 §4.2.1), for this
// parser and for net/http alike.

// Request is the client's half of the handshake. Its strings may share one copy of the whole request, so clone a string that is kept for long.
type Request struct {
	// Target is the request target as it was sent, Path its decoded path, and RawQuery the part after the question mark.
	Target, Path, RawQuery string
	// Host is the host that the client wants to reach, with its port if one was given.
	Host string
	// Origin is the web page behind the request, as "scheme://host[:port]" or "null". It is empty if the client is not a browser.
	Origin string
	// Protocols are the offered subprotocols, in the client's order.
	Protocols []string
	// Header holds all fields except Host under their canonical names. It must not be changed.
	Header http.Header

	key string // the value of Sec-WebSocket-Key, which has been checked
}

// handshake is the state of a codec that waits for its request.
type handshake struct {
	head head
}

// decodeRequest is Decode until the request has been answered.
func (c *Codec) decodeRequest(in []byte) (int, error) {
	w := c.work
	end, refusal := w.hs.head.scan(in)
	if end == 0 && refusal == nil {
		return 0, nil
	}
	var response *Response
	var req *Request
	if refusal == nil {
		req, refusal = parseRequest(string(in[:end]))
	}
	if refusal == nil {
		response, refusal = c.e.decide(req)
	}
	w.hs = nil
	if refusal != nil {
		w.err = refusal
		c.state.Store(stateClosed)
		w.replies = refusal.AppendResponse(w.replies)
		return 0, refusal
	}
	c.take(response)
	w.replies = response.append(w.replies, req.key)
	w.req = req
	return end, nil
}

// take applies the agreement of the handshake to the codec.
func (c *Codec) take(r *Response) {
	if r.Opcode == OpText || r.Opcode == OpBinary {
		c.opcode = r.Opcode
	}
	c.agreed = c.e.agree(r.Subprotocol, r.deflate)
}

// decide calls accept, and turns a panic of the user's functions into a refusal.
func (e *Endpoint) decide(r *Request) (res *Response, refusal *Refusal) {
	defer func() {
		if p := recover(); p != nil {
			res = nil
			refusal = &Refusal{
				Status: http.StatusInternalServerError,
				Err:    fmt.Errorf("panic in Accept or CheckOrigin: %v\n%s", p, debug.Stack()),
			}
		}
	}()
	return e.accept(r)
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
	if !isTarget(target) {
		return malformed("malformed request target")
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

// parseRequest cuts a head, whose lines were checked, into a Request. It checks the rules of HTTP: the target, Host, and that no body follows.
func parseRequest(head string) (*Request, *Refusal) {
	line, rest, _ := strings.Cut(head, "\r\n")
	_, line, _ = strings.Cut(line, " ")
	target, _, _ := strings.Cut(line, " ")
	r := &Request{Target: target, Header: parseFields(rest)}
	hosts := r.Header["Host"]
	delete(r.Header, "Host")
	if len(hosts) != 1 || !isHost(hosts[0]) { // RFC 9112 §3.2
		return nil, malformed("Host is required exactly once")
	}
	r.Host = hosts[0]
	if refusal := r.parseTarget(); refusal != nil {
		return nil, refusal
	}
	if announcesBody(r.Header) {
		return nil, malformed("request has a body")
	}
	return r, nil
}

// isPlainPath reports whether a path needs no decoding.
func isPlainPath(path string) bool {
	if path == "" || path[0] != '/' {
		return false
	}
	for i := range len(path) {
		if b := path[i]; !isLetter(b) && !isDigit(b) && strings.IndexByte("/-._~", b) < 0 {
			return false
		}
	}
	return true
}

// parseTarget accepts the origin form and the absolute form of a target (RFC 9112 §3.2). The host of the absolute form replaces Host.
func (r *Request) parseTarget() *Refusal {
	if path, query, _ := strings.Cut(r.Target, "?"); isPlainPath(path) {
		r.Path, r.RawQuery = path, query
		return nil
	}
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

// Refusal is a refused handshake: the response for the client, and the cause. It is the error of [Codec.Decode] and [Upgrade]. Options.Accept
// returns one to choose the response. AppendResponse writes one without a codec.
type Refusal struct {
	// Status is the HTTP status, 400–599. Any other value is sent as 500.
	Status int
	// Reason is one line of text for the client. Empty: the text of the status.
	Reason string
	// Header is added to the response. Fields that describe the response's form are left out.
	Header http.Header
	// Err is the cause. It is not sent to the client.
	Err error
}

// Error returns the status, the reason and the cause.
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

// asRefusal returns the refusal for an error of Options.Accept.
func asRefusal(err error) *Refusal {
	if r, ok := errors.AsType[*Refusal](err); ok {
		return r
	}
	return &Refusal{Status: http.StatusForbidden, Err: err}
}
