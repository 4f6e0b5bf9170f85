package wire_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	coder "github.com/coder/websocket"
	gorilla "github.com/gorilla/websocket"

	"github.com/sluice-push/sluice/websocket/wire"
)

// greet performs the handshake with a server and returns the connection and the bytes behind the response.
func greet(t *testing.T, address string, o *wire.ClientOptions) (h *wire.ClientHandshake, frames io.ReadWriter, err error) {
	t.Helper()
	h, err = wire.NewClientHandshake(parseURL(t, "ws://"+address+"/"), o)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(testTimeout)); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Write(h.AppendRequest(nil)); err != nil {
		t.Fatal(err)
	}
	var in []byte
	for buf := make([]byte, 4096); ; {
		k, err := conn.Read(buf)
		if err != nil {
			t.Fatalf("%v after %q", err, in)
		}
		in = append(in, buf[:k]...)
		if n, err := h.Decode(in); n > 0 || err != nil {
			return h, struct {
				io.Reader
				io.Writer
			}{io.MultiReader(bytes.NewReader(in[n:]), conn), conn}, err
		}
	}
}

// TestClientServers: every available server accepts the request, and the client accepts its answer.
func TestClientServers(t *testing.T) {
	servers := map[string]func(w http.ResponseWriter, r *http.Request){
		"gorilla": func(w http.ResponseWriter, r *http.Request) {
			conn, err := (&gorilla.Upgrader{Subprotocols: []string{"echo"}, EnableCompression: true}).Upgrade(w, r, nil)
			if err != nil {
				return // the client was answered, and complains
			}
			kind, msg, err := conn.ReadMessage()
			_ = errors.Join(err, conn.WriteMessage(kind, msg), conn.Close()) // the client sees what went wrong
		},
		"coder": func(w http.ResponseWriter, r *http.Request) {
			conn, err := coder.Accept(w, r, &coder.AcceptOptions{
				Subprotocols: []string{"echo"}, CompressionMode: coder.CompressionContextTakeover,
			})
			if err != nil {
				return
			}
			ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
			defer cancel()
			kind, msg, err := conn.Read(ctx)
			_ = errors.Join(err, conn.Write(ctx, kind, msg), conn.CloseNow())
		},
	}
	o := &wire.ClientOptions{
		Subprotocols: []string{"other", "echo"},
		Extensions:   "permessage-deflate; client_no_context_takeover; server_no_context_takeover",
	}
	check := func(t *testing.T, address, extension string) {
		h, conn, err := greet(t, address, o)
		if err != nil {
			t.Fatal(err)
		}
		if r := h.Response(); r.Subprotocol != "echo" || !bytes.HasPrefix([]byte(r.Extensions), []byte(extension)) {
			t.Errorf("%+v", r)
		}
		if _, err := io.WriteString(conn, client(fin|text, "hello")); err != nil {
			t.Fatal(err)
		}
		got := make([]byte, len(server(fin|text, "hello")))
		if extension != "" { // the answer may be compressed: only that it comes is of interest
			got = got[:2]
		}
		if _, err := io.ReadFull(conn, got); err != nil || got[0]&0x8f != fin|text {
			t.Errorf("answered with %q, %v", got, err)
		}
	}
	for name, serve := range servers {
		t.Run(name, func(t *testing.T) {
			s := httptest.NewServer(http.HandlerFunc(serve))
			defer s.Close()
			check(t, s.Listener.Addr().String(), "permessage-deflate")
		})
	}
	eachServer(t, func(t *testing.T, address string) { check(t, address, "") })
}

// TestClientHTTPServer: the answers of servers that do not speak WebSocket.
func TestClientHTTPServer(t *testing.T) {
	s := httptest.NewServer(http.RedirectHandler("/elsewhere", http.StatusTemporaryRedirect))
	defer s.Close()
	h, _, err := greet(t, s.Listener.Addr().String(), nil)
	e, ok := errors.AsType[*wire.HandshakeError](err)
	if !ok || e.Status != 307 || e.Header.Get("Location") != "/elsewhere" || !bytes.Contains(e.Body, []byte("/elsewhere")) {
		t.Errorf("got %v", err)
	}
	if h.Response() != nil {
		t.Error("there is a response")
	}
}
