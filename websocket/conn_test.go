package websocket_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"unsafe"

	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/session"
	"github.com/sluice-push/sluice/websocket"
)

type starter = func(h *websocket.Handler, o *websocket.Options) (*websocket.Server, string)

// compressions are the settings that a side may have.
var compressions = map[string]*websocket.Compression{
	"plain":    nil,
	"deflated": {Threshold: -1},
	"context":  {Takeover: true, PeerTakeover: true},
	"window":   {Takeover: true, PeerTakeover: true, WindowBits: 9, PeerWindowBits: 9, Level: 6},
	"receive":  {ReceiveOnly: true},
}

// text returns n bytes of UTF-8 that compress well.
func text(n int) []byte {
	return []byte(strings.Repeat("ticks and trades, ", n/18+1)[:n])
}

// noise returns n bytes that do not compress.
func noise(n int) []byte {
	b := make([]byte, n)
	random := rand.NewChaCha8([32]byte{byte(n)})
	_, _ = random.Read(b)
	return b
}

// Messages of both kinds and all sizes come back unchanged, one at a time and many at once, whatever the two sides agree on.
func TestEcho(t *testing.T) {
	eachWay(t, func(t *testing.T, start starter) {
		for server, sc := range compressions {
			_, url := start(echo, &websocket.Options{MaxMessage: 1 << 20, Compression: sc})
			for client, cc := range compressions {
				c := dial(t, url, &websocket.Options{MaxMessage: 1 << 20, Compression: cc})
				sizes := []int{0, 1, 125, 126, 5000, 65535, 65536, 70_000}
				sent := make(chan error, 1)
				go func() {
					var err error
					for _, n := range sizes {
						err = errors.Join(err, c.Send(websocket.OpText, text(n)), c.Send(websocket.OpBinary, noise(n)))
					}
					sent <- err
				}()
				for _, n := range sizes {
					m := receive(t, c)
					if m.Op != websocket.OpText || !bytes.Equal(m.Data, text(n)) {
						t.Fatalf("%s, %s: %v of %d bytes, want text of %d", server, client, m.Op, len(m.Data), n)
					}
					m = receive(t, c)
					if m.Op != websocket.OpBinary || !bytes.Equal(m.Data, noise(n)) {
						t.Fatalf("%s, %s: %v of %d bytes, want binary of %d", server, client, m.Op, len(m.Data), n)
					}
				}
				if err := get(t, sent); err != nil {
					t.Fatal(err)
				}
				c.CloseNow()
			}
		}
	})
}

// Messages larger than the buffers are written and read as streams, in both directions, compressed and plain.
func TestStreams(t *testing.T) {
	const size = 1 << 20
	for name, compression := range compressions {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := make(chan error, 1)
			data := append(noise(size/2), text(size/2)...)
			_, url := serve(t, &websocket.Handler{Pull: true, Open: func(c *websocket.Conn, _ *websocket.Request) error {
				go func() { got <- copyMessages(c, 2) }()
				return nil
			}}, &websocket.Options{MaxMessage: -1, Compression: compression})
			c := dial(t, url, &websocket.Options{MaxMessage: -1, Compression: compression})
			for range 2 {
				written := make(chan error, 1)
				go func() {
					w, err := c.NextWriter(websocket.OpBinary)
					if err == nil {
						_, err = w.Write(data)
						err = errors.Join(err, w.Close(), w.Close())
					}
					written <- err
				}()
				op, r, err := c.NextReader(within(t))
				if err != nil || op != websocket.OpBinary {
					t.Fatal(op, err)
				}
				back, err := io.ReadAll(r)
				if err != nil || !bytes.Equal(back, data) {
					t.Fatalf("%d bytes came back, %v", len(back), err)
				}
				if err := get(t, written); err != nil {
					t.Fatal(err)
				}
			}
			if err := get(t, got); err != nil {
				t.Error(err)
			}
		})
	}
}

// copyMessages sends n messages back while they arrive.
func copyMessages(c *websocket.Conn, n int) error {
	for range n {
		op, r, err := c.NextReader(context.Background())
		if err != nil {
			return err
		}
		w, err := c.NextWriter(op)
		if err != nil {
			return err
		}
		if _, err := io.Copy(w, r); err != nil {
			return err
		}
		if err := w.Close(); err != nil {
			return err
		}
	}
	return nil
}

// While a message is written in pieces, control frames may be sent and other messages are refused.
func TestOneWriter(t *testing.T) {
	eachWay(t, func(t *testing.T, start starter) {
		_, url := start(echo, nil)
		c := dial(t, url, nil)
		w, err := c.NextWriter(websocket.OpText)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(text(40_000)); err != nil {
			t.Fatal(err)
		}
		second, err := c.NextWriter(websocket.OpText)
		if err != nil {
			t.Fatal(err)
		}
		prepared := websocket.Prepare(websocket.OpText, text(10))
		for name, err := range map[string]error{
			"Send": c.Send(websocket.OpText, text(1)), "large": c.Send(websocket.OpText, text(100_000)),
			"SendPrepared": c.SendPrepared(prepared), "another writer": second.Close(), "the session": c.Session().Send(text(1)),
		} {
			if !errors.Is(err, websocket.ErrWriterOpen) {
				t.Errorf("%s: %v, want ErrWriterOpen", name, err)
			}
		}
		if err := errors.Join(c.Ping([]byte("between")), w.Close(), c.SendText("after")); err != nil {
			t.Fatal(err)
		}
		if m := receive(t, c); !bytes.Equal(m.Data, text(40_000)) {
			t.Errorf("got %d bytes", len(m.Data))
		}
		if m := receive(t, c); string(m.Data) != "after" {
			t.Errorf("got %q", m.Data)
		}
	})
}

// The handlers of both sides get pings and pongs, in order with the messages.
func TestPings(t *testing.T) {
	eachWay(t, func(t *testing.T, start starter) {
		told := make(chan string, 10)
		note := func(what string) func(*websocket.Conn, []byte) {
			return func(_ *websocket.Conn, p []byte) { told <- what + string(p) }
		}
		_, url := start(&websocket.Handler{
			Ping: note("server pinged "), Pong: note("server ponged "),
			Message: func(c *websocket.Conn, m websocket.Message) {
				told <- "message " + string(m.Data)
				_ = c.Ping([]byte("back"))
			},
		}, nil)
		client := websocket.NewClient(&websocket.Handler{Pong: note("client ponged "), Ping: note("client pinged ")}, nil)
		defer client.Close()
		c, err := client.Dial(within(t), url)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(c.Ping([]byte("1")), c.SendText("2")); err != nil {
			t.Fatal(err)
		}
		want := map[string]int{"server pinged 1": 1, "client ponged 1": 1, "message 2": 1, "client pinged back": 1, "server ponged back": 1}
		seen := map[string]int{}
		for range want {
			seen[get(t, told)]++
		}
		if fmt.Sprint(seen) != fmt.Sprint(want) {
			t.Errorf("told %v, want %v", seen, want)
		}
	})
}

// The request reaches Open, the subprotocol both sides, and headers each other.
func TestHandshake(t *testing.T) {
	eachWay(t, func(t *testing.T, start starter) {
		opened := make(chan websocket.Request, 1)
		_, url := start(&websocket.Handler{Open: func(c *websocket.Conn, r *websocket.Request) error {
			opened <- *r
			return c.SendText("welcome to " + c.Subprotocol())
		}}, &websocket.Options{Subprotocols: []string{"b", "a"}, Header: http.Header{"X-Server": {"1"}}})
		var answer http.Header
		c := dial(t, url, &websocket.Options{
			Subprotocols: []string{"a", "b"}, Header: http.Header{"X-Client": {"2"}},
			Accepted: func(r *websocket.ClientResponse) error { answer = r.Header; return nil },
		})
		if m := receive(t, c); string(m.Data) != "welcome to b" || c.Subprotocol() != "b" {
			t.Errorf("%q, %q", m.Data, c.Subprotocol())
		}
		r := get(t, opened)
		if r.Path != "/some/path" || r.RawQuery != "q=1" || r.Header.Get("X-Client") != "2" || answer.Get("X-Server") != "1" {
			t.Errorf("request %+v, answer %v", r, answer)
		}
	})
}

// Messages of many senders arrive, each once.
func TestManySenders(t *testing.T) {
	eachWay(t, func(t *testing.T, start starter) {
		_, url := start(echo, nil)
		c := dial(t, url, nil)
		var group sync.WaitGroup
		for range 4 {
			group.Go(func() {
				for range 100 {
					if err := c.SendText("x"); err != nil {
						t.Error(err)
					}
				}
			})
		}
		for range 400 {
			receive(t, c)
		}
		testwait.Return(t, group.Wait)
	})
}

// One frame goes to all connections that can share it, and others get their own.
func TestPrepared(t *testing.T) {
	eachWay(t, func(t *testing.T, start starter) {
		srv, url := start(echo, &websocket.Options{Compression: &websocket.Compression{Takeover: true, PeerTakeover: true}})
		var all []*websocket.Conn
		for _, compression := range compressions {
			c := dial(t, url, &websocket.Options{MaxMessage: 1 << 20, Compression: compression})
			if err := c.SendPrepared(websocket.Prepare(websocket.OpText, text(10))); err != nil {
				t.Fatal(err)
			}
			receive(t, c) // so that the server knows it
			all = append(all, c)
		}
		for _, n := range []int{0, 100, 5000, 100_000} {
			p := websocket.Prepare(websocket.OpBinary, text(n))
			for c := range srv.Conns() {
				if err := c.SendPrepared(p); err != nil {
					t.Fatal(err)
				}
			}
			for _, c := range all {
				if m := receive(t, c); m.Op != websocket.OpBinary || !bytes.Equal(m.Data, text(n)) {
					t.Errorf("got %v of %d bytes, want %d", m.Op, len(m.Data), n)
				}
			}
		}
	})
}

// A broadcast reaches all connections, whatever they have agreed on, in order with their other messages. It reports connections that have ended
// or read nothing.
func TestBroadcast(t *testing.T) {
	eachWay(t, func(t *testing.T, start starter) {
		srv, url := start(echo, &websocket.Options{
			Compression: &websocket.Compression{Takeover: true, PeerTakeover: true}, Session: session.Options{Policy: session.Refuse},
		})
		var all []*websocket.Conn
		for range 3 {
			for _, compression := range compressions {
				c := dial(t, url, &websocket.Options{MaxMessage: 1 << 20, Compression: compression})
				if err := c.Send(websocket.OpText, text(10)); err != nil {
					t.Fatal(err)
				}
				receive(t, c) // so that the server knows it
				all = append(all, c)
			}
		}
		fail := func(c *websocket.Conn, err error) { t.Errorf("%v: %v", c.RemoteAddr(), err) }
		sizes := []int{0, 100, 5000, 20_000}
		for _, n := range sizes {
			websocket.Broadcast(websocket.Prepare(websocket.OpBinary, text(n)), srv.Conns(), fail)
			for c := range srv.Conns() {
				if err := c.Send(websocket.OpText, text(n+1)); err != nil {
					t.Error(err)
				}
			}
		}
		for _, c := range all {
			for _, n := range sizes {
				if m := receive(t, c); m.Op != websocket.OpBinary || !bytes.Equal(m.Data, text(n)) {
					t.Errorf("got %v of %d bytes, want %d", m.Op, len(m.Data), n)
				}
				if m := receive(t, c); m.Op != websocket.OpText || !bytes.Equal(m.Data, text(n+1)) {
					t.Errorf("got %v of %d bytes, want %d", m.Op, len(m.Data), n+1)
				}
			}
		}
		here := slices.Collect(srv.Conns())
		for _, c := range here[:2] {
			if err := c.Close(websocket.CloseNormal, ""); err != nil {
				t.Error(err)
			}
		}
		failed := 0
		websocket.Broadcast(websocket.Prepare(websocket.OpText, text(9)), slices.Values(here), func(c *websocket.Conn, err error) {
			if !errors.Is(err, session.ErrClosed) || !slices.Contains(here[:2], c) {
				t.Errorf("%v: %v", c.RemoteAddr(), err)
			}
			failed++
		})
		if failed != 2 {
			t.Errorf("%d connections are over", failed)
		}
		websocket.Broadcast(websocket.Prepare(websocket.OpText, text(9)), slices.Values(here), nil)
	})
}

// TestSize checks the size of a Conn, which the documentation states for idle connections.
func TestSize(t *testing.T) {
	if n := unsafe.Sizeof(websocket.Conn{}); n > 96 {
		t.Errorf("a Conn has %d bytes", n)
	}
}

// Forbidden calls return errors.
func TestMisuse(t *testing.T) {
	_, url := serve(t, echo, nil)
	client := websocket.NewClient(&websocket.Handler{}, nil)
	defer client.Close()
	c, err := client.Dial(within(t), url)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Receive(within(t)); !errors.Is(err, session.ErrNoPull) {
		t.Errorf("Receive: %v", err)
	}
	defer func() {
		if recover() == nil {
			t.Error("a handler with Pull and Message was taken")
		}
	}()
	websocket.NewServer(&websocket.Handler{Pull: true, Message: echo.Message}, nil)
}
