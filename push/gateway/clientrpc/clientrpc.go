// Package clientrpc has what the transports of gRPC and of Connect share: how calls of the services sluice.client.v1.Client and
// centrifugal.centrifugo.unistream.CentrifugoUniStream are read, and with which status they end.
package clientrpc

import (
	"context"
	"errors"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/gateway"
	"github.com/sluice-push/sluice/push/protocol"
	"github.com/sluice-push/sluice/push/protocol/protobuf"
)

// DisconnectTrailer is the name of the trailer with the code of the push.Disconnect that ended a call.
const DisconnectTrailer = "sluice-disconnect-code"

// Status is how a call ends: a code of gRPC, whose numbers Connect shares, and a text.
type Status struct {
	Code codes.Code
	Text string
}

// The statuses of calls that are not ended by the client's session.
var (
	TookNothing = Status{codes.Unavailable, "the client did not read its messages in time"}
	CutOff      = Status{codes.Unavailable, push.DisconnectShutdown.Reason}
	ClientGone  = Status{codes.Canceled, "the client has ended the call"}
	Broken      = Status{codes.Internal, "internal server error"}
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
	return Status{code, d.Reason}
}

// OfNotAdmitted returns the status of a call whose client was not admitted.
func OfNotAdmitted(err error) Status { return Status{codes.Unavailable, err.Error()} }

// OfRefused returns the status of a call whose connect request was refused: the error of Client.Connect. unexpected reports that the error is one
// of the server, which its log should have.
func OfRefused(err error) (s Status, unexpected bool) {
	var d push.Disconnect
	var e *push.Error
	switch {
	case errors.As(err, &d):
		return OfDisconnect(d), false
	case !errors.As(err, &e):
		return Status{codes.Internal, push.ErrInternal.Message}, true
	case e.Temporary:
		return Status{codes.Unavailable, e.Message}, false
	case errors.Is(err, push.ErrUnauthorized), errors.Is(err, push.ErrTokenExpired):
		return Status{codes.Unauthenticated, e.Message}, false
	case errors.Is(err, push.ErrPermissionDenied):
		return Status{codes.PermissionDenied, e.Message}, false
	}
	return Status{codes.InvalidArgument, e.Message}, false
}

// Send carries out a call of Send: it passes the commands of an encoded SendCommandsRequest to their session, and returns with which status the
// call ends; codes.OK says that the session has the commands.
func Send(ctx context.Context, g *gateway.Gateway, request []byte) Status {
	in, err := protobuf.DecodeSend(request)
	if err != nil || in.Node == "" || in.Session == "" {
		g.RequestRefused()
		return Status{codes.InvalidArgument, "the request has to have node and session of the connect reply, and commands"}
	}
	switch err := g.Emulate(ctx, in.Node, in.Session, in.Commands); {
	case err == nil:
		return Status{}
	case errors.Is(err, gateway.ErrNoSession):
		return Status{codes.NotFound, err.Error()}
	case errors.Is(err, gateway.ErrInboxFull):
		return Status{codes.ResourceExhausted, err.Error()}
	}
	return Status{codes.Unavailable, "the node of the session could not be reached"}
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
