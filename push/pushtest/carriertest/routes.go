package carriertest

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"sync/atomic"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/gateway"
	"github.com/sluice-push/sluice/push/gateway/route"
	"github.com/sluice-push/sluice/push/protocol"
)

// directory is the gateway.Routes of the checks: two gateways, the first by the user.
type directory struct {
	refuses  atomic.Bool // this node is not one of them, by a hard rule
	draining atomic.Bool // this node is left out
}

// Route implements gateway.Routes.
func (d *directory) Route(c *route.Client, _ bool) []route.Route {
	urls := []string{"wss://" + c.User + ".example.org", "wss://self.example.org/a?b&c"}
	if d.draining.Load() {
		urls = urls[:1]
	}
	var out []route.Route
	for _, u := range urls {
		out = append(out, route.Route{URL: u})
	}
	return out
}

// Allows implements gateway.Routes.
func (d *directory) Allows(*route.Client) bool { return !d.refuses.Load() }

// startWith starts a node of a cluster, on which the token of a client is its user.
func (s *suite) startWith(d *directory) *node {
	s.Helper()
	return s.start(gateway.Options{Routes: d, Authenticate: func(_ context.Context, token string, _ *http.Request) (gateway.Identity, error) {
		return gateway.Identity{Info: push.ClientInfo{User: token}}, nil
	}})
}

// sessionOf returns the session of a user.
func (n *node) sessionOf(user string) (found gateway.Session) {
	n.suite.Helper()
	n.suite.eventually("the client of "+user+" is listed", func() bool {
		for one := range n.gateway.Sessions() {
			if one.Client.User == user {
				found = one
				return true
			}
		}
		return false
	})
	return found
}

// wantMove fails the check unless the next push tells the client to go to gateways.
func (c *client) wantMove(wait int64, urls ...string) {
	c.suite.Helper()
	p := c.push()
	var in struct {
		Sluice struct {
			Move struct {
				Routes []string `json:"routes"`
				Wait   int64    `json:"retry_after"`
			} `json:"move"`
		} `json:"sluice"`
	}
	if p.Kind != protocol.PushMessage || json.Unmarshal(p.Message, &in) != nil || !slices.Equal(in.Sluice.Move.Routes, urls) || in.Sluice.Move.Wait != wait {
		c.suite.Fatalf("instead of a move to %v after %d ms: %+v with %s", urls, wait, p, p.Message)
	}
}

// checkRoutesTold: the answer to connect names gateways, beside what holds otherwise.
func checkRoutesTold(s *suite) {
	n := s.startWith(new(directory))
	for data, want := range map[string]string{
		``:          `{"sluice":{"routes":["wss://ann.example.org","wss://self.example.org/a?b\u0026c"]}}`,
		`{"app":1}`: `{"sluice":{"routes":["wss://ann.example.org","wss://self.example.org/a?b\u0026c"]}}`,
		`{"sluice":{"bandwidth":9,"routes":["x"]}}`: `{"sluice":{"bandwidth":9,"routes":["wss://ann.example.org","wss://self.example.org/a?b\u0026c"]}}`,
	} {
		r := protocol.ConnectRequest{Token: "ann"}
		if data != "" {
			r.Data = []byte(data)
		}
		told, err := s.dial(n).connect(r)
		s.must("connect", err)
		if string(told.Data) != want {
			s.Errorf("with the data %s the client is told %s, want %s", data, told.Data, want)
		}
	}
}

// checkMove: a client that is moved is told where to, and then its connection ends with a code that means reconnect, which is counted. Others stay.
func checkMove(s *suite) {
	n := s.startWith(new(directory))
	w := s.witness(n)
	c := s.dial(n)
	told, err := c.connect(protocol.ConnectRequest{Token: "ann", Subs: map[string]protocol.SubscribeRequest{"a": {Channel: "a"}}})
	s.must("connect", err)
	if s.harness.sends() {
		c.subscribe(protocol.SubscribeRequest{Channel: "a"})
	} else if _, ok := told.Subs["a"]; !ok {
		s.Fatalf("the client is told %+v", told)
	}
	session := n.sessionOf("ann")
	if got := session.Client; got.Channel != "a" || !got.Addr.IsValid() && s.harness.Listen == nil {
		s.Errorf("the client is listed as %+v", got)
	}
	p := push.Publication{Data: []byte(`"before"`)}
	p.Offset = n.put("a", p).Offset
	c.wantPublication("a", p)
	if !session.Move([]string{"wss://b.example.org", "wss://c.example.org"}, 1500e6) {
		s.Errorf("the client has ended before")
	}
	if session.Move([]string{"wss://d.example.org"}, 0) {
		s.Errorf("the client is moved twice")
	}
	c.wantMove(1500, "wss://b.example.org", "wss://c.example.org")
	c.wantEnd(push.DisconnectMove)
	n.waitLen(1)
	w.unharmed(n)
	n.wantSum()
	if got := n.stats().Disconnected[uint32(push.DisconnectMove.Code)]; got != 1 {
		s.Errorf("the move is counted %d times", got)
	}
}

// checkDrainMoves: the clients of a node that is drained are told where to go.
func checkDrainMoves(s *suite) {
	d := new(directory)
	n := s.startWith(d)
	clients := map[string]*client{}
	for _, user := range []string{"ann", "bob", "eve"} {
		c := s.dial(n)
		_, err := c.connect(protocol.ConnectRequest{Token: user})
		s.must("connect", err)
		n.sessionOf(user)
		clients[user] = c
	}
	d.draining.Store(true)
	var err error
	drained := s.background(func() { err = n.gateway.Drain(s.ctx, 0) })
	for user, c := range clients {
		c.wantMove(0, "wss://"+user+".example.org")
		c.wantEnd(push.DisconnectShutdown)
		c.conn.Close()
	}
	s.within("drain", drained)
	s.must("drain", err)
	n.waitLen(0)
	n.wantSum()
}

// checkWrongGateway: a client that a hard rule does not allow on the node is not connected, and learns that it is to connect again.
func checkWrongGateway(s *suite) {
	d := new(directory)
	n := s.startWith(d)
	w := s.witness(n)
	d.refuses.Store(true)
	for range 3 {
		c := s.dial(n)
		told, err := c.connect(protocol.ConnectRequest{Token: "ann"})
		var ended push.Disconnect
		switch isTold := errors.As(err, &ended); {
		case err == nil:
			s.Errorf("the client is connected: %+v", told)
		case isTold && ended != push.DisconnectWrongGateway, !isTold && s.harness.sends():
			s.Errorf("the client got %v", err)
		}
		c.conn.Close()
		n.waitLen(1)
		w.unharmed(n)
	}
	for one := range n.gateway.Sessions() {
		if one.Client.User == "ann" {
			s.Errorf("a client that is refused is listed")
		}
	}
	n.wantSum()
}
