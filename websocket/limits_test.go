package websocket_test

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/sluice-push/sluice/websocket"
)

// The limits apply to messages: a message of the largest size is accepted in whatever frames it comes, and control frames do not count.
func TestAsLargeAsAllowed(t *testing.T) {
	eachWay(t, func(t *testing.T, start starter) {
		for name, compression := range compressions {
			for _, pull := range []bool{false, true} {
				const most = 100
				h := &websocket.Handler{Pull: pull, Ping: func(*websocket.Conn, []byte) {}}
				if pull {
					h.Open = func(c *websocket.Conn, _ *websocket.Request) error {
						go func() {
							var err error
							for m := range c.Messages(context.Background(), &err) {
								_ = c.Send(m.Op, m.Data)
							}
						}()
						return nil
					}
				} else {
					h.Message = echo.Message
				}
				_, url := start(h, &websocket.Options{MaxMessage: most, Compression: compression})
				c := dial(t, url, &websocket.Options{MaxMessage: most, Compression: compression})
				for _, data := range [][]byte{noise(most), text(most)} {
					if err := errors.Join(c.Ping(noise(125)), c.Send(websocket.OpBinary, data)); err != nil {
						t.Fatal(err)
					}
					m, err := c.Receive(within(t))
					if err != nil || !bytes.Equal(m.Data, data) {
						t.Fatalf("%s, pull %v: got %d bytes, %v", name, pull, len(m.Data), err)
					}
					w, err := c.NextWriter(websocket.OpBinary)
					if err != nil {
						t.Fatal(err)
					}
					if _, err := w.Write(data); err != nil {
						t.Fatal(err)
					}
					if err := errors.Join(c.Ping(noise(125)), w.Close()); err != nil {
						t.Fatal(err)
					}
					if m := receive(t, c); !bytes.Equal(m.Data, data) {
						t.Fatalf("%s, pull %v: got %d bytes in pieces", name, pull, len(m.Data))
					}
				}
				c.CloseNow()
			}
		}
	})
}

// The options limit the size of a request independently of the size of messages.
func TestLargeRequest(t *testing.T) {
	eachWay(t, func(t *testing.T, start starter) {
		_, url := start(echo, &websocket.Options{MaxMessage: 100, MaxHeaderBytes: 64 << 10})
		c := dial(t, url, &websocket.Options{Header: http.Header{"Cookie": {strings.Repeat("a", 40<<10)}}})
		if err := c.SendText("hello"); err != nil {
			t.Fatal(err)
		}
		receive(t, c)
	})
}
