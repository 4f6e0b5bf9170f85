package sink

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/sluice-push/sluice/cmd/sluice/internal/loadtest/reasoncount"
	"github.com/sluice-push/sluice/push/protocol"
	clientjson "github.com/sluice-push/sluice/push/protocol/json"
	"github.com/sluice-push/sluice/session"
	"github.com/sluice-push/sluice/websocket"
)

// WebSocket publishes over one client connection, by publish commands in JSON or, if it is plain, by bare messages. All methods may be called
// concurrently.
type WebSocket struct {
	plain   bool
	timeout time.Duration
	client  *websocket.Client
	conn    *websocket.Conn

	mu      sync.Mutex
	last    uint32                // ID of the last command
	pending map[uint32]chan error // by command ID: where the answer goes; nil after the connection has ended
}

// WebSocketOptions say how to connect a client that publishes.
type WebSocketOptions struct {
	URL     string
	Token   string        // of the connect command
	Plain   bool          // the server has no protocol of its own
	Timeout time.Duration // how long to wait for each answer
}

// maxMessage is the size of the largest message that a server may send.
const maxMessage = 64 << 20

// DialWebSocket connects a client that publishes. The caller closes it.
func DialWebSocket(ctx context.Context, o *WebSocketOptions) (*WebSocket, error) {
	s := &WebSocket{plain: o.Plain, timeout: o.Timeout, pending: map[uint32]chan error{}}
	options := websocket.Options{MaxMessage: maxMessage}
	options.Session.HandshakeTimeout = o.Timeout
	s.client = websocket.NewClient(&websocket.Handler{Message: s.message, Close: s.closed}, &options)
	var err error
	if s.conn, err = s.client.Dial(ctx, o.URL); err == nil && !s.plain {
		connect := protocol.Command{Kind: protocol.KindConnect}
		connect.Connect.Token, connect.Connect.Name = o.Token, "sluice-bench"
		err = s.request(ctx, &connect)
	}
	if err != nil {
		s.Close()
		return nil, fmt.Errorf("connect the publishing client: %w", err)
	}
	return s, nil
}

// Publish publishes data and waits for the answer, as [HTTP.Publish] does. A plain server gives none.
func (s *WebSocket) Publish(ctx context.Context, channel string, data []byte) error {
	if s.plain {
		if err := s.conn.Send(websocket.OpText, data); err != nil {
			return &Refusal{"no connection: " + reasoncount.Of(err), true}
		}
		return nil
	}
	cmd := protocol.Command{Kind: protocol.KindPublish}
	cmd.Publish.Channel, cmd.Publish.Data = channel, data
	return s.request(ctx, &cmd)
}

// request sends a command and waits for its answer, for at most s.timeout.
func (s *WebSocket) request(ctx context.Context, cmd *protocol.Command) error {
	answer := make(chan error, 1)
	s.mu.Lock()
	if s.pending == nil {
		s.mu.Unlock()
		return &Refusal{"no connection: it has ended", true}
	}
	s.last++
	cmd.ID = s.last
	s.pending[cmd.ID] = answer
	s.mu.Unlock()
	defer s.forget(cmd.ID)
	if err := s.conn.Send(websocket.OpText, clientjson.AppendCommand(nil, cmd)); err != nil {
		return fmt.Errorf("the connection has ended: %w", err)
	}
	timer := time.NewTimer(s.timeout)
	defer timer.Stop()
	select {
	case err := <-answer:
		return err
	case <-timer.C:
		return fmt.Errorf("no answer within %v", s.timeout)
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *WebSocket) forget(id uint32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.pending, id)
}

// message is the WebSocket Message handler: it dispatches answers to their requests, and ignores the publications of a plain server.
func (s *WebSocket) message(ws *websocket.Conn, m websocket.Message) {
	if s.plain {
		return
	}
	for line, rest := clientjson.NextLine(m.Data); line != nil; line, rest = clientjson.NextLine(rest) {
		var r protocol.Reply
		switch err := clientjson.DecodeReply(line, &r); {
		case err != nil:
		case r.IsPing():
			_ = ws.Send(websocket.OpText, pong) // the method closed handles a connection that has ended
		case r.Error != nil:
			s.resolve(r.ID, failure(int(r.Error.Code), r.Error.Error()))
		case r.ID != 0:
			s.resolve(r.ID, nil)
		}
	}
}

func (s *WebSocket) resolve(id uint32, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if answer := s.pending[id]; answer != nil {
		answer <- err // does not block: the channel has room for one, and a command has one answer
		delete(s.pending, id)
	}
}

// closed is the WebSocket Close handler: it fails all waiting requests.
func (s *WebSocket) closed(_ *websocket.Conn, info *session.CloseInfo) {
	reason, _ := reasoncount.OfEnd(info.Err)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, answer := range s.pending {
		answer <- errors.New(reason)
	}
	s.pending = nil
}

// Close ends the connection and waits for its goroutines.
func (s *WebSocket) Close() { _ = s.client.Close() }

// pong is the client's answer to a ping of the server.
var pong = []byte("{}")
