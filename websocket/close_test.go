package websocket_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/session"
	"github.com/sluice-push/sluice/websocket"
	"github.com/sluice-push/sluice/websocket/wire"
)

// ended holds the arguments of the handler's Close.
type ended struct {
	code uint16
	by   session.By
	err  error
}

// ends returns a handler that reports the ends of connections.
func ends(message func(*websocket.Conn, websocket.Message)) (*websocket.Handler, <-chan ended) {
	told := make(chan ended, 100)
	return &websocket.Handler{Message: message, Close: func(_ *websocket.Conn, info *session.CloseInfo) {
		told <- ended{websocket.CodeOf(info.Err), info.By, info.Err}
	}}, told
}

// The side that did not close gets the code and the reason, and both sides end once.
func TestClose(t *testing.T) {
	eachWay(t, func(t *testing.T, start starter) {
		h, told := ends(func(c *websocket.Conn, m websocket.Message) {
			_ = c.Send(m.Op, m.Data)
			if err := c.Close(4321, "enough"); err != nil {
				t.Error(err)
			}
			if err := c.Close(4321, "enough"); !errors.Is(err, websocket.ErrClosed) {
				t.Errorf("closing again: %v", err)
			}
			if err := c.SendText("too late"); !errors.Is(err, websocket.ErrClosed) {
				t.Errorf("sending after Close: %v", err)
			}
		})
		_, url := start(h, nil)

		c := dial(t, url, nil)
		if err := errors.Join(c.SendText("1"), c.SendText("2")); err != nil {
			t.Fatal(err)
		}
		if m := receive(t, c); string(m.Data) != "1" {
			t.Errorf("got %q", m.Data)
		}
		_, err := c.Receive(within(t))
		end, ok := errors.AsType[*websocket.CloseError](err)
		if !ok || end.Code != 4321 || end.Reason != "enough" || !end.Remote || !errors.Is(err, io.EOF) {
			t.Errorf("the client is told %v", err)
		}
		if got := get(t, told); got.by != session.ByLocal || got.code != 4321 {
			t.Errorf("the server is told %+v", got)
		}

		c = dial(t, url, nil)
		if err := c.Close(4000, "bye"); err != nil {
			t.Fatal(err)
		}
		if got := get(t, told); got.by != session.ByPeer || got.code != 4000 || !strings.Contains(got.err.Error(), "bye") {
			t.Errorf("the server is told %+v", got)
		}
		if _, err := c.Receive(within(t)); !errors.Is(err, websocket.ErrClosed) {
			t.Errorf("after Close: %v", err)
		}
		select {
		case again := <-told:
			t.Errorf("told again: %+v", again)
		default:
		}
	})
}

// If the peer vanishes, the code is CloseAbnormal.
func TestAbnormal(t *testing.T) {
	eachWay(t, func(t *testing.T, start starter) {
		h, told := ends(nil)
		_, url := start(h, nil)
		dial(t, url, nil).CloseNow()
		if got := get(t, told); got.code != websocket.CloseAbnormal || got.by == session.ByLocal {
			t.Errorf("the server is told %+v", got)
		}
	})
}

// Messages that break a limit or a rule end their connection with the code for it.
func TestVerdicts(t *testing.T) {
	compression := &websocket.Compression{Threshold: -1}
	eachWay(t, func(t *testing.T, start starter) {
		h, told := ends(nil)
		_, url := start(h, &websocket.Options{MaxMessage: 1000, MaxFragments: 3, Compression: compression})
		for name, test := range map[string]struct {
			code uint16
			send func(c *websocket.Conn) error
		}{
			"too big":           {1009, func(c *websocket.Conn) error { return c.Send(websocket.OpBinary, noise(1001)) }},
			"too big, inflated": {1009, func(c *websocket.Conn) error { return c.Send(websocket.OpText, text(100_000)) }},
			"not UTF-8":         {1007, func(c *websocket.Conn) error { return c.Send(websocket.OpText, []byte("\xff")) }},
			"a rule":            {1002, func(c *websocket.Conn) error { return c.Session().Write([]byte{0x83, 0x80, 0, 0, 0, 0}) }},
			"unmasked":          {1002, func(c *websocket.Conn) error { return c.Session().Write(wire.AppendFrame(nil, websocket.OpText, nil)) }},
			"corrupt":           {1007, func(c *websocket.Conn) error { return c.Session().Write([]byte{0xc2, 0x81, 0, 0, 0, 0, 0xff}) }},
		} {
			c := dial(t, url, &websocket.Options{Compression: compression})
			if err := test.send(c); err != nil {
				t.Fatal(name, err)
			}
			_, err := c.Receive(within(t))
			if end, ok := errors.AsType[*websocket.CloseError](err); !ok || end.Code != test.code || !end.Remote {
				t.Errorf("%s: the peer is told %v, want %d", name, err, test.code)
			}
			if got := get(t, told); got.code != test.code || got.by != session.ByError {
				t.Errorf("%s: the server is told %+v, want %d", name, got, test.code)
			}
		}
	})
}

// An error of Open closes the connection with its code, and the handler's Close is called.
func TestOpenRefuses(t *testing.T) {
	eachWay(t, func(t *testing.T, start starter) {
		h, told := ends(func(*websocket.Conn, websocket.Message) { t.Error("a message of a connection that was refused") })
		var n atomic.Int32
		h.Open = func(*websocket.Conn, *websocket.Request) error {
			if n.Add(1) == 1 {
				return errors.New("not you")
			}
			return &websocket.CloseError{Code: 4001, Reason: "nor you"}
		}
		_, url := start(h, nil)
		for _, code := range []uint16{websocket.ClosePolicyViolation, 4001} {
			c := dial(t, url, nil)
			_ = c.SendText("hello") // perhaps too late
			_, err := c.Receive(within(t))
			if end, ok := errors.AsType[*websocket.CloseError](err); !ok || end.Code != code {
				t.Errorf("the client is told %v, want %d", err, code)
			}
			if got := get(t, told); got.by != session.ByLocal {
				t.Errorf("the server is told %+v", got)
			}
		}
	})
}

// Shutdown closes all connections with code 1001 and waits for them.
func TestShutdown(t *testing.T) {
	eachWay(t, func(t *testing.T, start starter) {
		h, told := ends(echo.Message)
		srv, url := start(h, nil)
		var all []*websocket.Conn
		for range 5 {
			c := dial(t, url, nil)
			_ = c.SendText("hello")
			receive(t, c)
			all = append(all, c)
		}
		down := make(chan error, 1)
		go func() { down <- srv.Shutdown(within(t)) }()
		for _, c := range all {
			var err error
			for m := range c.Messages(within(t), &err) {
				t.Errorf("%s instead of the end", m.Data)
			}
			if err != nil {
				t.Errorf("%v instead of the end", err)
			}
		}
		for range all {
			if got := get(t, told); got.by != session.ByLocal || got.code != websocket.CloseGoingAway {
				t.Errorf("the server is told %+v", got)
			}
		}
		if err := get(t, down); err != nil || srv.Len() != 0 {
			t.Errorf("%v, %d are left", err, srv.Len())
		}
	})
}

// A client that does not finish the handshake in time, or sends none, is disconnected, and no function of the handler is called.
func TestHandshakeTime(t *testing.T) {
	h, told := ends(nil)
	srv, url := serve(t, h, &websocket.Options{Session: session.Options{FirstTimeout: 50 * time.Millisecond}})
	for _, sent := range []string{"", "GET / HTTP/1.1\r\nHost: a\r\n"} {
		conn := bare(t, url)
		if _, err := io.WriteString(conn, sent); err != nil {
			t.Fatal(err)
		}
		if n, err := io.Copy(io.Discard, conn); n != 0 {
			t.Errorf("%d bytes, %v for who never asked", n, err)
		}
	}
	conn := bare(t, url)
	_, _ = io.WriteString(conn, "POST / HTTP/1.1\r\n\r\n")
	answer, _ := io.ReadAll(conn)
	if !strings.HasPrefix(string(answer), "HTTP/1.1 405 ") {
		t.Errorf("%q", answer)
	}
	if len(told) > 0 || srv.Stats().Panics > 0 {
		t.Errorf("a connection without a handshake was told of, or panicked: %+v", srv.Stats())
	}
}

// bare connects to a server and sends nothing.
func bare(t *testing.T, url string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimSuffix(strings.TrimPrefix(url, "ws://"), "/some/path?q=1"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	return conn
}

// The server's pings are answered, and the server ends connections whose peers are silent.
func TestHeartbeat(t *testing.T) {
	eachWay(t, func(t *testing.T, start starter) {
		h, told := ends(nil)
		pongs := make(chan struct{}, 1000)
		h.Pong = func(*websocket.Conn, []byte) { pongs <- struct{}{} }
		_, url := start(h, &websocket.Options{Ping: time.Second})
		c := dial(t, url, nil)
		go func() { _, _ = c.Receive(context.Background()) }()
		get(t, pongs)

		_, url = start(h, &websocket.Options{Ping: 300 * time.Millisecond})
		silent := bare(t, url)
		if _, err := io.WriteString(silent, request); err != nil {
			t.Fatal(err)
		}
		if got := get(t, told); got.by != session.ByTimeout || !errors.Is(got.err, session.ErrTimeout) {
			t.Errorf("the server is told %+v", got)
		}
		if all, err := io.ReadAll(silent); err != nil || !strings.HasSuffix(string(all), "\x89\x00") {
			t.Errorf("the silent one got %q, %v", all, err)
		}
	})
}

const request = "GET / HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n" +
	"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"

// If the server does not speak WebSocket, the caller of Dial gets its response.
func TestDialRefused(t *testing.T) {
	_, url := serve(t, nil, &websocket.Options{Accept: func(*websocket.Request, *websocket.Response) error {
		return &websocket.Refusal{Status: http.StatusTeapot, Reason: "short and stout", Header: http.Header{"X-Tea": {"1"}}}
	}})
	_, err := websocket.Dial(within(t), url, nil)
	refused, ok := errors.AsType[*wire.HandshakeError](err)
	if !ok || refused.Status != http.StatusTeapot || refused.Header.Get("X-Tea") != "1" || !strings.Contains(string(refused.Body), "short") {
		t.Errorf("%v", err)
	}
	for _, url := range []string{"ftp://a/", "ws://127.0.0.1:1/", "ws://a/#fragment", ":"} {
		if _, err := websocket.Dial(within(t), url, nil); err == nil {
			t.Errorf("dialed %s", url)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := websocket.Dial(ctx, url, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("with a context that is done: %v", err)
	}
}

// If many goroutines and the peer close at the same time, the peer always gets exactly one close frame.
func TestClosingAtOnce(t *testing.T) {
	eachWay(t, func(t *testing.T, start starter) {
		conns := make(chan *websocket.Conn, 1)
		_, url := start(&websocket.Handler{Open: func(c *websocket.Conn, _ *websocket.Request) error {
			conns <- c
			return nil
		}}, nil)
		address, _, _ := strings.Cut(strings.TrimPrefix(url, "ws://"), "/")
		for i := range 100 {
			conn, err := net.Dial("tcp", address)
			if err != nil {
				t.Fatal(err)
			}
			_ = conn.SetDeadline(time.Now().Add(patience))
			if _, err := io.WriteString(conn, request); err != nil {
				t.Fatal(err)
			}
			c := get(t, conns)
			var group sync.WaitGroup
			if i%2 == 0 {
				group.Go(func() { _, _ = io.WriteString(conn, frame(0x88, "\x0f\xa0")) })
			}
			for range 3 {
				group.Go(func() {
					err := c.Ping(nil)
					for ; err == nil && i%4 < 2; err = c.Ping(nil) {
					}
					if err != nil && !errors.Is(err, websocket.ErrClosed) {
						t.Errorf("who sends meanwhile is told %v", err)
					}
				})
				group.Go(func() { _ = c.Close(4000, "") })
			}
			testwait.Return(t, group.Wait)
			if i%2 == 1 {
				_, _ = io.WriteString(conn, frame(0x88, "\x0f\xa0"))
			}
			answer, err := io.ReadAll(conn)
			if err != nil || !bytes.HasSuffix(answer, []byte("\x88\x02\x0f\xa0")) {
				t.Fatalf("%d: %q, %v", i, answer, err)
			}
			_ = conn.Close()
		}
	})
}
