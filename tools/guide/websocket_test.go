package guide_test

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"time"

	coder "github.com/coder/websocket"
	gorilla "github.com/gorilla/websocket"

	"github.com/sluice-push/sluice/session"
	"github.com/sluice-push/sluice/websocket"
)

// The comparisons in docs/websocket.md: the same program with another package and with package websocket.

// hub sends every message to all connections, with gorilla/websocket.
type hub struct {
	upgrader gorilla.Upgrader

	mu    sync.Mutex
	conns map[*gorilla.Conn]bool
}

func (h *hub) add(c *gorilla.Conn) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.conns[c] = true
}

func (h *hub) each(f func(*gorilla.Conn)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for c := range h.conns {
		f(c)
	}
}

func (h *hub) remove(c *gorilla.Conn) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.conns, c)
	_ = c.Close()
}

func (h *hub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c, err := h.upgrader.Upgrade(w, r, nil)
	if err != nil {
		return
	}
	c.SetReadLimit(4 << 10)
	h.add(c) // to a map, under a mutex
	for {
		op, data, err := c.ReadMessage()
		if err != nil {
			break
		}
		h.each(func(other *gorilla.Conn) { // under the mutex
			_ = other.SetWriteDeadline(time.Now().Add(time.Second))
			_ = other.WriteMessage(op, data) // waits for a peer that does not read, and all others wait too
		})
	}
	h.remove(c)
}

func newHub() *websocket.Server {
	var srv *websocket.Server
	h := &websocket.Handler{Message: func(_ *websocket.Conn, m websocket.Message) {
		p := websocket.Prepare(m.Op, bytes.Clone(m.Data)) // the data is borrowed
		websocket.Broadcast(p, srv.Conns(), nil)          // never waits; a peer that does not read is disconnected
	}}
	srv = websocket.NewServer(h, &websocket.Options{
		MaxMessage: 4 << 10,
		Session:    session.Options{Policy: session.CloseSlow},
	})
	return srv // an http.Handler
}

// received returns what two connections to a hub receive after each has sent a message.
func received(h http.Handler) string {
	web := httptest.NewServer(h)
	defer web.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	var conns []*websocket.Conn
	var all []string
	for range 2 {
		c, err := websocket.Dial(ctx, "ws"+strings.TrimPrefix(web.URL, "http"), nil)
		if err != nil {
			panic(err)
		}
		defer c.CloseNow()
		conns = append(conns, c)
		// If the client receives its own message, the hub has added its connection.
		_ = c.SendText(fmt.Sprint("hello from ", len(conns)))
		for _, c := range conns {
			m, err := c.Receive(ctx)
			all = append(all, fmt.Sprintf("%s %v", m.Data, err))
		}
	}
	return strings.Join(all, ", ")
}

func Example_hubs() {
	ours := newHub()
	defer ours.Close()
	fmt.Println(received(&hub{conns: make(map[*gorilla.Conn]bool)}))
	fmt.Println(received(ours))
	// Output:
	// hello from 1 <nil>, hello from 2 <nil>, hello from 2 <nil>
	// hello from 1 <nil>, hello from 2 <nil>, hello from 2 <nil>
}

func coderAnswer(ctx context.Context, url string) error {
	c, _, err := coder.Dial(ctx, url, nil)
	if err != nil {
		return err
	}
	defer func() { _ = c.CloseNow() }()
	for {
		op, data, err := c.Read(ctx)
		if coder.CloseStatus(err) == coder.StatusNormalClosure {
			return nil
		}
		if err != nil {
			return err
		}
		if err := c.Write(ctx, op, data); err != nil {
			return err
		}
	}
}

func answer(ctx context.Context, url string) error {
	c, err := websocket.Dial(ctx, url, nil)
	if err != nil {
		return err
	}
	defer c.CloseNow()
	for m := range c.Messages(ctx, &err) {
		if err := c.SendContext(ctx, m.Op, m.Data); err != nil {
			return err
		}
	}
	return err
}

func Example_answers() {
	ask := websocket.NewServer(&websocket.Handler{
		Open: func(c *websocket.Conn, _ *websocket.Request) error { return c.SendText("are you there?") },
		Message: func(c *websocket.Conn, m websocket.Message) {
			fmt.Printf("%s\n", m.Data)
			_ = c.Close(websocket.CloseNormal, "")
		},
	}, nil)
	defer ask.Close()
	web := httptest.NewServer(ask)
	defer web.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()

	url := "ws" + strings.TrimPrefix(web.URL, "http")
	fmt.Println(coderAnswer(ctx, url), answer(ctx, url))
	// Output:
	// are you there?
	// are you there?
	// <nil> <nil>
}
