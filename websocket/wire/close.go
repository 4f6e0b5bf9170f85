package wire

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// Close codes (RFC 6455 §7.4.1 and the registry it opened). Codes from 3000 to 4999 belong to frameworks and applications.
const (
	CloseNormal          uint16 = 1000 // the purpose of the connection is fulfilled
	CloseGoingAway       uint16 = 1001 // a server shuts down, a browser leaves the page
	CloseProtocolError   uint16 = 1002 // the peer violated the protocol
	CloseUnsupportedData uint16 = 1003 // the receiver does not support this kind of message
	CloseNoStatus        uint16 = 1005 // the close frame had no code; never sent
	CloseInvalidPayload  uint16 = 1007 // text that is not UTF-8
	ClosePolicyViolation uint16 = 1008 // anything that no other code describes
	CloseTooBig          uint16 = 1009 // the message exceeds the limit
	CloseInternalError   uint16 = 1011 // the server met an unexpected condition
	CloseServiceRestart  uint16 = 1012 // the client may connect again, after a random delay
	CloseTryAgainLater   uint16 = 1013 // the server is overloaded
)

// maxReason is the size of the longest close reason: a control frame's 125 bytes without the code (RFC 6455 §5.5).
const maxReason = maxControl - 2

// CloseError is the reason for which a connection ended, as a close frame states it. It is the error of [Codec.Decode] once the handshake is
// done. It is immutable.
type CloseError struct {
	// Code is 1000–4999. It is [CloseNoStatus] if the peer's close frame had none.
	Code uint16
	// Reason is UTF-8 of at most 123 bytes. It is the peer's text, or the rule that the peer broke.
	Reason string
	// Remote says that the peer sent the close frame, which is a clean end. Otherwise this side sends the close frame with this code, because
	// the peer broke a rule or because this side closed the connection.
	Remote bool
}

// Error names the side, the code and the reason.
func (e *CloseError) Error() string {
	if e.Remote {
		return strings.TrimSuffix(fmt.Sprintf("websocket: closed by peer: %d %s", e.Code, e.Reason), " ")
	}
	return strings.TrimSuffix(fmt.Sprintf("websocket: closed from here: %d %s", e.Code, e.Reason), " ")
}

// Unwrap returns [io.EOF] for a close by the peer, so that code which does not know this package sees a clean end.
func (e *CloseError) Unwrap() error {
	if e.Remote {
		return io.EOF
	}
	return nil
}

// AppendClose appends a close frame with a code and a reason, unmasked as servers send it. A reason of more than 123 bytes is cut between two
// characters. Bytes of it that are not UTF-8 are replaced. A code that may not be sent (RFC 6455 §7.4: 0, 1005, 1006, …) makes a frame without
// code and reason.
//
// To close a connection, prefer [Codec.AppendClose], which makes at most one close frame.
func AppendClose(dst []byte, code uint16, reason string) []byte {
	if !validCloseCode(code) {
		return AppendHeader(dst, OpClose, 0)
	}
	reason = cutReason(strings.ToValidUTF8(reason, "\uFFFD"))
	dst = AppendHeader(dst, OpClose, 2+len(reason))
	dst = append(dst, byte(code>>8), byte(code))
	return append(dst, reason...)
}

// parseClose reads the payload of a close frame. If the payload breaks a rule, the result has Remote unset.
func parseClose(payload []byte) *CloseError {
	switch {
	case len(payload) == 0:
		return &CloseError{Code: CloseNoStatus, Remote: true}
	case len(payload) == 1:
		return &CloseError{Code: CloseProtocolError, Reason: "close frame with half a code"}
	}
	code := uint16(payload[0])<<8 | uint16(payload[1])
	if !validCloseCode(code) {
		return &CloseError{Code: CloseProtocolError, Reason: "close code that may not be sent"}
	}
	if !utf8.Valid(payload[2:]) {
		return &CloseError{Code: CloseInvalidPayload, Reason: "close reason is not UTF-8"}
	}
	return &CloseError{Code: code, Reason: string(payload[2:]), Remote: true}
}

// validCloseCode reports whether a close frame may carry the code: RFC 6455 §7.4.1 and §7.4.2, with 1012–1014 as registered since.
func validCloseCode(code uint16) bool {
	switch {
	case code >= 3000:
		return code <= 4999
	case code >= 1007:
		return code <= 1014
	default:
		return code >= 1000 && code <= 1003
	}
}

// cutReason shortens a valid UTF-8 string to the size that fits into a close frame.
func cutReason(s string) string {
	if len(s) <= maxReason {
		return s
	}
	end := maxReason
	for !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end]
}
