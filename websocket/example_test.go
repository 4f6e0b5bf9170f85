package websocket_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"

	"github.com/sluice-push/sluice/websocket"
)

// A codec is fed with the bytes of a connection, here a ping and a message in two fragments followed by a close frame.
func Example() {
	in := []byte("\x89\x82\x00\x00\x00\x00hi" + "\x01\x84\x00\x00\x00\x00Good" + "\x80\x85\x00\x00\x00\x00 news" +
		"\x88\x82\x00\x00\x00\x00\x03\xe8")
	c := websocket.New(nil)
	for {
		msg, n, err := c.Decode(in)
		if out := c.AppendReplies(nil); len(out) > 0 {
			fmt.Printf("to be sent: %q\n", out)
		}
		if err != nil {
			fmt.Println(err, errors.Is(err, io.EOF))
			return
		}
		if msg != nil {
			fmt.Printf("message: %s\n", msg)
		}
		if n <= 0 {
			return // read more
		}
		in = in[n:]
	}
	// Output:
	// to be sent: "\x8a\x02hi"
	// message: Good news
	// to be sent: "\x88\x02\x03\xe8"
	// websocket: closed by peer: 1000 true
}

// On a bare connection the codec begins with the handshake.
func ExampleNewHandshake() {
	c := websocket.NewHandshake(&websocket.Options{
		Accept: func(r *websocket.Request, _ *websocket.Response) error {
			if r.Path != "/live" {
				return &websocket.Refusal{Status: http.StatusNotFound, Reason: "nothing here"}
			}
			return nil
		},
	})
	in := "GET /live HTTP/1.1\r\nHost: example.com\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n" +
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
	_, n, err := c.Decode([]byte(in))
	fmt.Println(n == len(in), err)
	fmt.Printf("%.34s\n", c.AppendReplies(nil))
	// Output:
	// true <nil>
	// HTTP/1.1 101 Switching Protocols
}

// Under net/http a handler hands the connection over, for example to a session server.
func ExampleUpgrade() {
	serve := func(conn net.Conn, c *websocket.Codec, unread []byte) { _ = conn.Close() }

	http.HandleFunc("/live", func(w http.ResponseWriter, r *http.Request) {
		up, err := websocket.Upgrade(w, r, &websocket.Options{Subprotocols: []string{"json"}})
		if err != nil {
			return // the client has been answered
		}
		go serve(up.Conn, up.Codec, up.Unread)
	})
}

// A payload is encoded right behind the room for its header.
func ExampleFrameInPlace() {
	buf := make([]byte, websocket.HeaderSpace, 64)
	buf = fmt.Appendf(buf, "{%q:%d}", "price", 42)
	frame := websocket.FrameInPlace(buf, websocket.OpText)
	fmt.Printf("%q\n", frame)
	// Output:
	// "\x81\f{\"price\":42}"
}
