package reasoncount

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"syscall"

	"github.com/sluice-push/sluice/cmd/sluice/internal/clientconn"
	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/websocket"
	"github.com/sluice-push/sluice/websocket/wire"
)

// OfEnd returns why a connection ended, and whether the server has said so. Connections that ended for the same cause have the same reason, so that
// reasons can be counted.
func OfEnd(err error) (reason string, byServer bool) {
	if closed, ok := errors.AsType[*clientconn.Closed](err); ok {
		return fmt.Sprintf("closed by the server: %d %s", closed.Code, closed.Reason), true
	}
	if end, ok := errors.AsType[*websocket.CloseError](err); ok {
		if end.Remote {
			return fmt.Sprintf("closed by the server: %d %s", end.Code, end.Reason), true
		}
		return fmt.Sprintf("the server broke the protocol: %d %s", end.Code, end.Reason), false
	}
	return Of(err), false
}

// Of returns the text of an error without the addresses, which differ from one connection to the next.
func Of(err error) string {
	var dns *net.DNSError
	switch no, ok := errors.AsType[syscall.Errno](err); {
	case ok:
		return no.Error()
	case errors.As(err, &dns):
		return dns.Error()
	case errors.Is(err, context.Canceled):
		return "abandoned: the run ended"
	case err == nil:
		return "unknown"
	}
	return err.Error()
}

// Ended returns the error of a connection that ended with err before it was of use. Its text is a reason of OfEnd, and it wraps err.
func Ended(reason string, err error) error { return &ended{reason, err} }

type ended struct {
	reason string
	cause  error
}

func (e *ended) Error() string { return e.reason }
func (e *ended) Unwrap() error { return e.cause }

// IsTemporary reports whether a server has refused a connection or a command, and says with its status, the code of the connection's end or the error
// of a reply that the same may succeed later.
func IsTemporary(err error) bool {
	if answer, ok := errors.AsType[*wire.HandshakeError](err); ok {
		return answer.Status == http.StatusTooManyRequests || answer.Status >= http.StatusInternalServerError
	}
	if answer, ok := errors.AsType[*clientconn.Refused](err); ok {
		return answer.IsTemporary()
	}
	if closed, ok := errors.AsType[*clientconn.Closed](err); ok {
		return closed.Code == push.DisconnectTooManyRequests.Code
	}
	reply, ok := errors.AsType[*push.Error](err)
	return ok && reply.Temporary
}
