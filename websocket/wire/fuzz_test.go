package wire_test

import (
	"bufio"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"

	"github.com/sluice-push/sluice/websocket/wire"
)

// FuzzDecode: the result does not depend on how a stream is cut, and the size of the replies is bounded by the size of the stream.
func FuzzDecode(f *testing.F) {
	for _, seed := range []string{
		client(fin|text, "Hello") + client(fin|bin, "\xff") + client(fin|text, ""),
		client(text, "\xf0\x9f") + client(fin|ping, "p") + client(cont, "\x98") + client(fin|cont, "\x80"),
		client(fin|closing, closeBody(1000, "bye")) + client(fin|text, "ignored"),
		client(fin|closing, "") + client(fin|ping, ""),
		client(fin|closing, "\x03"),
		client(fin|text, strings.Repeat("é", 200)),
		client(fin|text, strings.Repeat("é", 200)+"\xff")[:400],
		client(bin, "") + client(cont, "") + client(cont, "") + client(cont, "") + client(fin|cont, ""),
		client(bin, strings.Repeat("x", 999)) + client(fin|cont, "xx"),
		client(fin|ping, strings.Repeat("x", 125)) + client(fin|pong, ""),
		"\x82\xff\x7f\xff\xff\xff\xff\xff\xff\xff\x00\x00\x00\x00",
		"\x82\xfe\x00\x7d\x00\x00\x00\x00", "\x81\x05Hello", "\xc1\x80\x00\x00\x00\x00",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, stream []byte) {
		got := agree(t, func() *wire.Codec { return wire.New(limits) }, stream)
		total := 0
		for _, m := range got.messages {
			total += len(m.data)
			if len(m.data) > limits.MaxMessage {
				t.Errorf("a message of %d bytes", len(m.data))
			}
		}
		const closeFrame = 2 + 125
		if total > len(stream) || len(got.replies) > len(stream)+closeFrame {
			t.Errorf("%d bytes in, %d bytes of messages and %d bytes of replies out", len(stream), total, len(got.replies))
		}
	})
}

// FuzzHandshake: the result does not depend on how a request is cut. net/http reads an accepted request in the same way, so a proxy or server in
// between cannot have understood it differently.
func FuzzHandshake(f *testing.F) {
	for _, seed := range []string{
		request(), request("GET http://other/?a=b HTTP/1.1"), request("Origin: null", "Sec-WebSocket-Protocol: a, b"),
		request("Upgrade: h2c, WebSocket", "Connection: keep-alive, Upgrade"), request("X: \xff", "Y:", "Z: \t a\t b \t"),
		request("GET //a/../b%2f?%zz HTTP/1.1"), request("Host: [::1]:80"), request("Host: a:b:c"), request("Content-Length: 0"),
		request("Transfer-Encoding: identity"), request("Pragma: no-cache"), request("Trailer: X"), twice("Cookie: a"),
		request("Sec-WebSocket-Version: 8"), request("GET /\x00 HTTP/1.1"), request("A : b"), request(" A: b"), "\r\n" + request(),
		request("Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAB=="), strings.ReplaceAll(request(), "\r", ""), request("POST / HTTP/1.0"),
	} {
		f.Add([]byte(seed))
		f.Add([]byte(seed + client(fin|text, "behind")))
	}
	f.Fuzz(func(t *testing.T, stream []byte) {
		var req *wire.Request
		options := &wire.Options{Origins: []string{"*"}, MaxMessage: 1000, Accept: func(r *wire.Request, _ *wire.Response) error {
			req = r
			return nil
		}}
		got := agree(t, func() *wire.Codec { return wire.NewHandshake(options) }, stream)
		if req == nil {
			if strings.HasPrefix(got.replies, "HTTP/1.1 101 ") {
				t.Error("accepted without asking")
			}
			return
		}
		head := strings.Index(string(stream), "\r\n\r\n") + 4
		behind := bufio.NewReader(strings.NewReader(string(stream)))
		std, err := http.ReadRequest(behind)
		if err != nil {
			t.Fatalf("accepted what net/http refuses with %v", err)
		}
		if std.Method != http.MethodGet || std.Proto != "HTTP/1.1" || std.ContentLength != 0 {
			t.Errorf("accepted a request that is no plain GET: %s %s, body of %d bytes", std.Method, std.Proto, std.ContentLength)
		}
		if rest, err := io.ReadAll(behind); err != nil || string(rest) != string(stream[head:]) {
			t.Errorf("net/http leaves %q, %v, want %q", rest, err, stream[head:])
		}
		if std.RequestURI != req.Target || std.URL.Path != req.Path || std.URL.RawQuery != req.RawQuery || std.Host != req.Host {
			t.Errorf("%+v is %s %s %s %s to net/http", req, std.RequestURI, std.URL.Path, std.URL.RawQuery, std.Host)
		}
		std.Header.Del("Cache-Control") // net/http adds one for an old Pragma
		delete(req.Header, "Cache-Control")
		if !reflect.DeepEqual(std.Header, req.Header) {
			t.Errorf("header %v is %v to net/http", req.Header, std.Header)
		}
		if _, err := wire.Upgrade(httptest.NewRecorder(), std, options); !errors.Is(err, http.ErrNotSupported) {
			t.Errorf("Upgrade came to another verdict: %v", err) // a recorder cannot be taken over: all checks were passed
		}
	})
}
