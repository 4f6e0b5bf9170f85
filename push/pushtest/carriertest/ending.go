package carriertest

import (
	"context"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/gateway"
	"github.com/sluice-push/sluice/push/hub"
	"github.com/sluice-push/sluice/push/protocol"
)

// disconnects are those for which a server ends connections.
var disconnects = []push.Disconnect{
	push.DisconnectConnectionClosed, push.DisconnectShutdown, push.DisconnectServerError, push.DisconnectExpired, push.DisconnectSlow,
	push.DisconnectWriteError, push.DisconnectInsufficientState, push.DisconnectForceReconnect, push.DisconnectNoPong,
	push.DisconnectTooManyRequests, push.DisconnectStateInvalidated, push.DisconnectMove, push.DisconnectWrongGateway, push.DisconnectInvalidToken, push.DisconnectBadRequest,
	push.DisconnectStale,
	push.DisconnectForceNoReconnect, push.DisconnectConnectionLimit, push.DisconnectChannelLimit, push.DisconnectPermissionDenied,
	push.DisconnectNotAvailable,
}

// checkCodes: a client whose connection the server ends is told the code and the reason, and is counted by the code. It is not present any more.
func checkCodes(s *suite) {
	n := s.start(gateway.Options{})
	for _, d := range append([]push.Disconnect{{Code: 4321, Reason: "an application's own: é"}}, disconnects...) {
		c, _ := s.subscriber(n, protocol.SubscribeRequest{Channel: "chat:1"})
		p := push.Publication{Data: []byte(`"before"`)}
		p.Offset = n.put("chat:1", p).Offset
		c.wantPublication("chat:1", p)
		s.must("disconnect", n.hub.Disconnect(s.ctx, hub.Target{Client: c.told.Client}, d, nil))
		c.wantEnd(d)
		n.waitLen(0)
	}
	n.wantSum()
	got := n.stats()
	for _, d := range disconnects {
		if count := got.Disconnected[uint32(d.Code)]; count != 1 {
			s.Errorf("%v is counted %d times", d, count)
		}
	}
	s.eventually("no client is present", func() bool {
		clients, _, err := n.hub.PresenceStats(s.ctx, "chat:1")
		return err == nil && clients == 0
	})
}

// checkShutdown: a node that shuts down asks its clients to connect again, and admits none.
func checkShutdown(s *suite) {
	n := s.start(gateway.Options{})
	var clients []*client
	for range 5 {
		c, _ := s.subscriber(n, protocol.SubscribeRequest{Channel: "a"})
		clients = append(clients, c)
	}
	if s.harness.sends() || s.harness.ConnectsLate {
		silent := s.dial(n) // it has not connected yet
		if s.harness.sends() {
			s.must("send", silent.send(&protocol.Command{}))
		}
		s.eventually("the silent client is connected", func() bool { return n.gateway.Len() == len(clients)+1 })
		clients = append(clients, silent)
	}
	var err error
	shut := s.background(func() { err = n.gateway.Shutdown(s.ctx) })
	for _, c := range clients {
		c.wantEnd(push.DisconnectShutdown)
		c.conn.Close()
	}
	s.within("shut down", shut)
	s.must("shut down", err)
	n.wantSum()
	if got := n.stats(); got.Clients != 0 || got.Disconnected[uint32(push.DisconnectShutdown.Code)] != uint64(len(clients)) {
		s.Errorf("%d clients are counted as %+v", len(clients), got)
	}
	ctx, cancel := context.WithCancel(s.ctx)
	defer cancel()
	var late wires
	conn, err := s.harness.Dial(ctx, Target{Dial: late.dialer(s.network, n.ln), DialCommands: late.dialer(s.network, n.ln)})
	if err != nil {
		return
	}
	defer conn.Close()
	defer late.cut()
	c := &client{suite: s, conn: conn}
	if told, err := c.connect(protocol.ConnectRequest{}); err == nil {
		s.Errorf("a node that has shut down admits a client: %+v", told)
	}
}

// checkStatistics: each connection is counted once, as connected or by how it ended, and so are the commands.
func checkStatistics(s *suite) {
	n := s.start(gateway.Options{})
	var clients []*client
	for range 6 {
		c, _ := s.subscriber(n, protocol.SubscribeRequest{Channel: "a"})
		clients = append(clients, c)
	}
	n.publish("a", fill(0))
	for _, c := range clients {
		c.publication("a")
	}
	clients[0].conn.Close()
	clients[1].conn.Close()
	clients[2].wires.cut()
	s.must("disconnect", n.hub.Disconnect(s.ctx, hub.Target{Client: clients[3].told.Client}, push.DisconnectForceReconnect, nil))
	clients[3].wantEnd(push.DisconnectForceReconnect)
	clients[3].conn.Close()
	n.waitLen(2)
	n.wantSum()
	got := n.stats()
	if got.Opened != 6 || got.Clients != 2 || got.Left != 3 || got.TimedOut != 0 ||
		got.Disconnected[uint32(push.DisconnectForceReconnect.Code)] != 1 || got.BytesOut < filler || got.Panics != 0 {
		s.Errorf("counted: %+v", got)
	}
	commands := n.gateway.Stats().Commands
	if s.harness.sends() && (commands[protocol.KindConnect] != 6 || commands[protocol.KindSubscribe] != 6) {
		s.Errorf("the commands are counted as %v", commands)
	}
	hubbed := n.hub.Stats()
	if hubbed.Sessions != 2 || hubbed.Subscriptions != 2 || hubbed.Delivered != 6 {
		s.Errorf("the hub counts %d sessions, %d subscriptions, %d deliveries", hubbed.Sessions, hubbed.Subscriptions, hubbed.Delivered)
	}
}
