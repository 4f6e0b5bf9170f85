package wire_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"

	"github.com/sluice-push/sluice/session"
	"github.com/sluice-push/sluice/transport"
	"github.com/sluice-push/sluice/websocket/wire"
)

// A codec gets the bytes of a connection: here a ping and a message in two fragments, followed by a close frame.
func Example() {
	in := []byte("\x89\x82\x00\x00\x00\x00hi" + "\x01\x84\x00\x00\x00\x00Good" + "\x80\x85\x00\x00\x00\x00 news" +
		"\x88\x82\x00\x00\x00\x00\x03\xe8")
	c := wire.New(nil)
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
	c := wire.NewHandshake(&wire.Options{
		Accept: func(r *wire.Request, _ *wire.Response) error {
			if r.Path != "/live" {
				return &wire.Refusal{Status: http.StatusNotFound, Reason: "nothing here"}
			}
			return nil
		},
	})
	_, n, err := c.Decode([]byte(handshake))
	fmt.Println(n == len(handshake), err)
	fmt.Printf("%.34s\n", c.AppendReplies(nil))
	// Output:
	// true <nil>
	// HTTP/1.1 101 Switching Protocols
}

// A session server on bare connections. The codec is the value of its session, because Drain needs it for the close frame.
func Example_session() {
	handler := session.Typed[*wire.Codec]{
		Open: func(s *session.Session) (*wire.Codec, error) {
			c := wire.NewHandshake(nil)
			s.SetCodec(c)
			return c, nil
		},
		Message: func(s *session.Session, _ *wire.Codec, msg []byte) {
			_ = s.Send(fmt.Appendf(nil, "%s to you", msg))
		},
		Drain: func(s *session.Session, c *wire.Codec) {
			s.EndWait(c.AppendClose(nil, wire.CloseServiceRestart, "come back soon"), nil)
		},
	}
	srv := session.NewServer(nil, handler.Handler(), nil)
	client, server := transport.Pipe(0)
	if _, err := srv.ServeConn(server, nil); err != nil {
		panic(err)
	}

	fmt.Fprint(client, handshake, "\x81\x85\x00\x00\x00\x00hello")
	r := bufio.NewReader(client)
	response, err := http.ReadResponse(r, nil)
	if err != nil {
		panic(err)
	}
	_ = response.Body.Close()
	fmt.Println(response.Status)
	frame := make([]byte, 2+len("hello to you"))
	_, _ = io.ReadFull(r, frame)
	fmt.Printf("%q\n", frame)

	done := make(chan error)
	go func() { done <- srv.Shutdown(context.Background()) }()
	frame = make([]byte, 4+len("come back soon"))
	_, _ = io.ReadFull(r, frame)
	fmt.Printf("%q\n", frame)
	_ = client.Close()
	fmt.Println(<-done)
	// Output:
	// 101 Switching Protocols
	// "\x81\fhello to you"
	// "\x88\x10\x03\xf4come back soon"
	// <nil>
}

// handshake is the request of a client.
const handshake = "GET /live HTTP/1.1\r\nHost: example.com\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n" +
	"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"

// Under net/http a handler hands the connection over, here to a session server.
func ExampleUpgrade() {
	srv := session.NewServer(nil, &session.Handler{
		Message: func(s *session.Session, msg []byte) { _ = s.Send(msg) },
	}, nil)
	defer srv.Close()
	mux := http.NewServeMux()
	mux.HandleFunc("/live", func(w http.ResponseWriter, r *http.Request) {
		up, err := wire.Upgrade(w, r, &wire.Options{Subprotocols: []string{"json"}})
		if err != nil {
			return // the client has been answered
		}
		_, _ = srv.ServeConn(up.Conn, &session.Attach{Codec: up.Codec, Initial: up.Unread})
	})
	web := httptest.NewServer(mux)
	defer web.Close()

	client, err := net.Dial("tcp", web.Listener.Addr().String())
	if err != nil {
		panic(err)
	}
	defer client.Close()
	fmt.Fprint(client, handshake, "\x81\x82\x00\x00\x00\x00hi")
	r := bufio.NewReader(client)
	response, err := http.ReadResponse(r, nil)
	if err != nil {
		panic(err)
	}
	_ = response.Body.Close()
	frame := make([]byte, 4)
	_, _ = io.ReadFull(r, frame)
	fmt.Printf("%s, %q\n", response.Status, frame)
	// Output: 101 Switching Protocols, "\x81\x02hi"
}

// A payload is encoded behind free space for its header.
func ExampleFrameInPlace() {
	buf := make([]byte, wire.HeaderSpace, 64)
	buf = fmt.Appendf(buf, "{%q:%d}", "price", 42)
	frame := wire.FrameInPlace(buf, wire.OpText)
	fmt.Printf("%q\n", frame)
	// Output:
	// "\x81\f{\"price\":42}"
}

// The client's side of the handshake, here with a server that is a codec too.
func ExampleClientHandshake() {
	u, err := url.Parse("wss://example.com/live")
	if err != nil {
		fmt.Println(err)
		return
	}
	h, err := wire.NewClientHandshake(u, &wire.ClientOptions{Subprotocols: []string{"v2", "v1"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	server := wire.NewHandshake(&wire.Options{Subprotocols: []string{"v1"}})
	if _, _, err := server.Decode(h.AppendRequest(nil)); err != nil {
		fmt.Println(err)
		return
	}
	in, _ := server.AppendEncode(server.AppendReplies(nil), []byte("hello")) // the handshake is complete: no error
	n, err := h.Decode(in)
	if err != nil {
		fmt.Println(err) // a *wire.HandshakeError has the status and the header
		return
	}
	fmt.Println(h.Response().Subprotocol, len(in[n:]), "bytes of frames")
	// Output:
	// v1 7 bytes of frames
}
