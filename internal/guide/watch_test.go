package guide_test

import (
	"bytes"
	"context"
	"errors"
	"expvar"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/sluice-push/sluice/codec"
	"github.com/sluice-push/sluice/session"
	"github.com/sluice-push/sluice/transport"
	"github.com/sluice-push/sluice/websocket/wire"
)

func Example_observe() {
	var log bytes.Buffer
	logger := slog.New(slog.NewTextHandler(&log, nil))
	var lost, takenOver atomic.Int64

	handler := session.Chain(session.Handler{Message: echo}, session.Logged(logger))
	srv := session.NewServer(codec.Line{}, handler, &session.Options{
		Logger: logger, // panics, and trouble with accepting
		Observer: &session.Observer{
			Dropped:   func(_ *session.Session, frames int) { lost.Add(int64(frames)) }, // whose queue is full
			TakenOver: func(*session.Session) { takenOver.Add(1) },                      // whose handler blocks
		},
	})
	expvar.Publish("sessions", expvar.Func(func() any { return srv.Stats() }))

	conn, stop := serve(srv)
	fmt.Fprintln(conn, "hello")
	printLines(conn, 1)
	stop()
	fmt.Println(strings.Contains(expvar.Get("sessions").String(), `"Messages":1`), lost.Load(), log.Len())
	// Output:
	// hello
	// true 0 0
}

func public(ctx context.Context, address string) (net.Listener, error) {
	return transport.Listen(ctx, "tcp", address, &transport.Options{
		ReusePort:    true,     // several processes may listen here
		NotSentLowat: 16 << 10, // what the kernel may hold that is not on its way to a slow client
	})
}

// Two listeners share a port.
func TestPublic(t *testing.T) {
	first, err := public(t.Context(), "127.0.0.1:0")
	if errors.Is(err, errors.ErrUnsupported) {
		return // not on this system
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = first.Close() }()
	second, err := public(t.Context(), first.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	_ = second.Close()
}

// exchange sends a request and a message, and returns what the server says, up to the message.
func exchange(t *testing.T, conn net.Conn) string {
	t.Helper()
	_, err := io.WriteString(conn, "GET /live HTTP/1.1\r\nHost: example.com\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"+
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n\x81\x82\x00\x00\x00\x00hi")
	if err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	for one := make([]byte, 1); !strings.HasSuffix(got.String(), "\x81\x02hi"); {
		if _, err := conn.Read(one); err != nil {
			t.Fatalf("%v after %q", err, got.String())
		}
		got.Write(one)
	}
	return got.String()
}

func TestWebSocket(t *testing.T) {
	srv := session.NewServer(nil, &session.Handler{
		Open: func(s *session.Session) error {
			s.SetCodec(wire.NewHandshake(&wire.Options{Origins: []string{"https://example.com"}}))
			return nil
		},
		Message: func(s *session.Session, msg []byte) { _ = s.Send(msg) },
	}, nil)

	conn, stop := serve(srv)
	defer stop()
	if got := exchange(t, conn); !strings.HasPrefix(got, "HTTP/1.1 101 ") {
		t.Errorf("got %q", got)
	}
}

func TestUpgrade(t *testing.T) {
	mux := http.NewServeMux()
	srv := session.NewServer(nil, &session.Handler{Message: echo}, nil)
	defer srv.Close()

	mux.HandleFunc("/live", func(w http.ResponseWriter, r *http.Request) {
		up, err := wire.Upgrade(w, r, nil)
		if err != nil {
			return // the client has been answered
		}
		_, _ = srv.ServeConn(up.Conn, &session.Attach{Codec: up.Codec, Initial: up.Unread})
	})

	web := httptest.NewServer(mux)
	defer web.Close()
	conn, err := net.Dial("tcp", web.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if got := exchange(t, conn); !strings.HasPrefix(got, "HTTP/1.1 101 ") {
		t.Errorf("got %q", got)
	}
}
