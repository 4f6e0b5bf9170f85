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

// maxErrorBody is how much of a body is kept for whoever looks at the error.
const maxErrorBody = 1 << 10

// errDecoded is a mistake of the caller.
var errDecoded = errors.New("websocket: handshake: the response was decoded before: what follows are frames, for a codec")

// HandshakeError is an opening handshake that the server did not complete: the error of [ClientHandshake.Decode].
type HandshakeError struct {
	// Status is what the server answered: 101 when it accepted, but not as RFC 6455 §4.1 demands; zero when what it sent is no
	// response of HTTP/1.1.
	Status int
	// Header holds the fields of the response under their canonical names, nil without a status: Location, to which redirects lead,
	// which are not followed here; WWW-Authenticate, which says what credentials are asked for; Retry-After.
	Header http.Header
	// Reason is what was wrong, in one line for people.
	Reason string
	// Body are up to 1,024 bytes behind the head of a response other than 101, as many as had arrived and as they were sent. It belongs
	// to the caller.
	Body []byte
}

// Error says what the server answered, and what was wrong with it.
func (e *HandshakeError) Error() string {
	if e.Status == 0 {
		return "websocket: handshake: no response of HTTP/1.1: " + e.Reason
	}
	return fmt.Sprintf("websocket: handshake: the server answered with status %d: %s", e.Status, e.Reason)
}

// Decode looks at in, all bytes of the connection since its start, and returns how many of them the response takes.
//
//   - n > 0: the server has accepted; see Response. The bytes behind the first n are frames.
//   - n = 0: more bytes are needed. Every further byte may bring the verdict that the response is malformed.
//   - err not nil: the handshake has failed; n is 0. Close the connection. It is a *[HandshakeError], and every later call returns the
//     same.
//
// The bytes have to be given again, with what arrived since behind them, and may have moved in between. Interim responses (RFC 9110
// §15.2) are passed over. After n > 0 there is nothing left to do for Decode, and it returns an error.
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

// explain says what a response other than 101 means here.
func explain(status int) string {
	text := http.StatusText(status)
	if text == "" {
		text = "unknown"
	}
	switch {
	case status >= 300 && status < 400:
		return text + ": redirects are not followed, see Header for the Location"
	case status == http.StatusUnauthorized:
		return text + ": credentials are needed, see Header for WWW-Authenticate"
	case status < 300:
		return text + ": there is no WebSocket at this URL"
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
		return malformed("version " + version + ", where HTTP/1.1 is required")
	}
	return nil
}

// cutStatusLine cuts the version and the status out of a status line.
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

// check checks what RFC 6455 §4.1 demands of a response with status 101, and reads what was agreed on. It returns what is wrong.
func (h *ClientHandshake) check(version string, r *ClientResponse) (reason string) {
	if version != "HTTP/1.1" {
		return "HTTP/1.1 is required"
	}
	if upgrade := r.Header["Upgrade"]; len(upgrade) != 1 || !equalFold(upgrade[0], "websocket") { // item 2
		return "Upgrade has to be websocket"
	}
	if !hasToken(r.Header["Connection"], "upgrade") { // item 3
		return "Connection has to be Upgrade"
	}
	accept := r.Header["Sec-Websocket-Accept"]
	if len(accept) != 1 || accept[0] != string(appendAcceptKey(nil, h.key)) { // item 4
		return "Sec-WebSocket-Accept does not answer the key: the response was not made for this request"
	}
	if announcesBody(r.Header) {
		return "the response has a body, where frames have to be"
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
