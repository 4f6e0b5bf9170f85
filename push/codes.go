package push

import "fmt"

// Error is a refusal that a client or a caller of the HTTP API learns by its code. The numbers are those published for the
// Centrifuge client protocol (https://centrifugal.dev/docs/server/codes). Compare with errors.Is: two errors are the same when
// their codes are.
type Error struct {
	Code      uint32 // 100–399, see the Err… variables
	Message   string // for people
	Temporary bool   // the same request may succeed later: SDKs retry by themselves
}

// Error returns the message with its code.
func (e *Error) Error() string { return fmt.Sprintf("%s (code %d)", e.Message, e.Code) }

// Is reports whether target is an *Error with the same code.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t.Code == e.Code
}

// WithMessage returns a copy of e that says more: the code stays, the message is replaced.
func (e *Error) WithMessage(format string, args ...any) *Error {
	return &Error{Code: e.Code, Message: fmt.Sprintf(format, args...), Temporary: e.Temporary}
}

// The errors of the client protocol. They are constants in spirit: nobody may change them.
var (
	ErrInternal              = &Error{100, "internal server error", true}
	ErrUnauthorized          = &Error{101, "unauthorized", false}
	ErrUnknownChannel        = &Error{102, "unknown channel", false}
	ErrPermissionDenied      = &Error{103, "permission denied", false}
	ErrMethodNotFound        = &Error{104, "method not found", false}
	ErrAlreadySubscribed     = &Error{105, "already subscribed", false}
	ErrLimitExceeded         = &Error{106, "limit exceeded", false}
	ErrBadRequest            = &Error{107, "bad request", false}
	ErrNotAvailable          = &Error{108, "not available", false}
	ErrTokenExpired          = &Error{109, "token expired", false}
	ErrExpired               = &Error{110, "expired", false}
	ErrTooManyRequests       = &Error{111, "too many requests", true}
	ErrUnrecoverablePosition = &Error{112, "unrecoverable position", false}
)

// ErrorCodes are the codes of these errors.
func ErrorCodes() []uint32 {
	var out []uint32
	for code := ErrInternal.Code; code <= ErrUnrecoverablePosition.Code; code++ {
		out = append(out, code)
	}
	return out
}

// Disconnect is why a server ends a connection: a WebSocket close code and its reason. Codes 3000–3499 ask the client to connect
// again, 3500–3999 are final.
type Disconnect struct {
	Code   uint16
	Reason string // at most 123 bytes (RFC 6455 §5.5.1)
}

// Error makes a Disconnect usable as the cause for which a session ended.
func (d Disconnect) Error() string { return fmt.Sprintf("disconnect %d: %s", d.Code, d.Reason) }

// Reconnect reports whether the client is asked to connect again.
func (d Disconnect) Reconnect() bool { return d.Code < 3500 || d.Code >= 4000 && d.Code < 4500 }

// The disconnects of the client protocol.
var (
	DisconnectConnectionClosed  = Disconnect{3000, "connection closed"}
	DisconnectShutdown          = Disconnect{3001, "shutdown"}
	DisconnectServerError       = Disconnect{3004, "internal server error"}
	DisconnectExpired           = Disconnect{3005, "connection expired"}
	DisconnectSlow              = Disconnect{3008, "slow"}
	DisconnectWriteError        = Disconnect{3009, "write error"}
	DisconnectInsufficientState = Disconnect{3010, "insufficient state"}
	DisconnectForceReconnect    = Disconnect{3011, "force reconnect"}
	DisconnectNoPong            = Disconnect{3012, "no pong"}
	DisconnectTooManyRequests   = Disconnect{3013, "too many requests"}
	DisconnectInvalidToken      = Disconnect{3500, "invalid token"}
	DisconnectBadRequest        = Disconnect{3501, "bad request"}
	DisconnectStale             = Disconnect{3502, "stale"}
	DisconnectForceNoReconnect  = Disconnect{3503, "force disconnect"}
	DisconnectConnectionLimit   = Disconnect{3504, "connection limit"}
	DisconnectChannelLimit      = Disconnect{3505, "channel limit"}
	DisconnectPermissionDenied  = Disconnect{3507, "permission denied"}
	DisconnectNotAvailable      = Disconnect{3508, "not available"}
)

// DisconnectCodes are the codes of these disconnects.
func DisconnectCodes() []uint32 {
	var out []uint32
	for _, d := range [...]Disconnect{
		DisconnectConnectionClosed, DisconnectShutdown, DisconnectServerError, DisconnectExpired, DisconnectSlow, DisconnectWriteError,
		DisconnectInsufficientState, DisconnectForceReconnect, DisconnectNoPong, DisconnectTooManyRequests, DisconnectInvalidToken,
		DisconnectBadRequest, DisconnectStale, DisconnectForceNoReconnect, DisconnectConnectionLimit, DisconnectChannelLimit,
		DisconnectPermissionDenied, DisconnectNotAvailable,
	} {
		out = append(out, uint32(d.Code))
	}
	return out
}

// Unsubscribe is why a server ends a subscription. From code 2500 on the client subscribes again by itself.
type Unsubscribe struct {
	Code   uint32
	Reason string
}

// The unsubscribes of the client protocol, and UnsubscribeSlow, which is ours: the SDKs do with it what they do with all codes that they do
// not know, from 2500 on.
var (
	UnsubscribeServer            = Unsubscribe{2000, "server unsubscribe"}
	UnsubscribeInsufficientState = Unsubscribe{2500, "insufficient state"}
	UnsubscribeExpired           = Unsubscribe{2501, "subscription expired"}
	UnsubscribeSlow              = Unsubscribe{2510, "slow"}
)
