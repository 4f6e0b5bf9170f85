package tcp_test

import (
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/gateway"
	"github.com/sluice-push/sluice/push/gateway/tcp"
	"github.com/sluice-push/sluice/push/protocol"
	"github.com/sluice-push/sluice/push/protocol/protobuf"
)

// A client that sends nothing, or half a command, is disconnected after ConnectTimeout. Bytes alone do not keep it.
func TestConnectTimeout(t *testing.T) {
	eachEngine(t, func(t *testing.T, o *tcp.Options) {
		p := newPlace(t, &gateway.Options{ConnectTimeout: 50 * time.Millisecond, Linger: 50 * time.Millisecond}, o)
		silent, half := p.dial(), p.dial()
		whole := protobuf.AppendCommand(nil, &protocol.Command{ID: 1, Kind: protocol.KindConnect, Connect: protocol.ConnectRequest{Token: "token"}})
		half.write(whole[:len(whole)/2])
		for _, c := range []*client{silent, half} {
			if r := c.receive(); r.Push.Disconnect != push.DisconnectStale {
				t.Errorf("received %s", text(r))
			}
			if _, err := c.read(); !errors.Is(err, io.EOF) {
				t.Errorf("after the disconnect: %v", err)
			}
		}
		// They do not end their side: after Linger that is cut.
		testwait.True(t, "both are gone", func() bool { return p.gateway.Len() == 0 })
		if n := p.stats().Disconnected[uint32(push.DisconnectStale.Code)]; n != 2 {
			t.Errorf("%d clients were disconnected as stale", n)
		}
	})
}

// A client that stops reading is cut after WriteTimeout. Until then the node holds little for it, and other clients get everything.
func TestStalledReader(t *testing.T) {
	eachEngine(t, func(t *testing.T, o *tcp.Options) {
		p := newPlace(t, &gateway.Options{WriteTimeout: 300 * time.Millisecond, PingInterval: -1}, o)
		stalled, _ := p.subscribe("a")
		must(t, stalled.conn.(*net.TCPConn).SetReadBuffer(4<<10))
		other, _ := p.subscribe("a")
		data := `"` + strings.Repeat("x", 10_000) + `"`
		deadline := time.Now().Add(testwait.Bound)
		var most int64
		for p.stats().TimedOut == 0 && time.Now().Before(deadline) {
			p.publish("a", data)
			other.want("a", data)
			for c := range p.clients.Carriers() {
				most = max(most, int64(c.Queued()))
			}
		}
		testwait.True(t, "the client is gone", func() bool { return p.stats().Clients == 1 }) // it is counted before
		if s := p.stats(); s.TimedOut != 1 || s.Left != 0 {
			t.Errorf("%+v", s)
		}
		if most > 128<<10 {
			t.Errorf("%d bytes waited for the stalled client", most)
		}
		t.Logf("at most %d bytes waited", most)
	})
}

// A client that sends commands and reads no answers is not read any more, and is cut after WriteTimeout.
func TestUnreadReplies(t *testing.T) {
	eachEngine(t, func(t *testing.T, o *tcp.Options) {
		p := newPlace(t, &gateway.Options{WriteTimeout: 300 * time.Millisecond, CommandsPerSession: -1, PingInterval: -1}, o)
		c := p.connect()
		must(t, c.conn.(*net.TCPConn).SetReadBuffer(4<<10))
		var sending sync.WaitGroup
		sending.Go(func() {
			ping := protobuf.AppendCommand(nil, &protocol.Command{ID: 1, Kind: protocol.KindPing})
			many := []byte(strings.Repeat(string(ping), 1000))
			for {
				if _, err := c.conn.Write(many); err != nil {
					return
				}
			}
		})
		testwait.True(t, "the client is cut", func() bool { return p.stats().TimedOut == 1 })
		testwait.Return(t, sending.Wait)
	})
}

// When Shutdown is out of time, it cuts clients that do not read.
func TestShutdownCuts(t *testing.T) {
	eachEngine(t, func(t *testing.T, o *tcp.Options) {
		p := newPlace(t, &gateway.Options{WriteTimeout: time.Hour, Linger: time.Hour, PingInterval: -1}, o)
		c, _ := p.subscribe("a")
		must(t, c.conn.(*net.TCPConn).SetReadBuffer(4<<10))
		data := `"` + strings.Repeat("x", 60_000) + `"`
		for range 200 {
			p.publish("a", data)
		}
		if err := p.shutdownWithin(100 * time.Millisecond); err == nil {
			t.Error("Shutdown has not reported that it cut a client")
		}
		if n := p.gateway.Len(); n != 0 {
			t.Errorf("%d clients are left", n)
		}
	})
}
