package carriertest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/gateway"
	"github.com/sluice-push/sluice/push/protocol"
)

// What a command and a frame may have in the checks of refusals.
const (
	commandBytes = 4 << 10
	frameBytes   = 16 << 10
)

// witness is a client beside one that is refused: it must notice nothing.
type witness struct{ *client }

func (s *suite) witness(n *node) witness {
	s.Helper()
	c, _ := s.subscriber(n, protocol.SubscribeRequest{Channel: "witness"})
	return witness{c}
}

// unharmed fails the check unless the witness is served as before.
func (w witness) unharmed(n *node) {
	w.suite.Helper()
	p := push.Publication{Data: []byte(`"all is well"`)}
	p.Offset = n.put("witness", p).Offset
	w.wantPublication("witness", p)
	if w.suite.harness.sends() {
		w.ping()
	}
}

// checkTooManyClients: a client beyond the limit is not connected, learns it, and is counted once. When another client has left, there is room again.
func checkTooManyClients(s *suite) {
	n := s.start(gateway.Options{Sessions: 2})
	w := s.witness(n)
	for range 3 {
		c := s.client(n)
		full := n.gateway.Stats().Refused.Full
		if c, err := s.tryDial(n, n, ""); err == nil {
			if told, err := c.connect(protocol.ConnectRequest{}); err == nil {
				s.Errorf("a client beyond the limit is connected: %+v", told)
			}
			c.conn.Close()
		}
		if got := n.gateway.Stats().Refused.Full - full; got != 1 {
			s.Errorf("a client beyond the limit is counted %d times", got)
		}
		w.unharmed(n)
		c.conn.Close()
		n.waitLen(1)
	}
	n.wantSum()
	if got := n.stats(); got.Opened != 4 || got.Clients != 1 || got.Left != 3 {
		s.Errorf("counted: %+v", got)
	}
}

// checkTooManyOfUser: a user's client is not connected if as many as are allowed are, and learns that it is not to try again; clients of others are
// connected. When a client of the user has left, there is room again.
func checkTooManyOfUser(s *suite) {
	n := s.start(gateway.Options{SessionsPerUser: 1, Authenticate: func(_ context.Context, token string, _ *http.Request) (gateway.Identity, error) {
		return gateway.Identity{Info: push.ClientInfo{User: token}}, nil
	}})
	connect := func(user string) (*client, error) {
		c := s.dial(n)
		_, err := c.connect(protocol.ConnectRequest{Token: user})
		return c, err
	}
	w := s.witness(n)
	_, err := connect("bob")
	s.must("connect", err)
	for range 3 {
		first, err := connect("ann")
		s.must("connect", err)
		c, err := connect("ann")
		var ended push.Disconnect
		if err == nil {
			s.Errorf("a client beyond the limit of its user is connected")
		}
		if isTold := errors.As(err, &ended); isTold && ended.Code != push.DisconnectConnectionLimit.Code || !isTold && s.harness.sends() {
			s.Errorf("a client beyond the limit of its user got %v", err)
		}
		c.conn.Close()
		w.unharmed(n)
		first.conn.Close()
		n.waitLen(2)
	}
	n.wantSum()
}

// checkTooManyConnects: clients beyond the rate of connects are not connected, learn it, and are counted; later they are admitted.
func checkTooManyConnects(s *suite) {
	n := s.start(gateway.Options{Connects: 1})
	w := s.witness(n)
	connected := func() bool {
		c, err := s.tryDial(n, n, "")
		if err != nil {
			return false
		}
		_, err = c.connect(protocol.ConnectRequest{})
		return err == nil
	}
	for connected() { // if more than a second has passed
	}
	if got := n.gateway.Stats().Refused.Ramp; got != 1 {
		s.Errorf("a client beyond the rate is counted %d times", got)
	}
	w.unharmed(n)
	s.eventually("a client is admitted again", connected)
	n.wantSum()
}

// checkBadCommands: a command that cannot be carried out is answered with an error, which is counted, and the connection goes on; or it ends the
// connection, if there is nothing to answer.
func checkBadCommands(s *suite) {
	n := s.start(gateway.Options{MessageBytes: commandBytes, FrameBytes: frameBytes})
	w := s.witness(n)
	big := []byte(`"` + strings.Repeat("x", commandBytes) + `"`)
	deep := []byte(strings.Repeat("[", 500) + strings.Repeat("]", 500))
	subscribe := func(r protocol.SubscribeRequest) protocol.Command {
		return protocol.Command{Kind: protocol.KindSubscribe, Subscribe: r}
	}
	publish := func(data []byte) protocol.Command {
		return protocol.Command{Kind: protocol.KindPublish, Publish: protocol.PublishRequest{Channel: "a", Data: data}}
	}
	c := s.client(n)
	for _, tt := range []struct {
		command protocol.Command
		want    *push.Error
	}{
		{protocol.Command{Kind: protocol.KindUnknown}, push.ErrMethodNotFound},
		{subscribe(protocol.SubscribeRequest{Channel: "nowhere:a"}), push.ErrUnknownChannel},
		{subscribe(protocol.SubscribeRequest{Channel: ""}), push.ErrBadRequest},
		{subscribe(protocol.SubscribeRequest{Channel: "a\x01"}), push.ErrBadRequest},
		{subscribe(protocol.SubscribeRequest{Channel: "a", Type: 9}), push.ErrNotAvailable},
		{subscribe(protocol.SubscribeRequest{Channel: "a", Data: []byte(`{"sluice":{"interval":-1}}`)}), push.ErrBadRequest},
		{subscribe(protocol.SubscribeRequest{Channel: "table:a", Type: protocol.SubscriptionMap, Phase: 7}), push.ErrBadRequest},
		{publish(big), push.ErrLimitExceeded},
		{publish(deep), push.ErrBadRequest},
		{publish([]byte(`"\ud800"`)), push.ErrBadRequest},
	} {
		before := n.gateway.Stats().Errors[tt.want.Code]
		c.wantError(tt.command, tt.want)
		if got := n.gateway.Stats().Errors[tt.want.Code] - before; got != 1 {
			s.Errorf("error %v is counted %d times", tt.want, got)
		}
		w.unharmed(n)
	}
	c.ping()
	for _, kind := range []protocol.Kind{protocol.KindPing, protocol.KindSubscribe, protocol.KindPublish} {
		c := s.client(n)
		s.must("send", c.send(&protocol.Command{Kind: kind}, &protocol.Command{ID: 5, Kind: protocol.KindPing}))
		c.wantEnd(push.DisconnectBadRequest)
		w.unharmed(n)
	}
	if got := n.stats().Disconnected[uint32(push.DisconnectBadRequest.Code)]; got != 3 {
		s.Errorf("three clients without ids are counted as %d", got)
	}
	n.waitLen(2)
	n.wantSum()
}

// checkBadFrames: bytes that are no commands end the connection, which is counted. A frame that is too large is refused or ends the connection.
func checkBadFrames(s *suite) {
	n := s.start(gateway.Options{MessageBytes: commandBytes, FrameBytes: frameBytes})
	w := s.witness(n)
	bad := s.harness.Form.malformed()
	publish := protocol.Command{ID: 2, Kind: protocol.KindPublish, Publish: protocol.PublishRequest{Channel: "a", Data: []byte(`{x`)}}
	if s.harness.Form == JSON { // in the Protobuf form the command can be answered
		bad["data that is no JSON"] = s.harness.Form.appendCommand(nil, &publish)
	} else {
		c := s.client(n)
		c.wantError(publish, push.ErrBadRequest)
		c.conn.Close()
	}
	ended := uint64(0)
	for name, frame := range bad {
		c := s.client(n)
		err := c.conn.Send(frame)
		if errors.Is(err, errors.ErrUnsupported) {
			c.conn.Close()
			continue
		}
		s.must("send "+name, err)
		r, err := c.receive()
		var d push.Disconnect
		if !errors.As(err, &d) || d.Code != push.DisconnectBadRequest.Code || !hasPrefix(d.Reason, push.DisconnectBadRequest.Reason) {
			s.Errorf("%s: got %+v, %v", name, r, err)
		}
		ended++
		w.unharmed(n)
	}
	if got := n.stats().Disconnected[uint32(push.DisconnectBadRequest.Code)]; got != ended {
		s.Errorf("%d bad frames ended %d connections", ended, got)
	}
	publish.Publish.Data = []byte(`"` + strings.Repeat("x", frameBytes) + `"`)
	n.wantRefused("a frame that is too large", s.harness.Form.appendCommand(nil, &publish))
	if s.harness.Form == JSON {
		n.wantRefused("text that is not UTF-8", []byte("{\"id\":2,\"rpc\":{\"method\":\"\xff\"}}"))
	}
	w.unharmed(n)
	n.wantSum()
}

// refusals returns how many requests of the transport's clients were refused, and how many connections the server has ended.
func (n *node) refusals() (total uint64) {
	for _, ended := range n.stats().Disconnected {
		total += ended
	}
	return total + n.gateway.Stats().Refused.Request
}

// wantRefused fails the check unless a frame is refused or ends the connection, in any way, and is counted once.
func (n *node) wantRefused(name string, frame []byte) {
	s := n.suite
	s.Helper()
	n.waitLen(1) // the witness
	c, refused := s.client(n), n.refusals()
	defer c.conn.Close()
	err := c.conn.Send(frame)
	if errors.Is(err, errors.ErrUnsupported) {
		return
	}
	if err != nil {
		c.ping()
	} else {
		var r protocol.Reply
		if r, err = c.receive(); err == nil {
			s.Errorf("%s was answered %+v", name, r)
		}
		c.conn.Close()
		n.waitLen(1)
	}
	if got := n.refusals() - refused; got != 1 {
		s.Errorf("%s: the refusal, %v, is counted %d times", name, err, got)
	}
}

// checkBadRequests: a one-way client whose request is not understood, or of which a subscription is refused, is not connected, and is counted once.
func checkBadRequests(s *suite) {
	n := s.start(gateway.Options{
		MessageBytes: commandBytes,
		FrameBytes:   frameBytes,
		Permit: func(_ context.Context, _ *gateway.Identity, r *gateway.PermitRequest) (gateway.Permission, error) {
			if strings.HasPrefix(r.Channel, "secret") {
				return gateway.Permission{}, push.ErrPermissionDenied
			}
			return gateway.Permission{}, nil
		},
	})
	w := s.witness(n)
	subs := func(r protocol.SubscribeRequest) []byte {
		return s.harness.Form.connectRequest(&protocol.ConnectRequest{Subs: map[string]protocol.SubscribeRequest{r.Channel: r, "fine": {}}})
	}
	bad := map[string][]byte{
		"unknown channel":   subs(protocol.SubscribeRequest{Channel: "nowhere:a"}),
		"forbidden channel": subs(protocol.SubscribeRequest{Channel: "secret"}),
		"bad wish":          subs(protocol.SubscribeRequest{Channel: "table:a", Data: []byte(`{"sluice":{"interval":-1}}`)}),
		"a map":             subs(protocol.SubscribeRequest{Channel: "table:a", Type: protocol.SubscriptionMap, Phase: protocol.PhaseState}),
	}
	for name, request := range s.harness.Form.malformedRequests() {
		bad[name] = request
	}
	many := protocol.ConnectRequest{Subs: map[string]protocol.SubscribeRequest{}}
	for i := range 200 {
		many.Subs[fmt.Sprint(i)] = protocol.SubscribeRequest{}
	}
	bad["too many subscriptions"] = s.harness.Form.connectRequest(&many)
	bad["too large"] = s.harness.Form.connectRequest(&protocol.ConnectRequest{Token: strings.Repeat("x", 60_000)})
	for name, request := range bad {
		before, refused := n.refusals(), n.gateway.Stats().Refused.Client
		c := s.dial(n)
		err := c.conn.Send(request)
		if errors.Is(err, errors.ErrUnsupported) {
			continue
		}
		if err == nil {
			var r protocol.Reply
			if r, err = c.receive(); err == nil {
				s.Errorf("%s: got %+v", name, r)
			}
		}
		c.conn.Close()
		n.waitLen(1)
		if got, more := n.refusals()-before, n.gateway.Stats().Refused.Client-refused; got+more == 0 || got > 1 || more > 1 {
			s.Errorf("%s is counted %d times as ended or not understood, and %d times as refused", name, got, more)
		}
		w.unharmed(n)
	}
	n.wantSum()
}
