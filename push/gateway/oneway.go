package gateway

import (
	"context"
	"errors"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/protocol"
	"github.com/sluice-push/sluice/push/protocol/json"
)

// ParseConnect reads the connect request of a one-way client, as JSON; none is an empty one.
func ParseConnect(text []byte) (*protocol.ConnectRequest, error) {
	var cmd protocol.Command
	if len(text) == 0 {
		return &cmd.Connect, nil
	}
	data, err := json.CompactData(text) // one value, which cannot reach out of the command around it
	if err != nil {
		return nil, err
	}
	const before = `{"connect":`
	err = json.DecodeCommand(append(append([]byte(before), data...), '}'), &cmd)
	if where := new(json.SyntaxError); errors.As(err, &where) {
		return nil, &json.SyntaxError{Offset: max(where.Offset-len(before), 0), Reason: where.Reason}
	}
	return &cmd.Connect, err
}

// ConnectAlone connects a one-way client with a connect request in JSON, and returns its connect push without framing. The carrier takes the
// hub's frames when the client has that. On an error the client is not connected: disconnect it with [DisconnectFor].
func (c *Client) ConnectAlone(request []byte) (hello []byte, err error) {
	r, err := ParseConnect(request)
	if err != nil {
		return nil, badRequest(err.Error())
	}
	ctx, cancel := context.WithTimeout(c.gateway.ctx, c.gateway.options.CommandTimeout)
	defer cancel()
	told, err := c.Connect(ctx, r, func(string, push.Position) {})
	if err != nil {
		c.gateway.ClientRefused()
		return nil, err
	}
	return c.kind.encoder.Form.AppendPush(nil, &protocol.Push{Kind: protocol.PushConnect, Connect: told}), nil
}

// DisconnectFor returns with what a one-way client is disconnected whose connect request was refused: there is no reply that could say why.
func DisconnectFor(err error) push.Disconnect {
	var d push.Disconnect
	var e *push.Error
	switch {
	case errors.As(err, &d):
		return d
	case !errors.As(err, &e) || e.Temporary:
		return push.DisconnectServerError
	case errors.Is(err, push.ErrPermissionDenied):
		return push.DisconnectPermissionDenied
	case errors.Is(err, push.ErrTokenExpired):
		return push.DisconnectExpired
	default:
		return badRequest(e.Message)
	}
}

// Connect connects a one-way client and begins the subscriptions that its request names. It returns what the client is told, and calls moved
// with the client's position in each channel before it returns, with the lock of the hub's session held. On an error the client is not connected:
// answer with the error, and call Refused.
func (c *Client) Connect(ctx context.Context, r *protocol.ConnectRequest, moved func(channel string, p push.Position)) (
	protocol.ConnectResult, error,
) {
	c.asked.Store(true)
	told, err := c.join(ctx, r)
	if err != nil {
		return told, err
	}
	err = c.beginSubscriptions(ctx, r, &told, moved)
	c.answered.Store(err == nil)
	return told, err
}
