package gateway_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/push/gateway"
	sseclients "github.com/sluice-push/sluice/push/gateway/sse"
	wsclients "github.com/sluice-push/sluice/push/gateway/websocket"
	"github.com/sluice-push/sluice/push/internal/codecount"
	"github.com/sluice-push/sluice/push/protocol"
)

// What clients of either transport do is counted, and how they left.
func TestStats(t *testing.T) {
	p := newPlace(t, nil)
	ws, left, bad, sse := p.subscriber("a"), p.client(), p.client(), p.stream(`{"subs":{"a":{}}}`, "")
	sse.next()
	s := p.gateway.Stats()
	if a, b := s.Transports[wsclients.Name], s.Transports[sseclients.OneWayName]; a.Clients != 3 || a.Opened != 3 || b.Clients != 1 || b.Opened != 1 {
		t.Errorf("%+v", s.Transports)
	}
	ws.send(`{"id":3,"subscribe":{"channel":"nowhere:a"}}`)
	_ = ws.receive()
	_ = left.conn.Close()
	bad.send(`nonsense`)
	bad.wantClose(3501, "")
	sse.close()
	testwait.True(t, "two have left", func() bool {
		s = p.gateway.Stats()
		return s.Transports[wsclients.Name].Left == 1 && s.Transports[sseclients.OneWayName].Left == 1
	})
	if s.Transports[wsclients.Name].Disconnected[3501] != 1 || s.Errors[102] != 1 || s.Errors[codecount.Other] != 0 {
		t.Errorf("%+v", s)
	}
	if s.Commands[protocol.KindConnect] != 3 || s.Commands[protocol.KindSubscribe] != 2 || s.Commands[protocol.KindPublish] != 0 {
		t.Errorf("commands %v", s.Commands)
	}
	if a, b := s.Transports[wsclients.Name], s.Transports[sseclients.OneWayName]; a.BytesIn == 0 || a.BytesOut == 0 || b.BytesOut == 0 {
		t.Errorf("%+v", s.Transports)
	}
	p.shutdown()
	testwait.True(t, "the last one was sent away", func() bool {
		return p.gateway.Stats().Transports[wsclients.Name].Disconnected[3001] == 1
	})
}

// Connections that become no clients are counted by why.
func TestStatsRefused(t *testing.T) {
	p := newPlace(t, &gateway.Options{Sessions: 2, SessionsPerAddress: 1})
	p.log.expect(`msg="limit exceeded"`)
	p.log.expect("origin not allowed")
	evil := http.Header{"Origin": {"https://evil.example"}}
	if _, _, err := p.dialWS(evil); err == nil {
		t.Error("a page of another origin was let in")
	}
	_, _ = p.get(http.MethodGet, sseclients.OneWayPath, evil)
	_, _ = p.get(http.MethodGet, sseclients.OneWayPath+"?cf_connect={", nil)
	_, _ = p.get(http.MethodGet, wsclients.Path, nil)
	_, _ = p.get(http.MethodGet, sseclients.OneWayPath+`?cf_connect={"subs":{"nowhere:a":{}}}`, nil)
	p.client()
	_, _ = p.get(http.MethodGet, sseclients.OneWayPath, nil)
	want := gateway.Refused{Origin: 2, Request: 2, Client: 1, Address: 1}
	if got := p.gateway.Stats().Refused; got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	p.shutdown()
	_, _ = p.get(http.MethodGet, sseclients.OneWayPath, nil)
	want.Closing++
	if got := p.gateway.Stats().Refused; got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// What waits for clients that do not read is noted, as long as it does; who reads nothing for too long is counted as such.
func TestStatsQueued(t *testing.T) {
	p := newPlace(t, &gateway.Options{SendBuffer: 4 << 10, WriteTimeout: 3 * time.Second})
	p.subscriber("a")
	sse := p.stream(`{"subs":{"a":{}}}`, "")
	sse.next()
	data := `"` + strings.Repeat("x", 60_000) + `"`
	for range 200 {
		p.publish("a", data)
	}
	testwait.True(t, "something waits", func() bool { return p.gateway.Stats().QueueBytes > 0 })
	testwait.True(t, "both are given up", func() bool {
		s := p.gateway.Stats()
		return s.Transports[wsclients.Name].TimedOut == 1 && s.Transports[sseclients.OneWayName].TimedOut == 1
	})
	testwait.True(t, "nothing waits", func() bool { return p.gateway.Stats().QueueBytes == 0 })
}
