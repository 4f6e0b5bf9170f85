package gateway_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/gateway"
	sseclients "github.com/sluice-push/sluice/push/gateway/sse"
	"github.com/sluice-push/sluice/push/hub"
)

// TestShutdown: all clients are asked to connect again, no new client is admitted, and Shutdown returns when the last one is gone.
func TestShutdown(t *testing.T) {
	p := newPlace(t, nil)
	c, silent, s := p.subscriber("a"), p.connectWS(nil), p.stream(`{"subs":{"a":{}}}`, "")
	s.next()
	must(t, p.gateway.Admits())
	done := make(chan error, 2)
	go func() { done <- p.shutdownWithin(patience) }()
	go func() { done <- p.shutdownWithin(patience) }()
	s.want(`{"disconnect":{"code":3001,"reason":"shutdown","reconnect":true}}`)
	s.wantEnd()
	if err := p.gateway.Admits(); err == nil {
		t.Error("it still admits clients")
	}
	if _, res, err := p.dialWS(nil); err == nil || res == nil || res.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("a new WebSocket: %v, %v", res, err)
	}
	if res, _ := p.get(http.MethodGet, sseclients.OneWayPath, nil); res.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("a new stream: %d", res.StatusCode)
	}
	select {
	case err := <-done:
		t.Fatalf("it has not waited: %v", err)
	default:
	}
	c.wantClose(3001, "shutdown")
	silent.wantClose(3001, "shutdown")
	for range 2 {
		must(t, testwait.Receive(t, done))
	}
	if n := p.gateway.Len(); n != 0 {
		t.Errorf("%d clients are left", n)
	}
	must(t, p.shutdownWithin(patience))
}

// TestShutdownCuts: when there is no more time, the rest is cut: clients that do not read, commands and requests that wait.
func TestShutdownCuts(t *testing.T) {
	waits := make(chan struct{}, 10)
	o := &gateway.Options{CommandTimeout: time.Hour, Authenticate: func(ctx context.Context, token string, _ *http.Request) (gateway.Identity, error) {
		if token == "wait" {
			waits <- struct{}{}
			<-ctx.Done()
			return gateway.Identity{}, ctx.Err()
		}
		return gateway.Identity{}, nil
	}}
	inFakeTime(t, o, func(t *testing.T, p *place) {
		p.subscriber("a").forever()
		p.stream(`{"subs":{"a":{}}}`, "").next()
		for i := range 100 {
			p.publish("a", filler(i))
		}
		waiting := p.connectWS(nil).forever()
		waiting.send(`{"id":1,"connect":{"token":"wait"}}`)
		testwait.Receive(t, waits)
		var requests sync.WaitGroup
		requests.Go(func() {
			conn, err := p.dial(testwait.Context(t))
			if err != nil {
				t.Error(err)
				return
			}
			defer func() { _ = conn.Close() }()
			_, _ = fmt.Fprintf(conn, "GET %s?cf_connect={\"token\":\"wait\"} HTTP/1.1\r\nHost: x\r\n\r\n", sseclients.OneWayPath)
			_, _ = io.ReadAll(conn)
		})
		testwait.Receive(t, waits)
		passed := stopwatch()
		if err := p.shutdownWithin(3 * time.Second); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("it returned %v", err)
		}
		within(t, "it returned", passed(), 3, 4)
		testwait.Return(t, requests.Wait)
		synctest.Wait()
		if n := p.gateway.Len(); n != 0 {
			t.Errorf("%d clients are left", n)
		}
	})
}

// TestShutdownWhileConnecting: a client that is just arriving is told as well, or refused; none is forgotten and holds it up.
func TestShutdownWhileConnecting(t *testing.T) {
	for range 20 {
		p := newPlace(t, nil)
		var wg sync.WaitGroup
		start := make(chan struct{})
		var inside atomic.Int64
		for i := range 16 {
			wg.Go(func() {
				testwait.Hold(t, start)
				if i%4 == 0 {
					if s, _ := p.tryStream(`{"subs":{"chat:1":{}}}`, ""); s != nil {
						inside.Add(1)
						for _, ok := s.read(); ok; {
							_, ok = s.read()
						}
					}
					return
				}
				c, _, err := p.dialWS(nil)
				if err != nil {
					return
				}
				inside.Add(1)
				_ = c.conn.WriteMessage(1, []byte("{\"id\":1,\"connect\":{}}\n{\"id\":2,\"subscribe\":{\"channel\":\"chat:1\"}}"))
				for err == nil {
					_, _, err = c.conn.ReadMessage()
				}
				_ = c.conn.Close()
			})
		}
		close(start)
		testwait.True(t, "some are inside", func() bool { return inside.Load() > 3 })
		must(t, p.shutdownWithin(patience))
		testwait.Return(t, wg.Wait)
		testwait.True(t, "all have left", func() bool { return p.gateway.Len() == 0 && p.hub.Stats().Sessions == 0 })
	}
}

// greeting is a connection that makes a session wait before it is opened, as TLS does.
type greeting struct {
	net.Conn
	begins chan struct{}
	ends   chan struct{}
}

func (c greeting) HandshakeContext(context.Context) error {
	c.begins <- struct{}{}
	<-c.ends
	return nil
}

// TestShutdownBeforeOpen: also a client of which nothing is known yet but its connection is told.
func TestShutdownBeforeOpen(t *testing.T) {
	inFakeTime(t, nil, func(t *testing.T, p *place) {
		begins, ends := make(chan struct{}), make(chan struct{})
		p.wrap = func(c net.Conn) net.Conn { return greeting{c, begins, ends} }
		go func() { testwait.Hold(t, begins) }()
		c := p.connectWS(nil).forever()
		synctest.Wait()
		done := make(chan error, 1)
		go func() { done <- p.shutdownWithin(time.Minute) }()
		synctest.Wait()
		close(ends)
		c.wantClose(3001, "shutdown")
		must(t, testwait.Receive(t, done))
	})
}

// TestDisconnectedAtOnce: of several goodbyes the first one counts, and it is sent.
func TestDisconnectedAtOnce(t *testing.T) {
	p := newPlace(t, &gateway.Options{Authenticate: func(context.Context, string, *http.Request) (gateway.Identity, error) {
		return gateway.Identity{Info: push.ClientInfo{User: "ann"}}, nil
	}})
	for range 20 {
		c := p.client()
		var wg sync.WaitGroup
		for i := range 4 {
			wg.Go(func() {
				d := push.Disconnect{Code: 4000 + uint16(i), Reason: "go"}
				if err := p.hub.Disconnect(testwait.Context(t), hub.Target{User: "ann"}, d, nil); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Go(func() { _ = c.conn.WriteMessage(1, []byte("{")) })
		_, _, err := c.conn.ReadMessage()
		if err == nil || !isGoodbye(err) {
			t.Fatalf("ended with %v", err)
		}
		_ = c.conn.Close()
		testwait.Return(t, wg.Wait)
		testwait.True(t, "it has left", func() bool { return p.gateway.Len() == 0 })
	}
}

// TestLeaveWhileSubscribing: a client that goes while its subscriptions begin leaves nothing behind.
func TestLeaveWhileSubscribing(t *testing.T) {
	p := newPlace(t, nil)
	var wg sync.WaitGroup
	for range 40 {
		wg.Go(func() {
			c, _, err := p.dialWS(nil)
			if err != nil {
				t.Error(err)
				return
			}
			commands := "{\"id\":1,\"connect\":{}}\n{\"id\":2,\"subscribe\":{\"channel\":\"chat:1\"}}\n" +
				"{\"id\":3,\"subscribe\":{\"channel\":\"chat:2\"}}\n{\"id\":4,\"publish\":{\"channel\":\"chat:1\",\"data\":1}}"
			_ = c.conn.WriteMessage(1, []byte(commands))
			_ = c.conn.NetConn().Close()
		})
	}
	testwait.Return(t, wg.Wait)
	testwait.True(t, "all have left", func() bool {
		s := p.hub.Stats()
		return p.gateway.Len() == 0 && s.Sessions == 0 && s.Subscriptions == 0
	})
	clients, _, err := p.hub.PresenceStats(testwait.Context(t), "chat:1")
	if err != nil || clients != 0 {
		t.Errorf("%d clients are present, %v", clients, err)
	}
}

// TestHubClosed: without a hub no client connects; it is asked to try elsewhere.
func TestHubClosed(t *testing.T) {
	p := newPlace(t, nil)
	c, s := p.client(), p.stream(`{}`, "")
	s.next()
	must(t, p.hub.Close())
	c.wantClose(3001, "shutdown")
	s.want(`{"disconnect":{"code":3001,"reason":"shutdown","reconnect":true}}`)
	late := p.connectWS(nil)
	late.send(`{"id":1,"connect":{}}`)
	late.wantClose(3001, "shutdown")
	if res, _ := p.get(http.MethodGet, sseclients.OneWayPath, nil); res.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("a stream: %d", res.StatusCode)
	}
}
