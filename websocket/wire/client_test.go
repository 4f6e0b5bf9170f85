package wire_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	coder "github.com/coder/websocket"
	gorilla "github.com/gorilla/websocket"

	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/websocket/wire"
)

// testTimeout bounds each wait of a test. No wait should come near it.
const testTimeout = 30 * time.Second

// echo serves one connection as an engine does. It sends every message back, of the same kind, until one side closes. The text "close me" makes
// the server close with code 4001.
func echo(conn net.Conn, c *wire.Codec, in []byte) {
	defer func() { _ = conn.Close() }()
	var out []byte
	for {
		used := 0
		for {
			msg, n, err := c.Decode(in[used:])
			out = c.AppendReplies(out)
			switch {
			case err != nil:
				_, _ = conn.Write(out) // the connection is over either way
				return
			case msg != nil && string(msg) == "close me":
				out = c.AppendClose(out, 4001, "as you like")
			case msg != nil && c.Text():
				out = wire.AppendFrame(out, wire.OpText, msg)
			case msg != nil:
				out = wire.AppendFrame(out, wire.OpBinary, msg)
			}
			if n <= 0 {
				break
			}
			used += n
		}
		if _, err := conn.Write(out); err != nil {
			return
		}
		out, in = out[:0], append(in[:0], in[used:]...)
		if len(in) == cap(in) {
			in = append(in, make([]byte, 4096)...)[:len(in)]
		}
		n, err := conn.Read(in[len(in):cap(in)])
		if err != nil {
			return
		}
		in = in[:len(in)+n]
	}
}

// clientOptions allow the messages of these tests.
var clientOptions = &wire.Options{MaxMessage: 128 << 10, Subprotocols: []string{"echo"}}

// serveHTTP starts an echo server on net/http and returns its address.
func serveHTTP(t *testing.T) string {
	t.Helper()
	var wg sync.WaitGroup
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		up, err := wire.Upgrade(w, r, clientOptions)
		if err != nil {
			return // the client was answered
		}
		wg.Go(func() { echo(up.Conn, up.Codec, up.Unread) })
	}))
	t.Cleanup(func() { s.Close(); testwait.Return(t, wg.Wait) })
	return s.Listener.Addr().String()
}

// serveRaw starts an echo server on a bare listener and returns its address.
func serveRaw(t *testing.T) string {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { echo(conn, wire.NewHandshake(clientOptions), nil) })
		}
	})
	t.Cleanup(func() { _ = l.Close(); testwait.Return(t, wg.Wait) })
	return l.Addr().String()
}

// eachServer runs a test with both ways to accept a connection.
func eachServer(t *testing.T, test func(t *testing.T, address string)) {
	t.Run("net/http", func(t *testing.T) { test(t, serveHTTP(t)) })
	t.Run("raw", func(t *testing.T) { test(t, serveRaw(t)) })
}

// payloads are valid text, of sizes around every boundary of the format and of random sizes.
func payloads() [][]byte {
	random := rand.New(rand.NewPCG(1, 2))
	sizes := []int{0, 1, 125, 126, 127, 4095, 4096, 65535, 65536, 70_000}
	for range 20 {
		sizes = append(sizes, random.IntN(70_000))
	}
	all := make([][]byte, len(sizes))
	for i, n := range sizes {
		all[i] = []byte(strings.Repeat("x", n%3) + strings.Repeat("€", n/3))
	}
	return all
}

func dialGorilla(t *testing.T, address string) *gorilla.Conn {
	t.Helper()
	d := gorilla.Dialer{HandshakeTimeout: testTimeout, Subprotocols: []string{"other", "echo"}, WriteBufferSize: 1000}
	conn, res, err := d.DialContext(t.Context(), "ws://"+address+"/", nil)
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	t.Cleanup(func() { _ = conn.Close() })
	if conn.Subprotocol() != "echo" {
		t.Errorf("subprotocol %q", conn.Subprotocol())
	}
	deadline := time.Now().Add(testTimeout)
	if err := errors.Join(conn.SetReadDeadline(deadline), conn.SetWriteDeadline(deadline)); err != nil {
		t.Fatal(err)
	}
	return conn
}

// TestGorillaEcho: messages of all sizes, whole and, above its buffer of 1,000 bytes, in fragments, with pings between.
func TestGorillaEcho(t *testing.T) {
	eachServer(t, func(t *testing.T, address string) {
		conn := dialGorilla(t, address)
		var answers []string
		conn.SetPongHandler(func(data string) error {
			answers = append(answers, data)
			return nil
		})
		var pings int
		send := func(kind int, payload []byte) error {
			w, err := conn.NextWriter(kind)
			if err != nil {
				return err
			}
			for piece := range slicesOf(payload, 700) { // fragments leave when the buffer is full, not with each Write
				if _, err := w.Write(piece); err != nil {
					return err
				}
				pings++
				if err := conn.WriteControl(gorilla.PingMessage, []byte{byte(pings)}, time.Now().Add(testTimeout)); err != nil {
					return err
				}
			}
			return w.Close()
		}
		for i, payload := range payloads() {
			kind := gorilla.TextMessage + i%2
			sent := make(chan error, 1)
			go func() { sent <- send(kind, payload) }()
			gotKind, got, err := conn.ReadMessage()
			if sendErr := testwait.Receive(t, sent); err != nil || sendErr != nil || gotKind != kind || !bytes.Equal(got, payload) {
				t.Fatalf("%d bytes came back as kind %d, %d bytes, %v, %v", len(payload), gotKind, len(got), err, sendErr)
			}
		}
		if len(answers) != pings {
			t.Errorf("%d pings were answered %d times", pings, len(answers))
		}
	})
}

// slicesOf yields pieces of b, at least one.
func slicesOf(b []byte, n int) func(yield func([]byte) bool) {
	return func(yield func([]byte) bool) {
		for first := true; first || len(b) > 0; first = false {
			piece := b[:min(n, len(b))]
			if b = b[len(piece):]; !yield(piece) {
				return
			}
		}
	}
}

// TestGorillaClose: close codes in both directions, and a broken rule as the other side sees it.
func TestGorillaClose(t *testing.T) {
	for _, tt := range []struct {
		name string
		send func(*gorilla.Conn) error
		code int
	}{
		{"client closes", func(c *gorilla.Conn) error {
			return c.WriteMessage(gorilla.CloseMessage, gorilla.FormatCloseMessage(3999, "enough"))
		}, 3999},
		{"client closes without code", func(c *gorilla.Conn) error { return c.WriteMessage(gorilla.CloseMessage, nil) }, gorilla.CloseNoStatusReceived},
		{"server closes", func(c *gorilla.Conn) error { return c.WriteMessage(gorilla.TextMessage, []byte("close me")) }, 4001},
		{"bad text", func(c *gorilla.Conn) error { return c.WriteMessage(gorilla.TextMessage, []byte("\xff")) }, gorilla.CloseInvalidFramePayloadData},
		{"too big", func(c *gorilla.Conn) error {
			_, err := io.WriteString(c.NetConn(), "\x82\xff\x00\x00\x00\x00\x00\x02\x00\x01") // the header alone decides
			return err
		}, gorilla.CloseMessageTooBig},
		{"not masked", func(c *gorilla.Conn) error {
			_, err := io.WriteString(c.NetConn(), "\x81\x01x")
			return err
		}, gorilla.CloseProtocolError},
	} {
		t.Run(tt.name, func(t *testing.T) {
			eachServer(t, func(t *testing.T, address string) {
				conn := dialGorilla(t, address)
				if err := tt.send(conn); err != nil {
					t.Fatal(err)
				}
				_, _, err := conn.ReadMessage()
				if !gorilla.IsCloseError(err, tt.code) {
					t.Errorf("the client saw %v, want code %d", err, tt.code)
				}
			})
		})
	}
}

// TestCoder: echo, pings and closing with the library coder/websocket.
func TestCoder(t *testing.T) {
	eachServer(t, func(t *testing.T, address string) {
		ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
		defer cancel()
		conn, _, err := coder.Dial(ctx, "ws://"+address+"/", &coder.DialOptions{Subprotocols: []string{"echo"}, CompressionMode: coder.CompressionContextTakeover})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.CloseNow() }()
		conn.SetReadLimit(128 << 10)
		for i, payload := range payloads() {
			kind := coder.MessageText + coder.MessageType(i%2)
			sent := make(chan error, 1)
			go func() { sent <- sendCoder(ctx, conn, kind, payload) }()
			gotKind, got, err := conn.Read(ctx)
			if sendErr := testwait.Receive(t, sent); err != nil || sendErr != nil || gotKind != kind || !bytes.Equal(got, payload) {
				t.Fatalf("%d bytes came back as %v, %d bytes, %v, %v", len(payload), gotKind, len(got), err, sendErr)
			}
		}
		pingCtx := conn.CloseRead(ctx) // it needs a reader for its pong
		if err := conn.Ping(ctx); err != nil {
			t.Error(err)
		}
		if err := conn.Close(4000, "done"); err != nil {
			t.Error(err)
		}
		<-pingCtx.Done()
	})
}

// sendCoder writes a message in fragments: one for each Write.
func sendCoder(ctx context.Context, conn *coder.Conn, kind coder.MessageType, payload []byte) error {
	w, err := conn.Writer(ctx, kind)
	if err != nil {
		return err
	}
	for piece := range slicesOf(payload, 5000) {
		if _, err := w.Write(piece); err != nil {
			return err
		}
	}
	return w.Close()
}
