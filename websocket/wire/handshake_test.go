package wire_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"github.com/sluice-push/sluice/websocket/wire"
)

// handshakeLines is a browser's request, one line in each element, without line ends.
func handshakeLines() []string {
	return []string{
		"GET /chat?room=1 HTTP/1.1",
		"Host: server.example.com",
		"Upgrade: websocket",
		"Connection: Upgrade",
		"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
		"Sec-WebSocket-Version: 13",
	}
}

// request joins lines to a request. Each edit replaces the line that begins with the same name, or is added; "-name" removes.
func request(edits ...string) string {
	lines := handshakeLines()
	for _, edit := range edits {
		name, _, _ := strings.Cut(strings.TrimPrefix(edit, "-"), ":")
		kept := lines[:0:0]
		done := false
		for i, line := range lines {
			switch old, _, _ := strings.Cut(line, ":"); {
			case old != name && (i > 0 || !strings.Contains(edit, " HTTP/")):
				kept = append(kept, line)
			case edit[0] != '-':
				kept, done = append(kept, edit), true
			}
		}
		if lines = kept; !done && edit[0] != '-' {
			lines = append(lines, edit)
		}
	}
	return strings.Join(lines, "\r\n") + "\r\n\r\n"
}

// twice returns a request in which a line occurs two times.
func twice(line string) string {
	return strings.Replace(request(line), "\r\n", "\r\n"+line+"\r\n", 1)
}

// acceptance is the response to handshakeLines with further fields (RFC 6455 §1.3 has the key's answer).
func acceptance(fields ...string) string {
	return strings.Join(append([]string{
		"HTTP/1.1 101 Switching Protocols", "Upgrade: websocket", "Connection: Upgrade",
		"Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=",
	}, fields...), "\r\n") + "\r\n\r\n"
}

// TestHandshakeAccepted: requests in all permitted forms, followed by frames.
func TestHandshakeAccepted(t *testing.T) {
	for _, tt := range []struct{ name, request string }{
		{"§1.3 example", request()},
		{"names in any case", strings.NewReplacer("Sec-WebSocket-Key", "SEC-WEBSOCKET-KEY", "Upgrade:", "upgrade:", "Host", "hOST").Replace(request())},
		{"§4.2.1 Upgrade in any case", request("Upgrade: WebSocket")},
		{"§4.2.1 Upgrade among others", request("Upgrade: h2c, websocket")},
		{"§4.2.1 Connection in a list", request("Connection: keep-alive, ,\tUPGRADE ")},
		{"§4.2.1 Connection in two lines", strings.Replace(request(), "Connection:", "Connection: keep-alive\r\nConnection:", 1)},
		{"no space behind the colon", strings.ReplaceAll(request(), ": ", ":")},
		{"white space around values", strings.NewReplacer(": ", ":\t ", "Upgrade\r\n", "Upgrade \t\r\n").Replace(request())},
		{"empty value", request("X-Empty:")},
		{"bytes above ASCII in a value", request("X-Name: J\xfcrgen")},
		{"absolute form", request("GET http://server.example.com/chat?room=1 HTTP/1.1")},
		{"no body, said aloud", request("Content-Length: 0")},
		{"same origin", request("Origin: https://SERVER.example.com")},
		{"subprotocols that nobody here speaks", request("Sec-WebSocket-Protocol: chat, superchat")},
		{"extensions that nobody here speaks", request("Sec-WebSocket-Extensions: permessage-deflate; client_max_window_bits")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			stream := tt.request + client(fin|ping, "p") + client(fin|text, "hello")
			want := outcome{
				messages: []message{{true, "hello"}}, used: len(stream),
				replies: acceptance() + server(fin|pong, "p"),
			}
			got := agree(t, func() *wire.Codec { return wire.NewHandshake(nil) }, []byte(stream))
			if !reflect.DeepEqual(got, want) {
				t.Errorf("got\n%v\nwant\n%v", got, want)
			}
		})
	}
}

// refused is a request and the status of its refusal.
type refused struct {
	name, request string
	status        int
}

// TestHandshakeMalformed: each rule for the form of the request is broken once, with nothing behind the line that breaks it.
func TestHandshakeMalformed(t *testing.T) {
	const first = "GET / HTTP/1.1\r\n"
	testRefused(t, []refused{
		{"not HTTP", "\x16\x03\x01\x02\x00\x01\n", 400},
		{"empty line first", "\r\n" + request(), 400},
		{"request line without version", "GET /\r\n", 400},
		{"two spaces", "GET  / HTTP/1.1\r\n", 400},
		{"space at the end", "GET / HTTP/1.1 \r\n", 400},
		{"method in lower case", "get / HTTP/1.1\r\n", 405},
		{"method is no token", "GE(T / HTTP/1.1\r\n", 400},
		{"§4.1 POST", "POST / HTTP/1.1\r\n", 405},
		{"§4.1 HTTP/1.0", "GET / HTTP/1.0\r\n", 505},
		{"HTTP/2.0", "PRI * HTTP/2.0\r\n", 505},
		{"another protocol", "GET / RTSP/1.0\r\n", 400},
		{"version in lower case", "GET / http/1.1\r\n", 400},
		{"control character in the target", "GET /\x01 HTTP/1.1\r\n", 400},
		{"§3 fragment in the target", "GET /#x HTTP/1.1\r\n", 400},
		{"LF alone", "GET / HTTP/1.1\n", 400},
		{"CR alone", first + "A: b\rC: d\r\n", 400},
		{"two CR", first + "A: b\r\r\n", 400},
		{"NUL in a value", first + "A: \x00\r\n", 400},
		{"DEL in a value", first + "A: \x7f\r\n", 400},
		{"RFC 9112 §5.1 space before the colon", first + "Host : x\r\n", 400},
		{"RFC 9112 §5.2 folded line", first + "A: b\r\n c\r\n", 400},
		{"RFC 9112 §2.2 space before the first field", first + " Host: x\r\n", 400},
		{"line without colon", first + "Host\r\n", 400},
		{"field without name", first + ": x\r\n", 400},
	})
}

// TestHandshakeRefused: each rule for the fields of the request is broken once.
func TestHandshakeRefused(t *testing.T) {
	testRefused(t, []refused{
		{"bad escape in the target", request("GET /%zz HTTP/1.1"), 400},
		{"target without slash", request("GET chat HTTP/1.1"), 400},
		{"asterisk form", request("GET * HTTP/1.1"), 400},
		{"absolute form of another scheme", request("GET ftp://server.example.com/ HTTP/1.1"), 400},
		{"absolute form without host", request("GET http:///chat HTTP/1.1"), 400},
		{"absolute form with a user", request("GET http://me@server.example.com/ HTTP/1.1"), 400},
		{"RFC 9112 §3.2 no Host", request("-Host"), 400},
		{"empty Host", request("Host:"), 400},
		{"RFC 9112 §3.2 two Hosts", twice("host: server.example.com"), 400},
		{"Host with a path", request("Host: a/b"), 400},
		{"body", request("Content-Length: 5"), 400},
		{"two lengths", twice("Content-Length: 0"), 400},
		{"chunked body", request("Transfer-Encoding: chunked"), 400},
		{"§4.2.1 no Upgrade", request("-Upgrade"), 426},
		{"§4.2.1 Upgrade to something else", request("Upgrade: websockets"), 426},
		{"Upgrade with a Kelvin sign", request("Upgrade: websoc\u212aet"), 426},
		{"§4.2.1 no Connection", request("-Connection"), 426},
		{"§4.2.1 Connection without upgrade", request("Connection: keep-alive"), 426},
		{"§4.4 no version", request("-Sec-WebSocket-Version"), 426},
		{"§4.4 old version", request("Sec-WebSocket-Version: 8"), 426},
		{"§4.4 several versions", request("Sec-WebSocket-Version: 13, 8"), 426},
		{"§4.2.1 no key", request("-Sec-WebSocket-Key"), 400},
		{"§4.2.1 short key", request("Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ="), 400},
		{"§4.2.1 key of 17 bytes", request("Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQA="), 400},
		{"§4.2.1 key that is not base64", request("Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ?="), 400},
		{"§4.2.1 two keys", twice("Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="), 400},
		{"§4.1 subprotocol that is no token", request("Sec-WebSocket-Protocol: chat, super chat"), 400},
		{"two origins", twice("Origin: https://server.example.com"), 400},
		{"§10.2 origin of another host", request("Origin: https://evil.example.com"), 403},
		{"§10.2 origin of a subdomain", request("Origin: https://x.server.example.com"), 403},
		{"§10.2 origin without host", request("Origin: null"), 403},
	})
}

// testRefused feeds each request and checks the refusal on both sides.
func testRefused(t *testing.T, cases []refused) {
	for _, tt := range cases {
		t.Run(tt.name, func(t *testing.T) {
			open := func() *wire.Codec { return wire.NewHandshake(nil) }
			got := agree(t, open, []byte(tt.request))
			checkRefusal(t, got.replies, tt.status)
			if more := agree(t, open, []byte(tt.request+request())); more.String() != got.String() {
				t.Errorf("with bytes behind it\n%v\nwithout\n%v", more, got)
			}
			c := open()
			_, _, err := c.Decode([]byte(tt.request))
			if refusal, ok := errors.AsType[*wire.Refusal](err); !ok || refusal.Status != tt.status {
				t.Errorf("Decode returned %v, want status %d", err, tt.status)
			}
			if _, err := c.AppendEncode(nil, nil); !errors.Is(err, wire.ErrCloseSent) {
				t.Errorf("AppendEncode after a refusal: %v", err)
			}
		})
	}
}

// checkRefusal reads a refusal as a client does.
func checkRefusal(t *testing.T, response string, status int) {
	t.Helper()
	r := bufio.NewReader(strings.NewReader(response))
	res, err := http.ReadResponse(r, nil)
	if err != nil {
		t.Fatalf("response %q: %v", response, err)
	}
	defer func() { _ = res.Body.Close() }()
	var body bytes.Buffer
	if _, err := body.ReadFrom(res.Body); err != nil || !strings.HasSuffix(body.String(), "\n") || body.Len() < 4 {
		t.Errorf("body %q, %v", &body, err)
	}
	if res.StatusCode != status || !res.Close || r.Buffered() != 0 {
		t.Errorf("status %d, close %t, %d bytes behind; want status %d", res.StatusCode, res.Close, r.Buffered(), status)
	}
	if status == 426 && (res.Header.Get("Sec-WebSocket-Version") != "13" || res.Header.Get("Upgrade") != "websocket") {
		t.Errorf("status 426 does not say to what: %v", res.Header)
	}
	if status == 405 && res.Header.Get("Allow") != "GET" {
		t.Errorf("status 405 does not say what is allowed: %v", res.Header)
	}
}

// TestHandshakeLimits: the limits are exact to the byte and to the line, and a request is refused as soon as it reaches one.
func TestHandshakeLimits(t *testing.T) {
	pad := func(n int) string { // a request of n bytes
		const name = "X-Pad: "
		return request(name + strings.Repeat("x", n-len(request())-len(name)-2))
	}
	lines := func(n int) string { // a request of n header lines
		return strings.Replace(request(), "Host:", strings.Repeat("A: b\r\n", n-5)+"Host:", 1)
	}
	for _, tt := range []struct {
		name, stream string
		options      *wire.Options
		ok           bool
	}{
		{"default bytes", pad(8192), nil, true},
		{"default bytes and one", pad(8193), nil, false},
		{"endless line", strings.Repeat("x", 8192), nil, false},
		{"own bytes", pad(300), &wire.Options{MaxHeaderBytes: 300}, true},
		{"own bytes and one", pad(301), &wire.Options{MaxHeaderBytes: 300}, false},
		{"no limit of bytes", pad(100_000), &wire.Options{MaxHeaderBytes: -1}, true},
		{"default lines", lines(100), nil, true},
		{"default lines and one", lines(101), nil, false},
		{"own lines", lines(7), &wire.Options{MaxHeaderLines: 7}, true},
		{"own lines and one", lines(8), &wire.Options{MaxHeaderLines: 7}, false},
		{"no limit of lines", lines(500), &wire.Options{MaxHeaderLines: -1}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := agree(t, func() *wire.Codec { return wire.NewHandshake(tt.options) }, []byte(tt.stream))
			if tt.ok != (got.verdict == "") {
				t.Fatalf("%v", got)
			}
			if !tt.ok {
				checkRefusal(t, got.replies, http.StatusRequestHeaderFieldsTooLarge)
			}
		})
	}
}

// TestRequest checks the Request that Options.Accept gets.
func TestRequest(t *testing.T) {
	var got *wire.Request
	c := wire.NewHandshake(&wire.Options{Accept: func(r *wire.Request, _ *wire.Response) error {
		got = r
		return nil
	}})
	in := request("GET /a%20b?c=%64 HTTP/1.1", "Host: example.com:8000", "Origin: http://example.com:8000",
		"Sec-WebSocket-Protocol: one ,two", "cookie: a=b", "Cookie: c=d")
	if _, n, err := c.Decode([]byte(in)); n != len(in) || err != nil {
		t.Fatalf("Decode returned %d, %v", n, err)
	}
	fields := fmt.Sprint(got.Target, got.Path, got.RawQuery, got.Host, got.Origin, got.Protocols, got.Header["Cookie"], got.Header["Host"])
	want := fmt.Sprint("/a%20b?c=%64", "/a b", "c=%64", "example.com:8000", "http://example.com:8000", []string{"one", "two"},
		[]string{"a=b", "c=d"}, []string(nil))
	if fields != want {
		t.Errorf("got  %s\nwant %s", fields, want)
	}
}
