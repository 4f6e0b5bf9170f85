package carriertest

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/gateway"
	"github.com/sluice-push/sluice/push/protocol"
)

// checkHistory: a client reads a channel's history in parts, in both directions.
func checkHistory(s *suite) {
	n := s.start(gateway.Options{})
	c := s.client(n)
	all := publications()
	var head push.Position
	for i := range all {
		head = n.put("a", all[i])
		all[i].Offset = head.Offset
	}
	ask := func(r protocol.HistoryRequest) protocol.HistoryResult {
		r.Channel = "a"
		return c.request(protocol.Command{Kind: protocol.KindHistory, History: r}).History
	}
	for _, tt := range []struct {
		request protocol.HistoryRequest
		want    []push.Publication
	}{
		{protocol.HistoryRequest{}, nil},
		{protocol.HistoryRequest{Limit: -1}, all},
		{protocol.HistoryRequest{Limit: 2}, all[:2]},
		{protocol.HistoryRequest{Limit: 2, HasSince: true, Since: push.Position{Epoch: head.Epoch, Offset: 2}}, all[2:4]},
		{protocol.HistoryRequest{Limit: 1, Reverse: true}, all[len(all)-1:]},
	} {
		got := ask(tt.request)
		if got.Position != head || len(got.Publications) != len(tt.want) {
			s.Errorf("%+v was answered with %d publications at %v, want %d at %v",
				tt.request, len(got.Publications), got.Position, len(tt.want), head)
			continue
		}
		for i := range tt.want {
			if !same(&got.Publications[i], &tt.want[i]) {
				s.Errorf("%+v: publication %d is %s, want %s", tt.request, i, describe(&got.Publications[i]), describe(&tt.want[i]))
			}
		}
	}
	n.publish("a", `"`+strings.Repeat("x", 60_000)+`"`)
	if got := ask(protocol.HistoryRequest{Limit: -1}).Publications; got[len(got)-1].Tags[push.TagMore] == "" {
		s.Errorf("an answer of %d publications does not say that there are more", len(got))
	}
	other := protocol.HistoryRequest{Channel: "a", Limit: 1, HasSince: true, Since: push.Position{Epoch: "other", Offset: 1}}
	c.wantError(protocol.Command{Kind: protocol.KindHistory, History: other}, push.ErrUnrecoverablePosition)
}

// checkPresence: the clients of a channel are present while they are connected and subscribed.
func checkPresence(s *suite) {
	n := s.start(gateway.Options{})
	a, _ := s.subscriber(n, protocol.SubscribeRequest{Channel: "chat:1"})
	b, _ := s.subscriber(n, protocol.SubscribeRequest{Channel: "chat:1"})
	room := protocol.ChannelRequest{Channel: "chat:1"}
	var present []push.ClientInfo
	s.eventually("both are present", func() bool {
		present = a.request(protocol.Command{Kind: protocol.KindPresence, Presence: room}).Presence.Clients
		return len(present) == 2
	})
	for _, info := range present {
		if info.Client != a.told.Client && info.Client != b.told.Client {
			s.Errorf("present is %+v", info)
		}
	}
	got := a.request(protocol.Command{Kind: protocol.KindPresenceStats, PresenceStats: room}).PresenceStats
	if got.Clients != 2 || got.Users != 1 {
		s.Errorf("two clients of no user are counted as %+v", got)
	}
	b.conn.Close()
	s.eventually("one has left", func() bool {
		return a.request(protocol.Command{Kind: protocol.KindPresenceStats, PresenceStats: room}).PresenceStats.Clients == 1
	})
	none := protocol.ChannelRequest{Channel: "a"}
	a.wantError(protocol.Command{Kind: protocol.KindPresence, Presence: none}, push.ErrNotAvailable)
	a.wantError(protocol.Command{Kind: protocol.KindPresenceStats, PresenceStats: none}, push.ErrNotAvailable)
}

// checkJoinLeave: a client that asks for it, and may, is told of the clients that come and go on all nodes, between publications, and resumes as others
// do; one that is not permitted to is not told. One that is told in any case does not ask.
func checkJoinLeave(s *suite) {
	permit := func(may, must bool) gateway.Options {
		return gateway.Options{Permit: func(context.Context, *gateway.Identity, *gateway.PermitRequest) (gateway.Permission, error) {
			return gateway.Permission{JoinLeave: may, ForceJoinLeave: must, Info: []byte(`{"seat":1}`)}, nil
		}}
	}
	may, must, mayNot := s.start(permit(true, false)), s.start(permit(false, true)), s.start(permit(false, false))
	asking := protocol.SubscribeRequest{Channel: "rooms:1", JoinLeave: true}
	a, _ := s.subscriber(may, asking)
	a.wantJoin(protocol.PushJoin, a)
	b, _ := s.subscriber(must, protocol.SubscribeRequest{Channel: "rooms:1"})
	a.wantJoin(protocol.PushJoin, b)
	b.wantJoin(protocol.PushJoin, b)
	silent, _ := s.subscriber(mayNot, asking)
	a.wantJoin(protocol.PushJoin, silent)
	b.wantJoin(protocol.PushJoin, silent)
	want := push.Publication{Data: []byte("1"), Offset: may.publish("rooms:1", "1").Offset}
	for _, c := range []*client{a, b, silent} {
		c.wantPublication("rooms:1", want)
	}
	b.conn.Close()
	a.wantJoin(protocol.PushLeave, b)
	if s.harness.sends() {
		silent.request(protocol.Command{Kind: protocol.KindUnsubscribe, Unsubscribe: protocol.ChannelRequest{Channel: "rooms:1"}})
		a.wantJoin(protocol.PushLeave, silent)
	}
}

// wantJoin fails the check unless the next push says that a client has come or gone.
func (c *client) wantJoin(kind protocol.PushKind, who *client) {
	s := c.suite
	s.Helper()
	want := push.ClientInfo{Client: who.told.Client, ChanInfo: []byte(`{"seat":1}`)}
	if p := c.push(); p.Kind != kind || p.Channel != "rooms:1" || !reflect.DeepEqual(p.Client, want) {
		s.Fatalf("got %v in %q of %+v, want %v of %+v", p.Kind, p.Channel, p.Client, kind, want)
	}
}

// checkCalls: the one call that there is is carried out, and others are refused, as commands are that this server does not have.
func checkCalls(s *suite) {
	n := s.start(gateway.Options{})
	c, _ := s.subscriber(n, protocol.SubscribeRequest{Channel: "table:a"})
	call := func(method, data string) protocol.Command {
		return protocol.Command{Kind: protocol.KindRPC, RPC: protocol.RPCRequest{Method: method, Data: []byte(data)}}
	}
	for _, tt := range [][2]string{
		{`{"bandwidth":5000}`, `{"bandwidth":5000}`},
		{`{"channel":"table:a","interval":70}`, `{"channel":"table:a","interval":70}`},
	} {
		if got := c.request(call("sluice.pace", tt[0])).RPC.Data; string(got) != tt[1] {
			s.Errorf("%s was answered %s", tt[0], got)
		}
	}
	c.wantError(call("sluice.pace", `{}`), push.ErrBadRequest)
	c.wantError(call("sluice.pace", `{"channel":"table:other","interval":70}`), push.ErrBadRequest)
	c.wantError(call("other", `{}`), push.ErrNotAvailable)
	c.wantError(protocol.Command{Kind: protocol.KindRefresh}, push.ErrBadRequest)
	c.wantError(protocol.Command{Kind: protocol.KindSubRefresh, SubRefresh: protocol.SubRefreshRequest{Channel: "table:a"}}, push.ErrBadRequest)
	s.must("send", c.send(&protocol.Command{Kind: protocol.KindSend, Send: protocol.SendRequest{Data: []byte("1")}}))
	c.wantEnd(push.DisconnectNotAvailable)
}

// checkPingCommand: a client may ping the server, and pongs that were not asked for are no error.
func checkPingCommand(s *suite) {
	c := s.client(s.start(gateway.Options{}))
	for range 3 {
		s.must("send", c.send(&protocol.Command{}, &protocol.Command{}))
		c.ping()
	}
}

// checkPings: the server pings, and a client that answers stays. Nothing else is between the pings.
func checkPings(s *suite) {
	o := gateway.Options{PingInterval: time.Second, PongTimeout: time.Second}
	if !s.harness.RealTime { // both pass while nothing is sent, and end no stream
		o.WriteTimeout, s.responseTimeout = 500*time.Millisecond, 1500*time.Millisecond
	}
	n := s.start(o)
	c, _ := s.subscriber(n, protocol.SubscribeRequest{Channel: "a"})
	if c.told.Ping != 1 {
		s.Errorf("the client is told that it is pinged every %d seconds", c.told.Ping)
	}
	for range 3 {
		if r := c.next(); !r.IsPing() {
			s.Fatalf("instead of a ping: %+v", r)
		}
		if s.harness.sends() {
			s.must("send", c.send(&protocol.Command{}))
		}
	}
	p := push.Publication{Data: []byte("1")}
	p.Offset = n.put("a", p).Offset
	r := c.next()
	for r.IsPing() {
		r = c.next()
	}
	if !same(&r.Push.Publication, &p) {
		s.Errorf("after the pings came %+v", r)
	}
}

// checkNoPong: a client that does not answer the ping ends, and is told.
func checkNoPong(s *suite) {
	n := s.start(gateway.Options{PingInterval: time.Second, PongTimeout: 1500 * time.Millisecond})
	c := s.client(n)
	for {
		r, err := c.receive()
		if err == nil && r.IsPing() {
			continue
		}
		var d push.Disconnect
		if !errors.As(err, &d) || d != push.DisconnectNoPong {
			s.Errorf("a client that does not answer got %+v, %v", r, err)
		}
		break
	}
	n.waitLen(0)
	if got := n.stats().Disconnected[uint32(push.DisconnectNoPong.Code)]; got != 1 {
		s.Errorf("%s is counted %d times", fmt.Sprint(push.DisconnectNoPong), got)
	}
}
