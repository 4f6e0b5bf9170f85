package websocket

import (
	"errors"

	"github.com/sluice-push/sluice/session"
	"github.com/sluice-push/sluice/websocket/wire"
)

// Aliases of the protocol types of package wire.
type (
	// Opcode is the kind of a frame.
	Opcode = wire.Opcode
	// CloseError is the reason for which a connection ended, as a close frame states it.
	CloseError = wire.CloseError
	// Compression configures the compression of messages (permessage-deflate).
	Compression = wire.Compression
	// Deflater compresses messages: see [Compression].
	Deflater = wire.Deflater
	// Request is the client's half of the handshake, as a server receives it.
	Request = wire.Request
	// Response is the acceptance that a server is about to send: see [Options.Accept].
	Response = wire.Response
	// Refusal is a handshake that a server refused.
	Refusal = wire.Refusal
	// ClientResponse is the server's response to a client's handshake.
	ClientResponse = wire.ClientResponse
)

// The opcodes of messages, and of the control frames that a Handler gets.
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
	CloseAbnormal        = uint16(1006) // there was no close frame; never sent
	CloseInvalidPayload  = wire.CloseInvalidPayload
	ClosePolicyViolation = wire.ClosePolicyViolation
	CloseTooBig          = wire.CloseTooBig
	CloseInternalError   = wire.CloseInternalError
	CloseServiceRestart  = wire.CloseServiceRestart
	CloseTryAgainLater   = wire.CloseTryAgainLater
)

// Errors for errors.Is, besides those of package session.
var (
	// ErrClosed says that the connection has ended or is ending; the error also wraps the cause.
	ErrClosed = session.ErrClosed
	// ErrWriterOpen says that a message cannot be sent because the writer of [Conn.NextWriter] has not been closed.
	ErrWriterOpen = errors.New("websocket: another message is being written: close the writer of NextWriter first")
)

// CodeOf returns the close code of an error that ended a connection: the code of the close frame, of either side, or [CloseAbnormal] if there
// was none.
func CodeOf(err error) uint16 {
	if e, ok := errors.AsType[*CloseError](err); ok {
		return e.Code
	}
	return CloseAbnormal
}

// Message is a WebSocket message. A function of this package that hands one out lends its Data, for as long as that function says.
type Message struct {
	Op   Opcode // OpText or OpBinary
	Data []byte // text is UTF-8
}
