package carriertest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/protocol"
)

// client is a client of the suite. One goroutine uses it, except for send.
type client struct {
	suite *suite
	conn  Conn
	wires wires
	told  protocol.ConnectResult

	queue  []protocol.Reply // received and not looked at
	lastID uint32
	end    error
}

// dial returns a client of a node that has sent nothing yet.
func (s *suite) dial(n *node) *client {
	s.Helper()
	return s.dialVia(n, n, "")
}

// dialVia is dial for a client that sends its later commands to another node, or whose last id was told before.
func (s *suite) dialVia(n, via *node, lastID string) *client {
	s.Helper()
	c, err := s.tryDial(n, via, lastID)
	s.must("dial", err)
	return c
}

// tryDial is dialVia for a client that the node may refuse when the connection is made.
func (s *suite) tryDial(n, via *node, lastID string) (*client, error) {
	s.Helper()
	c := &client{suite: s}
	target := Target{Dial: c.wires.dialer(s.network, n.ln), DialCommands: c.wires.dialer(s.network, via.ln), LastID: lastID}
	conn, err := s.harness.Dial(s.ctx, target)
	if err != nil {
		c.wires.cut()
		return nil, err
	}
	c.conn = conn
	stop := context.AfterFunc(s.ctx, c.wires.cut) // frees what waits for the client when the check has no time left
	s.atEnd("to close a client", func() {
		stop()
		c.wires.cut()
		conn.Close()
	})
	return c, nil
}

// connect connects and returns what the client is told. The error is a push.Disconnect, a *push.Error, or says that the request was refused.
func (c *client) connect(r protocol.ConnectRequest) (told protocol.ConnectResult, err error) {
	c.suite.Helper()
	if c.suite.harness.sends() {
		err = c.send(&protocol.Command{ID: 1, Kind: protocol.KindConnect, Connect: r})
	} else {
		err = c.conn.Send(c.suite.harness.Form.connectRequest(&r))
	}
	if err != nil {
		return told, err
	}
	reply, err := c.receive()
	switch {
	case err != nil:
		return told, err
	case reply.Error != nil:
		return told, reply.Error
	case c.suite.harness.sends() && reply.ID == 1 && reply.Kind == protocol.KindConnect:
		c.lastID, c.told = 1, reply.Connect
	case reply.Kind == protocol.KindPush && reply.Push.Kind == protocol.PushConnect:
		c.told = reply.Push.Connect
	default:
		c.suite.Fatalf("connect was answered %+v", reply)
	}
	return c.told, nil
}

// client returns a connected client.
func (s *suite) client(n *node) *client {
	s.Helper()
	c := s.dial(n)
	_, err := c.connect(protocol.ConnectRequest{})
	s.must("connect", err)
	return c
}

// subscriber returns a client with a subscription. A one-way client asks for it when it connects.
func (s *suite) subscriber(n *node, r protocol.SubscribeRequest) (*client, protocol.SubscribeResult) {
	s.Helper()
	c := s.dial(n)
	return c, c.begin(r)
}

// begin connects a client with a subscription.
func (c *client) begin(r protocol.SubscribeRequest) protocol.SubscribeResult {
	s := c.suite
	s.Helper()
	if s.harness.sends() {
		_, err := c.connect(protocol.ConnectRequest{})
		s.must("connect", err)
		return c.subscribe(r)
	}
	told, err := c.connect(protocol.ConnectRequest{Subs: map[string]protocol.SubscribeRequest{r.Channel: r}})
	s.must("connect", err)
	result, ok := told.Subs[r.Channel]
	if !ok {
		s.Fatalf("the subscription to %s is missing in %+v", r.Channel, told)
	}
	return result
}

// send sends commands in one frame.
func (c *client) send(commands ...*protocol.Command) error {
	var frame []byte
	for _, cmd := range commands {
		frame = c.suite.harness.Form.appendCommand(frame, cmd)
	}
	return c.conn.Send(frame)
}

// receive returns the next reply. When the server has ended the connection, the error is the push.Disconnect of which the client was told.
func (c *client) receive() (protocol.Reply, error) {
	for len(c.queue) == 0 {
		if c.end != nil {
			return protocol.Reply{}, c.end
		}
		frame, err := c.conn.Receive()
		if err == nil {
			c.queue, err = c.suite.harness.Form.replies(frame, !c.suite.harness.sends())
		}
		c.end = err
	}
	r := c.queue[0]
	c.queue = c.queue[1:]
	if r.Kind == protocol.KindPush && r.Push.Kind == protocol.PushDisconnect {
		c.end = r.Push.Disconnect
		if len(c.queue) > 0 {
			c.end = fmt.Errorf("something follows the disconnect %d: %+v", r.Push.Disconnect.Code, c.queue)
		} else if frame, err := c.conn.Receive(); err == nil {
			c.end = fmt.Errorf("something follows the disconnect %d: %q", r.Push.Disconnect.Code, frame)
		}
		c.queue = nil
		c.conn.Close() // as clients do: a server may wait for it
		return protocol.Reply{}, c.end
	}
	return r, nil
}

// next returns the next reply, which must come.
func (c *client) next() protocol.Reply {
	c.suite.Helper()
	r, err := c.receive()
	if err != nil {
		c.suite.Fatalf("instead of a reply or push: %v", err)
	}
	return r
}

// ask sends a command and returns the reply, which must come next.
func (c *client) ask(cmd protocol.Command) protocol.Reply {
	c.suite.Helper()
	c.lastID++
	cmd.ID = c.lastID
	c.suite.must("send "+cmd.Kind.String(), c.send(&cmd))
	r := c.next()
	if r.ID != cmd.ID || r.Error == nil && r.Kind != cmd.Kind {
		c.suite.Fatalf("%s with id %d was answered %+v", cmd.Kind, cmd.ID, r)
	}
	return r
}

// request is ask for a command that must not be refused.
func (c *client) request(cmd protocol.Command) protocol.Reply {
	c.suite.Helper()
	r := c.ask(cmd)
	if r.Error != nil {
		c.suite.Fatalf("%s was refused: %v", cmd.Kind, r.Error)
	}
	return r
}

// wantError fails the check unless a command is answered with an error.
func (c *client) wantError(cmd protocol.Command, want *push.Error) {
	c.suite.Helper()
	if got := c.ask(cmd).Error; got == nil || got.Code != want.Code || got.Message == "" || got.Temporary != want.Temporary {
		c.suite.Errorf("%s was answered with error %v, want %v", cmd.Kind, got, want)
	}
}

func (c *client) subscribe(r protocol.SubscribeRequest) protocol.SubscribeResult {
	c.suite.Helper()
	return c.request(protocol.Command{Kind: protocol.KindSubscribe, Subscribe: r}).Subscribe
}

// ping fails the check unless the answer to a command is what comes next: nothing else is on its way.
func (c *client) ping() {
	c.suite.Helper()
	c.request(protocol.Command{Kind: protocol.KindPing})
}

// push returns the next push.
func (c *client) push() protocol.Push {
	c.suite.Helper()
	r := c.next()
	if r.Kind != protocol.KindPush || r.ID != 0 {
		c.suite.Fatalf("instead of a push: %+v", r)
	}
	return r.Push
}

// publication returns the next push, which must be of a publication in a channel.
func (c *client) publication(channel string) push.Publication {
	c.suite.Helper()
	p := c.push()
	if p.Kind != protocol.PushPublication || p.Channel != channel || p.ID != 0 {
		c.suite.Fatalf("instead of a publication in %s: %+v", channel, p)
	}
	return p.Publication
}

// wantPublication fails the check unless the next push is of a publication.
func (c *client) wantPublication(channel string, want push.Publication) {
	c.suite.Helper()
	if got := c.publication(channel); !same(&got, &want) {
		c.suite.Fatalf("received %s\n    want %s", describe(&got), describe(&want))
	}
}

// wantEnd fails the check unless the server ends the connection next, and says why.
func (c *client) wantEnd(want push.Disconnect) {
	c.suite.Helper()
	r, err := c.receive()
	var got push.Disconnect
	switch {
	case err == nil:
		c.suite.Fatalf("instead of %v: %+v", want, r)
	case !errors.As(err, &got), got.Code != want.Code, !hasPrefix(got.Reason, want.Reason):
		c.suite.Fatalf("ended with %v, want %v", err, want)
	}
}

// hasPrefix reports whether a reason is one of the protocol, or begins with it: details follow.
func hasPrefix(reason, want string) bool {
	return len(reason) >= len(want) && reason[:len(want)] == want
}

// same reports whether two publications are equal, except for their time. Empty and nil are equal.
func same(a, b *push.Publication) bool {
	return a.Offset == b.Offset && a.Key == b.Key && a.Op == b.Op && a.Delta == b.Delta &&
		bytes.Equal(a.Data, b.Data) && maps.Equal(a.Tags, b.Tags) && sameInfo(a.Info, b.Info)
}

func sameInfo(a, b *push.ClientInfo) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.User == b.User && a.Client == b.Client &&
		bytes.Equal(a.ConnInfo, b.ConnInfo) && bytes.Equal(a.ChanInfo, b.ChanInfo)
}

// describe returns a shortened description of a publication.
func describe(p *push.Publication) string {
	return fmt.Sprintf("{offset %d key %.40q op %d data %.60q (%d bytes) tags %v info %v delta %t}",
		p.Offset, p.Key, p.Op, p.Data, len(p.Data), p.Tags, p.Info, p.Delta)
}
