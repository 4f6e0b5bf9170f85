package websocket_test

import (
	"errors"
	"sync"
	"testing"

	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/session"
	"github.com/sluice-push/sluice/websocket"
)

// Conns, called while connections are being made, yields only connections that can send.
func TestConnsWhileConnecting(t *testing.T) {
	eachWay(t, func(t *testing.T, start starter) {
		o := &websocket.Options{Subprotocols: []string{"a"}, Compression: &websocket.Compression{Takeover: true}}
		srv, url := start(&websocket.Handler{Open: func(c *websocket.Conn, _ *websocket.Request) error {
			c.SetValue(1)
			return nil
		}}, o)
		client := websocket.NewClient(&websocket.Handler{}, o)
		defer client.Close()
		stop := make(chan struct{})
		var group sync.WaitGroup
		prepared := websocket.Prepare(websocket.OpText, text(200))
		for range 2 {
			group.Go(func() {
				for {
					select {
					case <-stop:
						return
					default:
					}
					for c := range srv.Conns() {
						err := c.SendPrepared(prepared)
						if err != nil && !errors.Is(err, websocket.ErrClosed) && !errors.Is(err, websocket.ErrWriterOpen) {
							t.Error(err)
						}
						_, _ = c.Subprotocol(), c.Value()
						if w, err := c.NextWriter(websocket.OpBinary); err == nil {
							_ = w.Close()
						}
						_ = c.RemoteAddr()
					}
					for c := range client.Conns() {
						_ = c.SendPrepared(prepared)
						_, _, _ = c.Subprotocol(), c.Value(), c.LocalAddr()
					}
				}
			})
		}
		for range 20 {
			c, err := client.Dial(within(t), url)
			if err != nil {
				t.Error(err)
				break
			}
			c.CloseNow()
		}
		close(stop)
		testwait.Return(t, group.Wait)
	})
}

// Drain is called after Open, also for a connection that is being opened when the server is shut down.
func TestDrainWhileOpening(t *testing.T) {
	for _, way := range ways[:2] {
		opening, goOn := make(chan struct{}), make(chan struct{})
		drained := make(chan any, 2)
		srv, url := serve(t, &websocket.Handler{
			Open: func(c *websocket.Conn, _ *websocket.Request) error {
				close(opening)
				testwait.Hold(t, goOn)
				c.SetValue("opened")
				return nil
			},
			Drain: func(c *websocket.Conn) {
				drained <- c.Value()
				_ = c.Close(websocket.CloseGoingAway, "")
			},
		}, &websocket.Options{Session: session.Options{Engine: way.engine}})
		c := dial(t, url, nil)
		testwait.Receive(t, opening)
		ctx, done := within(t), make(chan error, 1)
		go func() { done <- srv.Shutdown(ctx) }()
		for {
			if _, err := websocket.Dial(ctx, url, nil); err != nil {
				break // Shutdown has begun
			}
		}
		close(goOn)
		if v := get(t, drained); v != "opened" {
			t.Errorf("%s: drained with the value %v", way.name, v)
		}
		if _, err := c.Receive(ctx); websocket.CodeOf(err) != websocket.CloseGoingAway {
			t.Errorf("%s: %v", way.name, err)
		}
		if err := get(t, done); err != nil {
			t.Error(err)
		}
	}
}
