package gateway_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/admission"
	"github.com/sluice-push/sluice/push/gateway"
	sseclients "github.com/sluice-push/sluice/push/gateway/sse"
	wsclients "github.com/sluice-push/sluice/push/gateway/websocket"
)

// When very many clients do not read, those with the largest queues are cut, and clients that read notice nothing.
func TestBacklog(t *testing.T) {
	const deaf, bound = 16, 128 << 10
	p := newPlace(t, &gateway.Options{Backlog: bound, SendBuffer: 4 << 10, WriteTimeout: -1})
	p.log.expect(`msg="limit exceeded"`)
	p.log.expect("slow clients disconnected, total backlog over limits.backlog")
	witness := p.client()
	pings := strings.Repeat(frame(0x89, 125, strings.Repeat("x", 125)), 100)
	for range deaf {
		c := p.client()
		go func() {
			for err := error(nil); err == nil; { // until it is cut
				_, err = c.conn.NetConn().Write([]byte(pings))
			}
		}()
	}
	testwait.True(t, "clients that do not read are cut", func() bool {
		return p.gateway.Stats().Transports[wsclients.Name].Disconnected[uint32(push.DisconnectSlow.Code)] > 0
	})
	testwait.True(t, "as much waits as may", func() bool { return p.gateway.Stats().QueueBytes <= bound })
	if n := p.gateway.Len(); n < 2 {
		t.Errorf("%d clients are left: all were cut", n)
	}
	witness.ask(`{"id":2,"ping":{}}`, `{"id":2,"ping":{}}`)
}

// Where the limit runs dry, no stream is cut, and each look at the backlog counts.
func TestBacklogDry(t *testing.T) {
	const streams, bound = 8, 128 << 10
	o := gateway.Options{Backlog: bound, WriteTimeout: -1, Limits: admission.NewLimits(nil, admission.Backlog)}
	inFakeTime(t, &o, func(t *testing.T, p *place) {
		t.Helper()
		for range streams {
			p.stream(`{"subs":{"a":{}}}`, "").next()
		}
		for range 100 {
			p.publish("a", `"`+strings.Repeat("x", 1<<10)+`"`)
		}
		pass(3 * time.Second)
		if n := p.exceeded(admission.Backlog); n < 2 || n > 4 || p.gateway.Len() != streams {
			t.Errorf("the limit was exceeded %d times, and %d of %d streams are left", n, p.gateway.Len(), streams)
		}
	})
}

// Streams take part: the streams with most unread bytes are cut, without a goodbye that they would not read.
func TestBacklogOfStreams(t *testing.T) {
	const streams, bound = 8, 128 << 10
	inFakeTime(t, &gateway.Options{Backlog: bound, WriteTimeout: -1}, func(t *testing.T, p *place) {
		t.Helper()
		p.log.expect(`msg="limit exceeded"`)
		p.log.expect("slow clients disconnected, total backlog over limits.backlog")
		for range streams {
			p.stream(`{"subs":{"a":{}}}`, "").next()
		}
		for range 100 {
			p.publish("a", `"`+strings.Repeat("x", 1<<10)+`"`)
		}
		synctest.Wait()
		if waiting := p.gateway.Held(); waiting <= bound {
			t.Fatalf("only %d bytes wait", waiting)
		}
		<-time.After(3 * time.Second)
		stats := p.gateway.Stats()
		if cut := stats.Transports[sseclients.OneWayName].Disconnected[uint32(push.DisconnectSlow.Code)]; cut == 0 || cut >= streams {
			t.Errorf("%d of %d streams were cut", cut, streams)
		}
		if stats.QueueBytes > bound || p.gateway.Len() == 0 {
			t.Errorf("%d bytes wait for %d streams", stats.QueueBytes, p.gateway.Len())
		}
	})
}
