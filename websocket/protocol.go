package websocket

import (
	"errors"

	"github.com/sluice-push/sluice/session"
	"github.com/sluice-push/sluice/websocket/wire"
)

// The words of the protocol are those of package wire.
type (
	// Opcode says what a frame is.
	Opcode = wire.Opcode
	// CloseError is why a connection is over, as a close frame says it.
	CloseError = wire.CloseError
	// Compression is how messages are compressed (permessage-deflate).
	Compression = wire.Compression
	// Deflater compresses messages: see [Compression].
	Deflater = wire.Deflater
	// Request is the client's side of the handshake, as a server sees it.
	Request = wire.Request
	// Response is how a server is about to accept a handshake: see [Options.Accept].
	Response = wire.Response
	// Refusal is a handshake that a server refused.
	Refusal = wire.Refusal
	// ClientResponse is how a server answered a client's handshake.
	ClientResponse = wire.ClientResponse
)

// The kinds of messages, and the control frames that handlers are told of.
const (
	OpText   = wire.OpText
	OpBinary = wire.OpBinary
	OpPing   = wire.OpPing
	OpPong   = wire.OpPong
)

// Close codes (RFC 6455 §7.4.1 and the registry it opened). Codes from 3000 to 4999 belong to frameworks and applications.
const (
	CloseNormal          = wire.CloseNormal
	CloseGoingAway       = wire.CloseGoingAway
	CloseProtocolError   = wire.CloseProtocolError
	CloseUnsupportedData = wire.CloseUnsupportedData
	CloseNoStatus        = wire.CloseNoStatus
	CloseAbnormal        = uint16(1006) // there was no close frame; never on the wire
	CloseInvalidPayload  = wire.CloseInvalidPayload
	ClosePolicyViolation = wire.ClosePolicyViolation
	CloseTooBig          = wire.CloseTooBig
	CloseInternalError   = wire.CloseInternalError
	CloseServiceRestart  = wire.CloseServiceRestart
	CloseTryAgainLater   = wire.CloseTryAgainLater
)

// Errors that callers branch on, with errors.Is, besides those of package session.
var (
	// ErrClosed says that the connection has ended or is ending; the error also wraps the cause.
	ErrClosed = session.ErrClosed
	// ErrWriterOpen says that a message cannot be sent because one that was begun with [Conn.NextWriter] is not finished.
	ErrWriterOpen = errors.New("websocket: another message is being written: close the writer of NextWriter first")
)

// CodeOf returns the close code of an error that ended a connection: what the close frame of either side said, or [CloseAbnormal] when
// there was none.
func CodeOf(err error) uint16 {
	if e, ok := errors.AsType[*CloseError](err); ok {
		return e.Code
	}
	return CloseAbnormal
}

// Message is what connections carry. Whoever gets one from a function of this package borrows its Data, as that function says.
type Message struct {
	Op   Opcode // OpText or OpBinary
	Data []byte // text is UTF-8
}
