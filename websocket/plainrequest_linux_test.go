package websocket_test

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/sluice-push/sluice/websocket"
)

// browser is a request as Chromium sends it.
const browser = "GET /connection/websocket?format=json&a=%20 HTTP/1.1\r\nHost: [::1]:8000\r\nConnection: Upgrade\r\nPragma: no-cache\r\n" +
	"User-Agent: Mozilla/5.0 (X11; Linux x86_64)\r\nUpgrade: websocket\r\nOrigin: http://a.example:8000\r\nSec-WebSocket-Version: 13\r\n" +
	"Accept-Encoding: gzip, deflate, br, zstd\r\nCookie: a=\"b\"; c=\xc3\xa9\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"

// notPlain are requests that net/http refuses, redirects, or reads in another way than they look.
var notPlain = map[string]string{
	"space before the colon": upgradeRequest("/taken", "Transfer-Encoding : chunked\r\n", ""),
	"chunked":                upgradeRequest("/taken", "Transfer-Encoding: chunked\r\n", ""),
	"escaped path":           upgradeRequest("/%74aken", "", ""),
	"escaped slash":          upgradeRequest("/connection%2fwebsocket", "", ""),
	"doubled slash":          upgradeRequest("//taken", "", ""),
	"dots":                   upgradeRequest("/a/../taken", "", ""),
	"absolute target":        upgradeRequest("http://b/taken", "", ""),
	"no path":                upgradeRequest("*", "", ""),
	"expectation":            upgradeRequest("/taken", "Expect: xyz\r\n", ""),
	"continue":               upgradeRequest("/taken", "Expect: 100-continue\r\n", ""),
	"bare line feeds":        upgradeRequest("/taken", "", "")[:len(upgradeRequest("/taken", "", ""))-4] + "\n\nGET /taken HTTP/1.1\r\n\r\n",
	"bare line feed":         upgradeRequest("/taken", "A: b\nC: d\r\n", ""),
	"bare carriage return":   upgradeRequest("/taken", "A: b\rC: d\r\n", ""),
	"folded field":           upgradeRequest("/taken", "A: b\r\n c\r\n", ""),
	"field without a name":   upgradeRequest("/taken", ": b\r\n", ""),
	"strange name":           upgradeRequest("/taken", "A(: b\r\n", ""),
	"zero byte":              upgradeRequest("/taken", "A: \x00\r\n", ""),
	"two hosts":              upgradeRequest("/taken", "hOST: b\r\n", ""),
	"strange host":           strings.Replace(upgradeRequest("/taken", "", ""), "Host: a", "Host: a/b", 1),
	"space after the target": strings.Replace(upgradeRequest("/taken", "", ""), " HTTP", "  HTTP", 1),
	"lower case protocol":    strings.Replace(upgradeRequest("/taken", "", ""), "HTTP", "http", 1),
	"length of nothing":      upgradeRequest("/taken", "Content-Length: 0\r\n", ""),
}

// Requests of browsers are served in place. Ambiguous requests are left to net/http.
func TestPlain(t *testing.T) {
	for name, text := range map[string]string{"browser": browser, "short": upgradeRequest("/taken", "", "")} {
		if websocket.ParseUpgrade([]byte(text)) == nil {
			t.Errorf("%s is left to net/http", name)
		}
	}
	for name, text := range notPlain {
		if r := websocket.ParseUpgrade([]byte(text)); r != nil {
			t.Errorf("%s is taken for %s %s", name, r.Method, r.RequestURI)
		}
	}
}

// A request that is served in place is the one that net/http would pass to its handler, and no byte follows it.
func FuzzSameAsNetHTTP(f *testing.F) {
	f.Add([]byte(browser))
	for _, text := range notPlain {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if len(text) > websocket.MaxUpgradeRequest {
			return
		}
		got := websocket.ParseUpgrade(text)
		if got == nil {
			return
		}
		want, rest := served(text)
		if want == nil {
			t.Fatalf("net/http refuses %q", text)
		}
		if len(rest) > 0 {
			t.Errorf("%q follows for net/http", rest)
		}
		if got.Method != want.Method || got.RequestURI != want.RequestURI || got.Host != want.Host || got.Proto != want.Proto ||
			!reflect.DeepEqual(got.URL, want.URL) || !reflect.DeepEqual(got.Header, want.Header) {
			t.Errorf("%q is\n%s %s %s %v, for net/http\n%s %s %s %v", text, got.Method, got.URL, got.Host, got.Header,
				want.Method, want.URL, want.Host, want.Header)
		}
	})
}

// served has a net/http server read text, and returns the request that reaches its handler and what follows; nil if none does.
func served(text []byte) (r *http.Request, rest []byte) {
	conn := &fakeConn{in: bytes.NewReader(text), closed: make(chan struct{})}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /", func(w http.ResponseWriter, in *http.Request) {
		taken, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		r = in
		rest, _ = io.ReadAll(rw.Reader)
		_ = taken.Close()
	})
	s := &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}
	_ = s.Serve(&oneListener{conn: conn}) // ends once the only connection is closed
	return r, rest
}

// oneListener accepts one connection, and fails once that is closed.
type oneListener struct {
	conn     *fakeConn
	accepted bool
}

func (l *oneListener) Accept() (net.Conn, error) {
	if l.accepted {
		<-l.conn.closed
		return nil, errors.New("no more connections")
	}
	l.accepted = true
	return l.conn, nil
}

func (l *oneListener) Close() error { return nil }

func (l *oneListener) Addr() net.Addr { return &net.TCPAddr{} }

// fakeConn is a connection whose peer has sent everything and reads everything.
type fakeConn struct {
	net.TCPConn
	in     *bytes.Reader
	closed chan struct{}
	over   bool
}

func (c *fakeConn) Read(p []byte) (int, error)       { return c.in.Read(p) }
func (c *fakeConn) Write(p []byte) (int, error)      { return len(p), nil }
func (c *fakeConn) RemoteAddr() net.Addr             { return &net.TCPAddr{} }
func (c *fakeConn) LocalAddr() net.Addr              { return &net.TCPAddr{} }
func (c *fakeConn) SetDeadline(time.Time) error      { return nil }
func (c *fakeConn) SetReadDeadline(time.Time) error  { return nil }
func (c *fakeConn) SetWriteDeadline(time.Time) error { return nil }
func (c *fakeConn) CloseWrite() error                { return nil }

func (c *fakeConn) Close() error {
	if !c.over {
		c.over = true
		close(c.closed)
	}
	return nil
}
