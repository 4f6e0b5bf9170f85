package wire_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/sluice-push/sluice/websocket/wire"
)

// httpRequest parses a request as net/http does.
func httpRequest(t *testing.T, request string) *http.Request {
	t.Helper()
	r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(request)))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestUpgradeChecks: Upgrade refuses the requests that the raw parser refuses, unless net/http has handled them before.
func TestUpgradeChecks(t *testing.T) {
	for _, tt := range []struct {
		name, request string
		status        int
	}{
		{"POST", request("POST / HTTP/1.1"), 405},
		{"HTTP/1.0", request("GET / HTTP/1.0"), 505},
		{"body", request("Content-Length: 5") + "hello", 400},
		{"chunked body", request("Transfer-Encoding: chunked") + "0\r\n\r\n", 400},
		{"no Host", request("-Host"), 400},
		{"no Upgrade", request("-Upgrade"), 426},
		{"old version", request("Sec-WebSocket-Version: 8"), 426},
		{"short key", request("Sec-WebSocket-Key: x"), 400},
		{"two keys", twice("Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="), 400},
		{"foreign origin", request("Origin: https://evil.example.com"), 403},
		{"a server that cannot be taken over", request(), 500},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := httptest.NewRecorder()
			up, err := wire.Upgrade(w, httpRequest(t, tt.request), nil)
			refusal, ok := errors.AsType[*wire.Refusal](err)
			if !ok || refusal.Status != tt.status || up != nil || w.Code != tt.status {
				t.Fatalf("returned %v, %v, answered %d; want %d", up, err, w.Code, tt.status)
			}
			if w.Header().Get("Connection") == "" || w.Body.Len() == 0 {
				t.Errorf("answered %v %q", w.Header(), w.Body)
			}
			if tt.status == 500 && !errors.Is(err, http.ErrNotSupported) {
				t.Errorf("the cause is lost: %v", err)
			}
		})
	}
}

// TestUpgradeHTTP2: the answer must not end a connection that carries other requests.
func TestUpgradeHTTP2(t *testing.T) {
	r := httpRequest(t, request())
	r.Proto, r.ProtoMajor, r.ProtoMinor = "HTTP/2.0", 2, 0
	w := httptest.NewRecorder()
	if _, err := wire.Upgrade(w, r, nil); err == nil || w.Code != 505 || w.Header().Get("Connection") != "" {
		t.Errorf("returned %v, answered %d %v", err, w.Code, w.Header())
	}
}

// wrapped is a ResponseWriter of middleware, with Unwrap.
type wrapped struct{ http.ResponseWriter }

func (w wrapped) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// TestUpgradeConn: frames sent together with the request are not lost, and Upgrade works behind middleware with Unwrap.
func TestUpgradeConn(t *testing.T) {
	got := make(chan outcome, 1)
	failed := make(chan error, 1)
	stream := client(fin|ping, "early") + client(fin|text, "bird")
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		up, err := wire.Upgrade(wrapped{w}, r, &wire.Options{Subprotocols: []string{"chat"}, Opcode: wire.OpBinary})
		if err != nil {
			failed <- err
			return
		}
		defer func() { _ = up.Conn.Close() }()
		in := append(up.Unread, make([]byte, len(stream)-len(up.Unread))...)
		if _, err := io.ReadFull(up.Conn, in[len(up.Unread):]); err != nil {
			failed <- err
			return
		}
		if up.Request.Path != "/chat" || up.Codec.Subprotocol() != "chat" {
			failed <- errors.New("wrong request: " + up.Request.Path + " " + up.Codec.Subprotocol())
			return
		}
		got <- feed(t, up.Codec, in, false, func() int { return len(in) })
	}))
	defer s.Close()

	conn := dial(t, s.Listener.Addr())
	if _, err := io.WriteString(conn, request("Sec-WebSocket-Protocol: chat")+stream); err != nil {
		t.Fatal(err)
	}
	response := make([]byte, len(acceptance("Sec-WebSocket-Protocol: chat")))
	if _, err := io.ReadFull(conn, response); err != nil || string(response) != acceptance("Sec-WebSocket-Protocol: chat") {
		t.Fatalf("response %q, %v", response, err)
	}
	select {
	case err := <-failed:
		t.Fatal(err)
	case out := <-got:
		if len(out.messages) != 1 || out.messages[0].data != "bird" || out.replies != server(fin|pong, "early") {
			t.Errorf("got %v", out)
		}
	case <-time.After(testTimeout):
		t.Fatal("the upgraded connection was not handled")
	}
}

// dial connects, bounded in time, and closes when the test ends.
func dial(t *testing.T, addr net.Addr) net.Conn {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, addr.Network(), addr.String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(testTimeout)); err != nil {
		t.Fatal(err)
	}
	return conn
}

// fakeHijack returns a connection that cannot be written.
type fakeHijack struct {
	*httptest.ResponseRecorder
	conn net.Conn
}

func (f fakeHijack) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return f.conn, bufio.NewReadWriter(bufio.NewReader(f.conn), bufio.NewWriter(f.conn)), nil
}

// TestUpgradeBrokenConn: if the connection fails during the response, Upgrade returns that error.
func TestUpgradeBrokenConn(t *testing.T) {
	here, there := net.Pipe()
	_ = there.Close()
	up, err := wire.Upgrade(fakeHijack{httptest.NewRecorder(), here}, httpRequest(t, request()), nil)
	if up != nil || !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("returned %v, %v", up, err)
	}
}

// deadlineConn accepts all writes. It records the deadline of the write and the current deadline.
type deadlineConn struct {
	net.Conn
	broken    error
	closed    bool
	then, now time.Time
}

func (c *deadlineConn) SetDeadline(t time.Time) error {
	c.now = t
	return c.broken
}

func (c *deadlineConn) Write(p []byte) (int, error) {
	c.then = c.now
	return len(p), nil
}

func (c *deadlineConn) Close() error {
	c.closed = true
	return c.Conn.Close()
}

// TestUpgradeDeadlines: the response is bounded in time, and afterwards the connection has no deadline, also if net/http had set one.
func TestUpgradeDeadlines(t *testing.T) {
	here, there := net.Pipe()
	defer func() { _ = there.Close() }()
	conn := &deadlineConn{Conn: here, now: time.Now()}
	up, err := wire.Upgrade(fakeHijack{httptest.NewRecorder(), conn}, httpRequest(t, request()), nil)
	if err != nil || up.Conn != net.Conn(conn) {
		t.Fatalf("returned %v, %v", up, err)
	}
	if conn.then.IsZero() || !conn.now.IsZero() {
		t.Errorf("deadline during the response %v, afterwards %v", conn.then, conn.now)
	}
	conn.broken = net.ErrClosed
	if _, err := wire.Upgrade(fakeHijack{httptest.NewRecorder(), conn}, httpRequest(t, request()), nil); !errors.Is(err, net.ErrClosed) || !conn.closed {
		t.Errorf("a connection that takes no deadline: %v, closed %t", err, conn.closed)
	}
}

// recordingConn records the bytes that are written to it.
type recordingConn struct {
	net.Conn
	wrote bytes.Buffer
}

func (c *recordingConn) Write(p []byte) (int, error) { return c.wrote.Write(p) }
func (c *recordingConn) SetDeadline(time.Time) error { return nil }

// The fields that middleware has set on the ResponseWriter reach the client, except fields that the handshake sets itself. The options do not
// change.
func TestUpgradeKeepsHeaders(t *testing.T) {
	o := &wire.Options{Header: http.Header{"X-Own": {"own"}}}
	conn := &recordingConn{}
	w := fakeHijack{httptest.NewRecorder(), conn}
	for name, value := range map[string]string{
		"Set-Cookie": "a=b", "X-Own": "other", "Connection": "close", "Sec-WebSocket-Accept": "no", "X-Bad": "a\r\nb", "Content-Length": "5",
	} {
		w.Header().Set(name, value)
	}
	if _, err := wire.Upgrade(w, httpRequest(t, request()), o); err != nil {
		t.Fatal(err)
	}
	got := conn.wrote.String()
	for _, want := range []string{"\r\nSet-Cookie: a=b\r\n", "\r\nX-Own: own\r\n", "\r\nConnection: Upgrade\r\n"} {
		if strings.Count(got, want) != 1 {
			t.Errorf("%q is not there once: %q", want, got)
		}
	}
	for _, not := range []string{"other", "close", "Accept: no", "\r\nb", "Content-Length"} {
		if strings.Contains(got, not) {
			t.Errorf("%q is there: %q", not, got)
		}
	}
	if len(o.Header) != 1 {
		t.Errorf("the options are changed: %v", o.Header)
	}
}

// opaque is a ResponseWriter of middleware without Unwrap.
type opaque struct{ http.ResponseWriter }

// If a ResponseWriter does not give its connection away, the refusal states the missing method.
func TestUpgradeWithoutHijack(t *testing.T) {
	rec := httptest.NewRecorder()
	_, err := wire.Upgrade(opaque{rec}, httpRequest(t, request()), nil)
	if err == nil || !strings.Contains(err.Error(), "Unwrap() http.ResponseWriter") || !strings.Contains(err.Error(), "wire_test.opaque") {
		t.Errorf("%v", err)
	}
	if rec.Code != http.StatusInternalServerError || strings.Contains(rec.Body.String(), "Unwrap") {
		t.Errorf("the client is told %d %s", rec.Code, rec.Body)
	}
}
