package clientconn

import (
	"context"
	"errors"
	"fmt"
	"net/url"

	"github.com/sluice-push/sluice/push"
	wsclients "github.com/sluice-push/sluice/push/gateway/websocket"
	"github.com/sluice-push/sluice/websocket"
	"github.com/sluice-push/sluice/websocket/wire"
)

// webSocket is a WebSocket connection.
type webSocket struct {
	conn *websocket.Conn
	op   websocket.Opcode
}

func dialWebSocket(ctx context.Context, base *url.URL, f form, first []byte, dial dialFunc) (stream, error) {
	u := *base
	u.Scheme = map[string]string{"http": "ws", "https": "wss"}[base.Scheme]
	u.Path += wsclients.Path
	o := &websocket.Options{MaxMessage: maxMessage, Subprotocols: []string{"centrifuge-json"}, DialContext: dial}
	s := &webSocket{op: websocket.OpText}
	if f.isBinary() {
		o.Subprotocols, s.op = []string{"centrifuge-protobuf"}, websocket.OpBinary
	}
	conn, err := websocket.Dial(ctx, u.String(), o)
	if refused := new(wire.HandshakeError); errors.As(err, &refused) && refused.Status != 0 {
		return nil, &Refused{Status: refused.Status, Reason: err.Error()}
	}
	if err != nil {
		return nil, fmt.Errorf("%s does not answer: %w", base, err)
	}
	s.conn = conn
	if err := s.Send(ctx, first); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

func (s *webSocket) Send(ctx context.Context, frame []byte) error {
	return s.conn.SendContext(ctx, s.op, frame)
}

func (s *webSocket) Receive(ctx context.Context) ([]byte, error) {
	m, err := s.conn.Receive(ctx)
	if closed := new(websocket.CloseError); errors.As(err, &closed) && closed.Remote {
		return nil, &Closed{push.Disconnect{Code: closed.Code, Reason: closed.Reason}}
	}
	if err != nil {
		return nil, fmt.Errorf("connection lost: %w", err)
	}
	return m.Data, nil
}

func (s *webSocket) Close() { s.conn.CloseNow() }
