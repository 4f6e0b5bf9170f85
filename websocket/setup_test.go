package websocket_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/session"
	"github.com/sluice-push/sluice/websocket"
)

// patience bounds every wait of a test that should not wait at all.
const patience = 30 * time.Second

// ways are the ways in which a server gets its connections and runs them.
var ways = []struct {
	name   string
	engine session.Engine
	http   bool
}{
	{"loop", session.EngineLoop, false},
	{"goroutine", session.EngineGoroutine, false},
	{"loop under net-http", session.EngineLoop, true},
	{"goroutine under net-http", session.EngineGoroutine, true},
}

// eachWay runs a test for each way. The function start runs a server and returns its URL.
func eachWay(t *testing.T, test func(t *testing.T, start func(h *websocket.Handler, o *websocket.Options) (*websocket.Server, string))) {
	for _, way := range ways {
		t.Run(strings.ReplaceAll(way.name, " ", "-"), func(t *testing.T) {
			t.Parallel()
			test(t, func(h *websocket.Handler, o *websocket.Options) (*websocket.Server, string) {
				t.Helper()
				var own websocket.Options
				if o != nil {
					own = *o
				}
				own.Session.Engine = way.engine
				if way.http {
					return serveHTTP(t, h, &own)
				}
				return serve(t, h, &own)
			})
		})
	}
}

// serve runs a server that reads requests itself.
func serve(t *testing.T, h *websocket.Handler, o *websocket.Options) (*websocket.Server, string) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv := websocket.NewServer(h, o)
	served := make(chan error, 1)
	go func() { served <- srv.Serve(ln) }()
	t.Cleanup(func() {
		_ = srv.Close()
		if err := testwait.Receive(t, served); !errors.Is(err, session.ErrServerClosed) {
			t.Error(err)
		}
	})
	return srv, "ws://" + ln.Addr().String() + "/some/path?q=1"
}

// serveHTTP runs a server under net/http.
func serveHTTP(t *testing.T, h *websocket.Handler, o *websocket.Options) (*websocket.Server, string) {
	t.Helper()
	srv := websocket.NewServer(h, o)
	front := httptest.NewServer(http.Handler(srv))
	t.Cleanup(func() {
		front.Close()
		_ = srv.Close()
	})
	return srv, "ws" + strings.TrimPrefix(front.URL, "http") + "/some/path?q=1"
}

// within returns a context for operations that should not take long.
func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

// dial makes a connection whose messages the caller fetches.
func dial(t *testing.T, url string, o *websocket.Options) *websocket.Conn {
	t.Helper()
	c, err := websocket.Dial(within(t), url, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.CloseNow)
	return c
}

// receive fetches a message.
func receive(t *testing.T, c *websocket.Conn) websocket.Message {
	t.Helper()
	m, err := c.Receive(within(t))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// get waits for a value from a handler.
func get[T any](t *testing.T, from <-chan T) T {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-time.After(patience):
		t.Fatal("nothing came")
		panic("unreachable")
	}
}

// echo is a handler that sends everything back.
var echo = &websocket.Handler{Message: func(c *websocket.Conn, m websocket.Message) { _ = c.Send(m.Op, m.Data) }}
