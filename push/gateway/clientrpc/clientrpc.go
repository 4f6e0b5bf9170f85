// Package clientrpc has what the transports of gRPC and of Connect share: how calls of the services sluice.client.v1.Client and
// centrifugal.centrifugo.unistream.CentrifugoUniStream are read, and with which status they end.
package clientrpc

import (
	"context"
	"errors"
	"strconv"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/gateway"
	"github.com/sluice-push/sluice/push/gateway/route"
	"github.com/sluice-push/sluice/push/protocol"
	"github.com/sluice-push/sluice/push/protocol/protobuf"
)

// DisconnectTrailer is the name of the trailer with the code of the push.Disconnect that ended a call.
const DisconnectTrailer = "sluice-disconnect-code"

// PushbackTrailer is the name of the trailer with the time, in milliseconds, after which a refused client makes its call again. The gRPC libraries
// follow it if the client has a retry policy (gRFC A6). They do not look at google.rpc.RetryInfo.
const PushbackTrailer = "grpc-retry-pushback-ms"

// RoutesTrailer is the name of the trailer with the URLs of gateways to which the client may go, the best first, separated by spaces. It is sent if the
// node is in a cluster, and refuses the client or sends it elsewhere.
const RoutesTrailer = "sluice-routes"

// Status is how a call ends: a code of gRPC, whose numbers Connect shares, and a text.
type Status struct {
	Code codes.Code
	Text string
	// Wait is the time after which the client makes its call again; 0: the status does not say.
	Wait time.Duration
	// Routes is the value of RoutesTrailer; "": the call has none.
	Routes string
}

// Pushback returns the value of PushbackTrailer, "" if the call has none.
func (s Status) Pushback() string {
	if s.Wait == 0 {
		return ""
	}
	return strconv.FormatInt(s.Wait.Milliseconds(), 10)
}

// The statuses of calls that are not ended by the client's session.
var (
	TookNothing = Status{Code: codes.Unavailable, Text: "the client did not read its messages in time"}
	CutOff      = Status{Code: codes.Unavailable, Text: push.DisconnectShutdown.Reason}
	ClientGone  = Status{Code: codes.Canceled, Text: "the client has ended the call"}
	Broken      = Status{Code: codes.Internal, Text: "internal server error"}
)

// OfDisconnect returns the status of a call that a disconnect ends. A client that is to connect again gets codes.Unavailable, which libraries
// take as a reason to do so.
func OfDisconnect(d push.Disconnect) Status {
	code := codes.FailedPrecondition
	switch {
	case d.Reconnect():
		code = codes.Unavailable
	case d.Code == push.DisconnectInvalidToken.Code:
		code = codes.Unauthenticated
	case d.Code == push.DisconnectPermissionDenied.Code:
		code = codes.PermissionDenied
	case d.Code == push.DisconnectBadRequest.Code:
		code = codes.InvalidArgument
	case d.Code == push.DisconnectConnectionLimit.Code, d.Code == push.DisconnectChannelLimit.Code:
		code = codes.ResourceExhausted
	case d.Code == push.DisconnectNotAvailable.Code:
		code = codes.Unimplemented
	}
	return Status{Code: code, Text: d.Reason}
}

// OfEnd returns the status of a call that a disconnect has ended, with the gateways to which the client was sent.
func OfEnd(d push.Disconnect, c *gateway.Client) Status {
	s := OfDisconnect(d)
	s.Routes = route.Field(c.Elsewhere())
	return s
}

// OfNotAdmitted returns the status of a call whose client was not admitted.
func OfNotAdmitted(err error) Status {
	s := Status{Code: codes.Unavailable, Text: err.Error(), Wait: gateway.MinRetry}
	if why := new(gateway.NotAdmitted); errors.As(err, &why) {
		s.Wait, s.Routes = why.Wait, route.Field(route.URLs(why.Routes))
	}
	return s
}

// OfRefused returns the status of a call whose connect request was refused: the error of Client.Connect. unexpected reports that the error is one
// of the server, which its log should have.
func OfRefused(err error) (s Status, unexpected bool) {
	var d push.Disconnect
	var e *push.Error
	switch {
	case errors.As(err, new(*gateway.NotAdmitted)): // before Disconnect, which it may wrap
		return OfNotAdmitted(err), false
	case errors.As(err, &d):
		s = OfDisconnect(d)
		if d.Reconnect() {
			s.Wait = gateway.MinRetry
		}
		return s, false
	case !errors.As(err, &e):
		return Status{Code: codes.Internal, Text: push.ErrInternal.Message}, true
	case e.Temporary:
		return Status{Code: codes.Unavailable, Text: e.Message, Wait: gateway.MinRetry}, false
	case errors.Is(err, push.ErrUnauthorized), errors.Is(err, push.ErrTokenExpired):
		return Status{Code: codes.Unauthenticated, Text: e.Message}, false
	case errors.Is(err, push.ErrPermissionDenied):
		return Status{Code: codes.PermissionDenied, Text: e.Message}, false
	}
	return Status{Code: codes.InvalidArgument, Text: e.Message}, false
}

// Send carries out a call of Send: it passes the commands of an encoded SendCommandsRequest to their session, and returns with which status the
// call ends; codes.OK says that the session has the commands.
func Send(ctx context.Context, g *gateway.Gateway, request []byte) Status {
	in, err := protobuf.DecodeSend(request)
	if err != nil || in.Node == "" || in.Session == "" {
		g.RequestRefused()
		return Status{Code: codes.InvalidArgument, Text: "the request has to have node and session of the connect reply, and commands"}
	}
	switch err := g.Emulate(ctx, in.Node, in.Session, in.Commands); {
	case err == nil:
		return Status{}
	case errors.Is(err, gateway.ErrNoSession):
		return Status{Code: codes.NotFound, Text: err.Error()}
	case errors.Is(err, gateway.ErrInboxFull):
		return Status{Code: codes.ResourceExhausted, Text: err.Error(), Wait: gateway.MinRetry}
	}
	return Status{Code: codes.Unavailable, Text: "the node of the session could not be reached", Wait: gateway.MinRetry}
}

// commandConnect is the field of Command that has a connect request.
const commandConnect = 4

// DecodeConnect reads a ConnectRequest of the one-way service. Its fields are those of the client protocol.
func DecodeConnect(request []byte) (*protocol.ConnectRequest, error) {
	var cmd protocol.Command
	command := protowire.AppendBytes(protowire.AppendTag(nil, commandConnect, protowire.BytesType), request)
	if err := protobuf.DecodeCommand(command, &cmd); err != nil {
		return nil, err
	}
	return &cmd.Connect, nil
}
