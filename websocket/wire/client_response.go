package wire

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// maxErrorBody is the size in bytes of the longest HandshakeError.Body.
const maxErrorBody = 1 << 10

// errDecoded reports a call of Decode after the response was accepted, which is a mistake of the caller.
var errDecoded = errors.New("websocket: handshake: the response was already decoded: decode the frames that follow with a codec")

// HandshakeError is the error of [ClientHandshake.Decode]: the server did not complete the opening handshake.
type HandshakeError struct {
	// Status is the status of the response. It is 101 if the server accepted in a way that RFC 6455 §4.1 forbids, and zero if the received bytes
	// are not a response of HTTP/1.1.
	Status int
	// Header holds the fields of the response under their canonical names, nil if Status is zero. For example, Location is the target of a
	// redirect, WWW-Authenticate names the required credentials, and Retry-After the delay.
	Header http.Header
	// Reason says in one line what was wrong.
	Reason string
	// Body is the start of the body of a response other than 101, as it was sent: as many bytes as had arrived, at most 1,024. It belongs to the
	// caller.
	Body []byte
}

// Error returns the status and the reason.
func (e *HandshakeError) Error() string {
	if e.Status == 0 {
		return "websocket: handshake: not an HTTP/1.1 response: " + e.Reason
	}
	return fmt.Sprintf("websocket: handshake: the server answered with status %d: %s", e.Status, e.Reason)
}

// Decode parses the response. The argument in holds all bytes that the connection has received, and n is the number of bytes that the response
// takes.
//
//   - n > 0: the server has accepted; see Response. The bytes behind the first n are frames.
//   - n = 0: more bytes are needed. Every further byte may show that the response is malformed.
//   - err not nil: the handshake has failed and n is 0. Close the connection. The error is a *[HandshakeError], and every later call
//     returns the same.
//
// The next call gets the same bytes, followed by the bytes that have arrived since; they may be at another address. Decode skips interim responses
// (RFC 9110 §15.2). A call after n > 0 is a mistake and returns an error.
func (h *ClientHandshake) Decode(in []byte) (n int, err error) {
	switch {
	case h.err != nil:
		return 0, h.err
	case h.response != nil:
		return 0, errDecoded
	}
	for {
		end, refusal := h.head.scan(in)
		if refusal != nil {
			return 0, h.fail(&HandshakeError{Reason: refusal.Reason})
		}
		if end == 0 {
			return 0, nil
		}
		line, fields, _ := strings.Cut(string(in[h.start:end]), "\r\n")
		version, status, _ := cutStatusLine(line)
		if status < 200 && status != http.StatusSwitchingProtocols {
			h.start, h.head.lines = end, 0
			continue
		}
		header := parseFields(fields)
		if status != http.StatusSwitchingProtocols {
			body := bytes.Clone(in[end:min(len(in), end+maxErrorBody)])
			return 0, h.fail(&HandshakeError{Status: status, Header: header, Reason: explain(status), Body: body})
		}
		response := &ClientResponse{Status: status, Header: header}
		if reason := h.check(version, response); reason != "" {
			return 0, h.fail(&HandshakeError{Status: status, Header: header, Reason: reason})
		}
		h.response = response
		return end, nil
	}
}

// fail makes the verdict final.
func (h *ClientHandshake) fail(err *HandshakeError) error {
	h.err = err
	return err
}

// explain returns the reason for the failure that a status other than 101 stands for.
func explain(status int) string {
	text := http.StatusText(status)
	if text == "" {
		text = "unknown"
	}
	switch {
	case status >= 300 && status < 400:
		return text + ": redirects are not followed, see Location in Header"
	case status == http.StatusUnauthorized:
		return text + ": authentication required, see WWW-Authenticate in Header"
	case status < 300:
		return text + ": no WebSocket endpoint at this URL"
	}
	return text
}

// checkStatusLine checks "HTTP/1.1 status reason" (RFC 9112 §4).
func checkStatusLine(line []byte) *Refusal {
	version, _, ok := cutStatusLine(string(line))
	switch {
	case !ok:
		return malformed("malformed status line")
	case !strings.HasPrefix(version, "HTTP/1."):
		return malformed("version " + version + ", HTTP/1.1 is required")
	}
	return nil
}

// cutStatusLine returns the version and the status of a status line.
func cutStatusLine(line string) (version string, status int, ok bool) {
	version, rest, _ := strings.Cut(line, " ")
	code, reason, ok := strings.Cut(rest, " ")
	digits, isHTTP := strings.CutPrefix(version, "HTTP/")
	if !ok || !isHTTP || len(digits) != 3 || !isDigit(digits[0]) || digits[1] != '.' || !isDigit(digits[2]) || !isValue(reason) {
		return "", 0, false
	}
	if len(code) != 3 || code[0] < '1' || code[0] > '5' || !isDigit(code[1]) || !isDigit(code[2]) { // RFC 9110 §15
		return "", 0, false
	}
	status, err := strconv.Atoi(code)
	return version, status, err == nil
}

// check checks a response with status 101 as RFC 6455 §4.1 demands, and stores the chosen subprotocol and extensions in r. It returns the reason
// for a failure, or the empty string.
func (h *ClientHandshake) check(version string, r *ClientResponse) (reason string) {
	if version != "HTTP/1.1" {
		return "HTTP/1.1 is required"
	}
	if upgrade := r.Header["Upgrade"]; len(upgrade) != 1 || !equalFold(upgrade[0], "websocket") { // item 2
		return "Upgrade must be websocket"
	}
	if !hasToken(r.Header["Connection"], "upgrade") { // item 3
		return "Connection must be Upgrade"
	}
	accept := r.Header["Sec-Websocket-Accept"]
	if len(accept) != 1 || accept[0] != string(appendAcceptKey(nil, h.key)) { // item 4
		return "Sec-WebSocket-Accept does not answer the key: the response was not made for this request"
	}
	if announcesBody(r.Header) {
		return "the response has a body instead of frames"
	}
	if list := r.Header["Sec-Websocket-Extensions"]; len(list) > 0 { // item 5
		r.Extensions = strings.Join(list, ", ")
		names, ok := extensionNames(r.Extensions)
		if !ok {
			return "malformed Sec-WebSocket-Extensions"
		}
		for _, name := range names {
			if !slices.Contains(h.extensions, name) {
				return "extension " + name + " was not offered"
			}
		}
	}
	switch chosen := r.Header["Sec-Websocket-Protocol"]; { // item 6
	case len(chosen) == 0:
	case len(chosen) > 1:
		return "more than one Sec-WebSocket-Protocol"
	case !slices.Contains(h.offered, chosen[0]):
		return fmt.Sprintf("subprotocol %q was not offered", chosen[0])
	default:
		r.Subprotocol = chosen[0]
	}
	return ""
}
