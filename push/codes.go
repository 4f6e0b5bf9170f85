package push

import "fmt"

// Error is a refused request, as a client or a caller of the HTTP API sees it. The code tells the reason. The numbers are those published for
// the Centrifuge client protocol (https://centrifugal.dev/docs/server/codes). Compare with errors.Is: two errors are the same if their codes
// are.
type Error struct {
	Code      uint32 // 100–399, see the Err… variables
	Message   string // for people
	Temporary bool   // the same request may succeed later; the SDKs retry by themselves
}

// Error returns the message with its code.
func (e *Error) Error() string { return fmt.Sprintf("%s (code %d)", e.Message, e.Code) }

// Is reports whether target is an *Error with the same code.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t.Code == e.Code
}

// WithMessage returns a copy of e with another message, and the same code.
func (e *Error) WithMessage(format string, args ...any) *Error {
	return &Error{Code: e.Code, Message: fmt.Sprintf(format, args...), Temporary: e.Temporary}
}

// The errors of the client protocol. They are variables only because Go has no constants of this type: no code may change them.
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

// ErrorCodes returns the codes of the errors above, ascending.
func ErrorCodes() []uint32 {
	var out []uint32
	for code := ErrInternal.Code; code <= ErrUnrecoverablePosition.Code; code++ {
		out = append(out, code)
	}
	return out
}

// Disconnect is the reason for which a server ends a connection: a WebSocket close code and its text. Codes 3000–3499 ask the client to connect
// again, and 3500–3999 tell it not to.
type Disconnect struct {
	Code   uint16
	Reason string // at most 123 bytes (RFC 6455 §5.5.1)
}

// Error returns the code and the reason. It makes a Disconnect usable as the cause for which a session ended.
func (d Disconnect) Error() string { return fmt.Sprintf("disconnect %d: %s", d.Code, d.Reason) }

// Reconnect reports whether the code asks the client to connect again.
func (d Disconnect) Reconnect() bool { return d.Code < 3500 || d.Code >= 4000 && d.Code < 4500 }

// The disconnects of the client protocol, and two additions of Sluice for nodes of a cluster, which the SDKs treat like every unknown code of their
// range: they connect again. At DisconnectStateInvalidated the SDKs forget the token and the positions of all subscriptions.
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
	DisconnectStateInvalidated  = Disconnect{3014, "state invalidated"}
	DisconnectMove              = Disconnect{3100, "move"}          // the client belongs to another gateway, of which it was told before
	DisconnectWrongGateway      = Disconnect{3101, "wrong gateway"} // the client must not connect to this gateway: it asks for its routes
	DisconnectInvalidToken      = Disconnect{3500, "invalid token"}
	DisconnectBadRequest        = Disconnect{3501, "bad request"}
	DisconnectStale             = Disconnect{3502, "stale"}
	DisconnectForceNoReconnect  = Disconnect{3503, "force disconnect"}
	DisconnectConnectionLimit   = Disconnect{3504, "connection limit"}
	DisconnectChannelLimit      = Disconnect{3505, "channel limit"}
	DisconnectPermissionDenied  = Disconnect{3507, "permission denied"}
	DisconnectNotAvailable      = Disconnect{3508, "not available"}
)

// DisconnectCodes returns the codes of the disconnects above.
func DisconnectCodes() []uint32 {
	var out []uint32
	for _, d := range [...]Disconnect{
		DisconnectConnectionClosed, DisconnectShutdown, DisconnectServerError, DisconnectExpired, DisconnectSlow, DisconnectWriteError,
		DisconnectInsufficientState, DisconnectForceReconnect, DisconnectNoPong, DisconnectTooManyRequests, DisconnectStateInvalidated,
		DisconnectMove, DisconnectWrongGateway, DisconnectInvalidToken, DisconnectBadRequest, DisconnectStale, DisconnectForceNoReconnect, DisconnectConnectionLimit, DisconnectChannelLimit,
		DisconnectPermissionDenied, DisconnectNotAvailable,
	} {
		out = append(out, uint32(d.Code))
	}
	return out
}

// Unsubscribe is the reason for which a server ends a subscription. At a code of 2500 or above the client subscribes again by itself.
type Unsubscribe struct {
	Code   uint32
	Reason string
}

// The unsubscribes of the client protocol, and UnsubscribeSlow, which is an addition of Sluice. The SDKs treat it like every unknown code of
// 2500 or above: they subscribe again. At UnsubscribeStateInvalidated they forget the position first, and their next subscription is not recovered.
var (
	UnsubscribeServer            = Unsubscribe{2000, "server unsubscribe"}
	UnsubscribeInsufficientState = Unsubscribe{2500, "insufficient state"}
	UnsubscribeExpired           = Unsubscribe{2501, "subscription expired"}
	UnsubscribeStateInvalidated  = Unsubscribe{2502, "state invalidated"}
	UnsubscribeSlow              = Unsubscribe{2510, "slow"}
)
