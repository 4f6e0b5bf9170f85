package tcp_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/gateway"
	"github.com/sluice-push/sluice/push/gateway/tcp"
	"github.com/sluice-push/sluice/push/protocol"
	"github.com/sluice-push/sluice/push/protocol/protobuf"
)

// A client connects, subscribes, publishes, and asks for history and presence.
func TestCommands(t *testing.T) {
	eachEngine(t, func(t *testing.T, o *tcp.Options) {
		p := newPlace(t, nil, o)
		c := p.dial()
		if r := c.ask(protocol.Command{Kind: protocol.KindConnect}).Connect; r.Version != "v1" || r.Ping != 25 || !r.Pong || r.Node != p.hub.ID() {
			t.Errorf("connecting was answered %+v", r)
		}
		if r := c.subscribe(protocol.SubscribeRequest{Channel: "chat:a"}); !r.Recoverable || r.Position.Offset != 0 || r.Position.Epoch == "" {
			t.Errorf("subscribing was answered %+v", r)
		}
		c.send(protocol.Command{ID: 1, Kind: protocol.KindPublish, Publish: protocol.PublishRequest{Channel: "chat:a", Data: []byte(`{"x":1}`)}})
		for seen := 0; seen < 2; { // the push may come before the answer
			switch r := c.receive(); {
			case r.ID == 1 && r.Kind == protocol.KindPublish, r.Push.Channel == "chat:a" && string(r.Push.Publication.Data) == `{"x":1}`:
				seen++
			case r.Push.Kind == protocol.PushJoin:
			default:
				t.Fatalf("received %s", text(r))
			}
		}
		h := c.ask(protocol.Command{Kind: protocol.KindHistory, History: protocol.HistoryRequest{Channel: "chat:a", Limit: -1}}).History
		if len(h.Publications) != 1 || h.Position.Offset != 1 {
			t.Errorf("the history is %+v", h)
		}
		testwait.True(t, "the client is present", func() bool {
			r := c.ask(protocol.Command{Kind: protocol.KindPresence, Presence: protocol.ChannelRequest{Channel: "chat:a"}})
			return len(r.Presence.Clients) == 1
		})
		c.ask(protocol.Command{Kind: protocol.KindPing})
		c.ask(protocol.Command{Kind: protocol.KindUnsubscribe, Unsubscribe: protocol.ChannelRequest{Channel: "chat:a"}})
		c.send(protocol.Command{ID: 2, Kind: protocol.KindRPC})
		if r := c.receive(); r.ID != 2 || r.Error == nil {
			t.Errorf("an rpc was answered %s", text(r))
		}
		if s := p.stats(); s.Clients != 1 || s.Opened != 1 || s.BytesIn == 0 || s.BytesOut == 0 || p.gateway.Len() != 1 {
			t.Errorf("%+v", s)
		}
		must(t, c.conn.Close())
		testwait.True(t, "the client has left", func() bool { s := p.stats(); return s.Clients == 0 && s.Left == 1 })
	})
}

// Commands may come in one write, or byte by byte; several clients get the same.
func TestPieces(t *testing.T) {
	eachEngine(t, func(t *testing.T, o *tcp.Options) {
		p := newPlace(t, nil, o)
		whole, slow := p.dial(), p.dial()
		commands := []protocol.Command{
			{ID: 1, Kind: protocol.KindConnect},
			{ID: 2, Kind: protocol.KindSubscribe, Subscribe: protocol.SubscribeRequest{Channel: strings.Repeat("c", 200)}}, // two bytes of length
			{ID: 3, Kind: protocol.KindPing},
		}
		whole.send(commands...)
		var b []byte
		for i := range commands {
			b = protobuf.AppendCommand(b, &commands[i])
		}
		for i := range b {
			slow.write(b[i : i+1])
		}
		for _, c := range []*client{whole, slow} {
			for i := range commands {
				if r := c.receive(); r.ID != commands[i].ID || r.Kind != commands[i].Kind || r.Error != nil {
					t.Fatalf("command %d was answered %s", i, text(r))
				}
			}
		}
		large := `"` + strings.Repeat("x", 60_000) + `"`
		for _, data := range []string{"1", large, "3"} {
			p.publish(strings.Repeat("c", 200), data)
		}
		for _, c := range []*client{whole, slow} {
			c.want(strings.Repeat("c", 200), "1", large, "3")
		}
	})
}

// A client whose connection was cut resumes where it was.
func TestRecovery(t *testing.T) {
	eachEngine(t, func(t *testing.T, o *tcp.Options) {
		p := newPlace(t, nil, o)
		c, r := p.subscribe("a")
		p.publish("a", "1")
		c.want("a", "1")
		must(t, c.conn.Close())
		p.publish("a", "2")
		p.publish("a", "3")
		c = p.connect()
		got := c.subscribe(protocol.SubscribeRequest{Channel: "a", Recover: true, Position: push.Position{Epoch: r.Position.Epoch, Offset: 1}})
		if !got.Recovered || len(got.Publications) != 2 || string(got.Publications[1].Data) != "3" {
			t.Errorf("%+v", got)
		}
		p.publish("a", "4")
		c.want("a", "4")
	})
}

// The server pings; a client that answers stays, another one is disconnected.
func TestHeartbeat(t *testing.T) {
	p := newPlace(t, &gateway.Options{PingInterval: 1e9, PongTimeout: 5e8}, nil)
	answers, silent := p.connect(), p.connect()
	for range 2 {
		if r := answers.receive(); !r.IsPing() {
			t.Fatalf("received %s", text(r))
		}
		answers.send(protocol.Command{})
	}
	if r := silent.receive(); !r.IsPing() {
		t.Fatalf("received %s", text(r))
	}
	for {
		r := silent.receive()
		if r.IsPing() {
			continue
		}
		if r.Push.Disconnect != push.DisconnectNoPong {
			t.Errorf("received %s", text(r))
		}
		break
	}
	if n := p.stats().Disconnected[uint32(push.DisconnectNoPong.Code)]; n != 1 {
		t.Errorf("%d clients were disconnected for no pong", n)
	}
}

// A client that makes a mistake is told so: by the last message, a push of a disconnect. Then the connection ends.
func TestMistakes(t *testing.T) {
	const most = 1000
	tooLong := badRequest("a message has more than %d bytes, or no valid length", 2*most)
	frame := func(body []byte) []byte { return append(binary.AppendUvarint(nil, uint64(len(body))), body...) }
	connect := protobuf.AppendCommand(nil, &protocol.Command{ID: 1, Kind: protocol.KindConnect})
	for name, tt := range map[string]struct {
		sent      []byte
		connected bool // before that
		want      push.Disconnect
	}{
		"first command":       {sent: protobuf.AppendCommand(nil, &protocol.Command{ID: 1, Kind: protocol.KindPing}), want: badRequest("the first command must be connect")},
		"connected already":   {sent: connect, connected: true, want: badRequest("already connected")},
		"no id":               {sent: protobuf.AppendCommand(nil, &protocol.Command{Kind: protocol.KindPing}), connected: true, want: badRequest("a command needs an id")},
		"message to the node": {sent: protobuf.AppendCommand(nil, &protocol.Command{Kind: protocol.KindSend}), connected: true, want: push.DisconnectNotAvailable},
		"long varint":         {sent: bytes.Repeat([]byte{0x80}, 11), want: tooLong},
		"varint of 65 bits":   {sent: append(bytes.Repeat([]byte{0xff}, 9), 2), want: tooLong},
		"too large":           {sent: binary.AppendUvarint(nil, 2*most+1), connected: true, want: tooLong},
		"far too large":       {sent: binary.AppendUvarint(nil, 1<<62), want: tooLong},
		"larger than int":     {sent: binary.AppendUvarint(nil, 1<<63), want: tooLong},
	} {
		t.Run(name, func(t *testing.T) {
			eachEngine(t, func(t *testing.T, o *tcp.Options) {
				p := newPlace(t, &gateway.Options{MessageBytes: most, FrameBytes: 2 * most}, o)
				c := p.dial()
				if tt.connected {
					c.write(connect)
					c.receive()
				}
				c.write(append(tt.sent, frame([]byte("more"))...))
				c.wantEnd(tt.want)
				testwait.True(t, "the end is counted", func() bool {
					s := p.stats()
					return s.Clients == 0 && s.Disconnected[uint32(tt.want.Code)] == 1 && s.Left == 0
				})
			})
		})
	}
}

// Bytes that are no message in a frame of the right length end the connection; a command that is too large does not.
func TestGarbage(t *testing.T) {
	p := newPlace(t, &gateway.Options{MessageBytes: 1000, FrameBytes: 2000}, nil)
	c := p.connect()
	c.send(protocol.Command{ID: 5, Kind: protocol.KindPublish, Publish: protocol.PublishRequest{Channel: "a", Data: []byte(`"` + strings.Repeat("x", 1500) + `"`)}})
	if r := c.receive(); r.ID != 5 || !errors.Is(r.Error, push.ErrLimitExceeded) {
		t.Fatalf("received %s", text(r))
	}
	c.ask(protocol.Command{Kind: protocol.KindPing})
	for _, garbage := range []string{"GET / HTTP/1.1\r\nHost: x\r\n\r\n" + strings.Repeat("x", 100), "\x02\xff\xff", "\x01\x07"} {
		c := p.dial()
		c.write([]byte(garbage))
		r := c.receive()
		if r.Push.Disconnect.Code != push.DisconnectBadRequest.Code {
			t.Errorf("%q: received %s", garbage, text(r))
		}
		if _, err := c.read(); !errors.Is(err, io.EOF) {
			t.Errorf("%q: %v", garbage, err)
		}
	}
}

// A token that is refused is a disconnect; the hook sees the client's address.
func TestAuthenticate(t *testing.T) {
	seen := make(chan *http.Request, 1)
	p := newPlace(t, &gateway.Options{Authenticate: func(ctx context.Context, token string, r *http.Request) (gateway.Identity, error) {
		seen <- r
		if token != "ann" {
			return refuseAll(ctx, token, r)
		}
		return gateway.Identity{Info: push.ClientInfo{User: token}}, nil
	}}, nil)
	c := p.dial()
	c.send(protocol.Command{ID: 1, Kind: protocol.KindConnect, Connect: protocol.ConnectRequest{Token: "bob"}})
	if r := testwait.Receive(t, seen); r.RemoteAddr != c.conn.LocalAddr().String() || r.TLS != nil || r.Header.Get("Cookie") != "" || r.URL.Query().Has("x") {
		t.Errorf("%+v", r)
	}
	c.wantEnd(push.DisconnectInvalidToken)
	p.dial().ask(protocol.Command{Kind: protocol.KindConnect, Connect: protocol.ConnectRequest{Token: "ann"}})
}

// A client that is not admitted is told why, although it has sent a command already, and is counted.
func TestAdmission(t *testing.T) {
	eachEngine(t, func(t *testing.T, o *tcp.Options) {
		for name, tt := range map[string]struct {
			options gateway.Options
			count   func(gateway.Refused) uint64
			want    string
		}{
			"all":     {gateway.Options{Sessions: 1}, func(r gateway.Refused) uint64 { return r.Full }, "the node has reached its limit of clients"},
			"address": {gateway.Options{SessionsPerAddress: 1}, func(r gateway.Refused) uint64 { return r.Address }, "address 127.0.0.1 has reached its limit of connections"},
		} {
			t.Run(name, func(t *testing.T) {
				p := newPlace(t, &tt.options, o)
				first := p.connect()
				want := push.DisconnectTooManyRequests
				want.Reason += ": " + tt.want
				for i := range uint64(3) {
					c := p.dial()
					c.send(protocol.Command{ID: 1, Kind: protocol.KindConnect})
					c.wantEnd(want)
					if n := tt.count(p.gateway.Stats().Refused); n != i+1 {
						t.Errorf("%d refusals are counted, want %d", n, i+1)
					}
				}
				if s := p.stats(); p.gateway.Len() != 1 || s.Clients != 1 || s.Opened != 1 || !want.Reconnect() {
					t.Errorf("%+v", s)
				}
				must(t, first.conn.Close())
				testwait.True(t, "there is room again", func() bool { return p.gateway.Len() == 0 })
				p.connect()
			})
		}
	})
}

// A client that comes too often, or while the node drains, is told to connect again.
func TestRefusedForNow(t *testing.T) {
	for name, o := range map[string]gateway.Options{"node": {Connects: 1}, "address": {ConnectsPerAddress: 1}} {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t, &o, nil)
			var told push.Disconnect
			for told.Code == 0 { // until two come within a second
				c := p.dial()
				c.send(protocol.Command{ID: 7, Kind: protocol.KindConnect})
				told = c.receive().Push.Disconnect
			}
			if told.Code != push.DisconnectTooManyRequests.Code || !told.Reconnect() {
				t.Errorf("told %+v", told)
			}
			must(t, p.gateway.Drain(t.Context(), 0))
			p.dial().wantEnd(push.DisconnectShutdown)
		})
	}
}

// Connections that are refused are bounded: when too many linger, further ones are closed at once. All are counted as refused.
func TestManyRefused(t *testing.T) {
	p := newPlace(t, &gateway.Options{Sessions: 1, SendBuffer: -1}, nil)
	p.connect()
	const all = tcp.RefusedMost + 20
	conns := make([]*client, all)
	for i := range conns {
		conns[i] = p.dial()
	}
	testwait.True(t, "all are refused", func() bool { return p.gateway.Stats().Refused.Full == all })
	for _, c := range conns {
		if r := c.receive(); r.Push.Disconnect.Code != push.DisconnectTooManyRequests.Code {
			t.Fatalf("received %s", text(r))
		}
	}
	if r := p.gateway.Stats().Refused; r.Request != 0 || r.Full != all {
		t.Errorf("%+v", r)
	}
}

// Shutdown sends all clients elsewhere, also a silent one, and waits until they are gone.
func TestShutdown(t *testing.T) {
	eachEngine(t, func(t *testing.T, o *tcp.Options) {
		p := newPlace(t, nil, o)
		c, _ := p.subscribe("a")
		silent := p.dial()
		testwait.True(t, "both are here", func() bool { return p.gateway.Len() == 2 })
		p.publish("a", "1")
		done := make(chan error, 1)
		c.want("a", "1")
		go func() { done <- p.gateway.Shutdown(testwait.Context(t)) }()
		c.wantEnd(push.DisconnectShutdown)
		select {
		case err := <-done:
			t.Fatalf("Shutdown has not waited: %v", err)
		default:
		}
		silent.wantEnd(push.DisconnectShutdown)
		must(t, testwait.Receive(t, done))
		if s := p.stats(); s.Clients != 0 || s.Disconnected[uint32(push.DisconnectShutdown.Code)] != 2 {
			t.Errorf("%+v", s)
		}
	})
}

// A client that arrives while the gateway shuts down is sent elsewhere.
func TestArrivalDuringShutdown(t *testing.T) {
	p := newPlace(t, nil, nil)
	var arriving gateway.Client // holds Shutdown up
	kind := gateway.NewKind(gateway.Encoder{Form: gateway.Protobuf{}, Framing: gateway.Bare{}}, gateway.TwoWay)
	must(t, arriving.Arrive(p.gateway, kind, nil, new(http.Request)))
	done := make(chan error, 1)
	go func() { done <- p.gateway.Shutdown(testwait.Context(t)) }()
	testwait.True(t, "Shutdown has begun", func() bool { return p.gateway.Admits() != nil })
	p.dial().wantEnd(push.DisconnectShutdown)
	if n := p.gateway.Stats().Refused.Closing; n != 1 {
		t.Errorf("%d clients are counted as refused", n)
	}
	arriving.Refused()
	arriving.Arrived()
	must(t, testwait.Receive(t, done))
}

// Clients of one channel all get the same, in order, however many they are.
func TestManyClients(t *testing.T) {
	eachEngine(t, func(t *testing.T, o *tcp.Options) {
		p := newPlace(t, nil, o)
		const clients, publications = 150, 50
		all := make([]*client, clients)
		for i := range all {
			all[i], _ = p.subscribe("a")
		}
		var want []string
		for i := range publications {
			want = append(want, fmt.Sprint(i))
			p.publish("a", want[i])
		}
		for _, c := range all {
			c.want("a", want...)
		}
	})
}
