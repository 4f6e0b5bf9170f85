package carriertest

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/gateway"
	"github.com/sluice-push/sluice/push/protocol"
)

// checkConnect: the answer to connect has what its client needs, and each client has an identity of its own.
func checkConnect(s *suite) {
	n := s.start(gateway.Options{Version: "v1"})
	want := protocol.ConnectResult{
		Version: "v1", Node: n.hub.ID(), Ping: 25, Pong: s.harness.sends(), Data: []byte(`{"sluice":{"bandwidth":100000}}`),
	}
	clients, sessions := map[string]bool{}, map[string]bool{}
	const count = 3
	for range count {
		got, err := s.dial(n).connect(protocol.ConnectRequest{
			Token: "t", Name: "go", Version: "1", Data: []byte(`{"app":1,"sluice":{"bandwidth":100000}}`), Headers: map[string]string{"a": "b"},
		})
		s.must("connect", err)
		clients[got.Client], sessions[got.Session] = true, true
		if got.Version != want.Version || got.Node != want.Node || got.Ping != want.Ping || got.Pong != want.Pong ||
			string(got.Data) != string(want.Data) || got.Expires || got.TTL != 0 || len(got.Subs) != 0 {
			s.Errorf("the client is told %+v, want %+v", got, want)
		}
	}
	if clients[""] || len(clients) != count {
		s.Errorf("%d clients have the identities %v", count, clients)
	}
	if isEmulated := s.harness.Way == gateway.Emulated; isEmulated && (sessions[""] || len(sessions) != count) || !isEmulated && !sessions[""] {
		s.Errorf("the secrets of %d clients are %v", count, sessions)
	}
	if got := n.stats(); got.Clients != count || got.Opened != count || n.gateway.Len() != count {
		s.Errorf("%d clients are counted as %+v", count, got)
	}
}

// checkConnectRefused: a client whose identity is refused is told why, and is not connected. An emulated client, which cannot try again, ends with
// the answer, and nothing follows that.
func checkConnectRefused(s *suite) {
	refusals := map[string]error{"expired": push.ErrTokenExpired, "invalid": push.DisconnectInvalidToken, "later": push.DisconnectServerError}
	identify := func(_ context.Context, token string, r *http.Request) (gateway.Identity, error) {
		if r == nil {
			return gateway.Identity{}, push.ErrInternal
		}
		return gateway.Identity{Info: push.ClientInfo{User: "ann"}}, refusals[token]
	}
	n := s.start(gateway.Options{Authenticate: identify, ConnectTimeout: time.Hour})
	for token, want := range refusals {
		c := s.dial(n)
		_, err := c.connect(protocol.ConnectRequest{Token: token})
		var refused *push.Error
		var ended push.Disconnect
		wanted, isDisconnect := want.(push.Disconnect) //nolint:errorlint // as it is
		switch {
		case err == nil:
			s.Errorf("a client with the token %q is connected", token)
		case s.harness.sends() && isDisconnect, errors.As(err, &ended) && isDisconnect:
			if !errors.As(err, &ended) || ended.Code != wanted.Code {
				s.Errorf("a client with the token %q got %v, want %v", token, err, want)
			}
		case s.harness.sends():
			if !errors.As(err, &refused) || !errors.Is(refused, want) {
				s.Errorf("a client with the token %q got %v, want %v", token, err, want)
			}
		}
		if s.harness.Way == gateway.TwoWay && !isDisconnect { // it may try again; an emulated client has learned no session
			_, err = c.connect(protocol.ConnectRequest{})
			s.must("connect with another token", err)
			c.ping()
		}
		if s.harness.Way == gateway.Emulated && !isDisconnect {
			if r, err := c.receive(); err == nil || errors.As(err, &ended) && !s.harness.EndsWithStatus {
				s.Errorf("after the refusal of a connect command: %+v, %v", r, err)
			}
			n.waitLen(0)
		}
	}
	n.wantSum()
	if got := n.hub.Stats().Sessions; (s.harness.Way == gateway.TwoWay) != (got == 1) {
		s.Errorf("%d clients are in the hub", got)
	}
}

// checkConnectTwice: a client that connects twice ends, which is counted, and no other.
func checkConnectTwice(s *suite) {
	n := s.start(gateway.Options{})
	w := s.witness(n)
	c := s.client(n)
	s.must("send", c.send(&protocol.Command{ID: 2, Kind: protocol.KindConnect}))
	c.wantEnd(push.DisconnectBadRequest)
	n.waitLen(1)
	w.unharmed(n)
	n.wantSum()
	if got := n.stats().Disconnected[uint32(push.DisconnectBadRequest.Code)]; got != 1 {
		s.Errorf("the end is counted %d times", got)
	}
}

// checkConnectFirst: a client that does not begin with connect ends, and its command has no effect.
func checkConnectFirst(s *suite) {
	n := s.start(gateway.Options{})
	for _, cmd := range []protocol.Command{
		{ID: 1, Kind: protocol.KindPublish, Publish: protocol.PublishRequest{Channel: "a", Data: []byte("1")}},
		{ID: 1, Kind: protocol.KindSubscribe, Subscribe: protocol.SubscribeRequest{Channel: "a"}},
		{ID: 1, Kind: protocol.KindPing},
	} {
		c := s.dial(n)
		err := c.send(&cmd, &protocol.Command{ID: 2, Kind: protocol.KindConnect})
		if errors.Is(err, errors.ErrUnsupported) { // the first request has one command
			err = c.send(&cmd)
		}
		s.must("send", err)
		c.wantEnd(push.DisconnectBadRequest)
	}
	if got := n.hub.Stats(); got.Published != 0 || got.New != 0 {
		s.Errorf("commands before connect were carried out: %+v", got.Counts)
	}
	n.waitLen(0)
}

// checkConnectLate: a client that does not connect in time ends, though it gives signs of life.
func checkConnectLate(s *suite) {
	n := s.start(gateway.Options{ConnectTimeout: time.Second})
	c := s.dial(n)
	if s.harness.sends() {
		s.must("send", c.send(&protocol.Command{}))
	}
	c.wantEnd(push.DisconnectStale)
	n.waitLen(0)
	if got := n.stats(); got.Disconnected[uint32(push.DisconnectStale.Code)] != 1 {
		s.Errorf("counted: %+v", got)
	}
}
