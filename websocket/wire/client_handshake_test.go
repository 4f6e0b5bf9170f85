package wire_test

import (
	"bufio"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"reflect"
	"strings"
	"testing"

	"github.com/sluice-push/sluice/websocket/wire"
)

// rfcNonce is the key of the example in RFC 6455 §1.3, which acceptance answers.
const rfcNonce = "dGhlIHNhbXBsZSBub25jZQ=="

// offer holds the options of most tests here.
var offer = &wire.ClientOptions{Subprotocols: []string{"chat", "superchat"}, Extensions: `a, b;x="1,c;\"", b; y`}

// newClient returns a handshake with a known key.
func newClient(tb testing.TB, address string, o *wire.ClientOptions) *wire.ClientHandshake {
	tb.Helper()
	h, err := wire.NewClientHandshake(parseURL(tb, address), o)
	if err != nil {
		tb.Fatal(err)
	}
	h.SetKey(rfcNonce)
	return h
}

func parseURL(tb testing.TB, address string) *url.URL {
	tb.Helper()
	u, err := url.Parse(address)
	if err != nil {
		tb.Fatal(err)
	}
	return u
}

// clientOutcome is the visible result of a handshake that was fed a response, without the body of an error, which depends on the number of bytes
// that had arrived.
type clientOutcome struct {
	n        int
	response *wire.ClientResponse
	err      string
	failure  wire.HandshakeError
}

// feedClient feeds the stream to a new handshake in pieces; next chooses their sizes.
func feedClient(tb testing.TB, h *wire.ClientHandshake, stream string, next func() int) clientOutcome {
	tb.Helper()
	for have := 0; have < len(stream); {
		have = min(have+max(next(), 1), len(stream))
		n, err := h.Decode([]byte(stream[:have]))
		if err != nil {
			e, ok := errors.AsType[*wire.HandshakeError](err)
			if !ok || n != 0 || h.Response() != nil {
				tb.Fatalf("Decode returned %d, %v, with the response %v", n, err, h.Response())
			}
			if _, again := h.Decode([]byte(stream[:have])); again != err { //nolint:errorlint // the very same
				tb.Fatalf("after %v the next Decode returned %v", err, again)
			}
			if len(e.Body) > 1024 || !strings.Contains(stream[:have], string(e.Body)) {
				tb.Fatalf("body %q of %q", e.Body, stream[:have])
			}
			failure := *e
			failure.Body = nil
			return clientOutcome{err: err.Error(), failure: failure}
		}
		if n > 0 {
			if again, err := h.Decode([]byte(stream[:have])); again != 0 || err == nil {
				tb.Fatalf("Decode after the end returned %d, %v", again, err)
			}
			return clientOutcome{n: n, response: h.Response()}
		}
		if h.Response() != nil {
			tb.Fatal("there is a response before the end")
		}
	}
	return clientOutcome{}
}

// agreeClient feeds the stream whole, byte by byte and in random pieces. It requires the same outcome each time and returns it.
func agreeClient(tb testing.TB, o *wire.ClientOptions, stream string) clientOutcome {
	tb.Helper()
	open := func() *wire.ClientHandshake { return newClient(tb, "ws://server.example.com/chat", o) }
	whole := feedClient(tb, open(), stream, func() int { return len(stream) })
	compare := func(how string, got clientOutcome) {
		tb.Helper()
		if !reflect.DeepEqual(got, whole) {
			tb.Fatalf("fed %s:\n%+v\nfed whole:\n%+v", how, got, whole)
		}
	}
	if len(stream) <= 4096 {
		compare("byte by byte", feedClient(tb, open(), stream, func() int { return 1 }))
	}
	random := rand.New(rand.NewPCG(1, uint64(len(stream))))
	compare("at random places", feedClient(tb, open(), stream, func() int { return 1 + random.IntN(1+len(stream)/5) }))
	return whole
}

// TestClientRequest checks the whole request, for all kinds of URLs.
func TestClientRequest(t *testing.T) {
	lines := func(lines ...string) string { return strings.Join(lines, "\r\n") + "\r\n\r\n" }
	for _, tt := range []struct {
		name, address string
		options       *wire.ClientOptions
		want          string
	}{
		{"§1.2", "ws://server.example.com/chat", nil, lines("GET /chat HTTP/1.1", "Host: server.example.com")},
		{"no path", "wss://server.example.com", nil, lines("GET / HTTP/1.1", "Host: server.example.com")},
		{"query alone", "ws://h?a=%20b", nil, lines("GET /?a=%20b HTTP/1.1", "Host: h")},
		{"escapes", "ws://h/a%2fb?", nil, lines("GET /a%2fb? HTTP/1.1", "Host: h")},
		{"what has to be escaped", "ws://h/a b/ü", nil, lines("GET /a%20b/%C3%BC HTTP/1.1", "Host: h")},
		{"two slashes", "ws://h//x", nil, lines("GET //x HTTP/1.1", "Host: h")},
		{"default port of ws", "ws://h:80/", nil, lines("GET / HTTP/1.1", "Host: h")},
		{"default port of wss", "WSS://h:443/", nil, lines("GET / HTTP/1.1", "Host: h")},
		{"default port of http", "http://h:80/", nil, lines("GET / HTTP/1.1", "Host: h")},
		{"default port of https", "https://h:443/", nil, lines("GET / HTTP/1.1", "Host: h")},
		{"the other's port", "ws://h:443/", nil, lines("GET / HTTP/1.1", "Host: h:443")},
		{"empty port", "ws://h:/", nil, lines("GET / HTTP/1.1", "Host: h")},
		{"IPv6", "ws://[::1]:8000/", nil, lines("GET / HTTP/1.1", "Host: [::1]:8000")},
		{"IPv6 with a zone", "ws://[fe80::1%25eth0]/", nil, lines("GET / HTTP/1.1", "Host: [fe80::1]")},
		{
			"user", "ws://Aladdin:open%20sesame@h/", nil,
			lines("GET / HTTP/1.1", "Host: h", "Authorization: Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ=="),
		}, // RFC 7617 §2
		{"another host", "ws://h/", &wire.ClientOptions{Host: "other:81"}, lines("GET / HTTP/1.1", "Host: other:81")},
		{"empty user", "ws://@h/", nil, lines("GET / HTTP/1.1", "Host: h")},
		{"everything", "ws://h/", &wire.ClientOptions{
			Subprotocols: []string{"b", "a"}, Extensions: "x; y=1", Origin: "https://h",
			Header: http.Header{"cookie": {"a=b", "c=d"}, "Authorization": {"Bearer x"}, "X-Empty": {""}, "X-None": nil},
		}, lines("GET / HTTP/1.1", "Host: h", "Sec-WebSocket-Protocol: b, a", "Sec-WebSocket-Extensions: x; y=1", "Origin: https://h",
			"Authorization: Bearer x", "X-Empty: ", "cookie: a=b", "cookie: c=d")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			const fixed = "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: " + rfcNonce + "\r\n"
			i := strings.Index(tt.want, "Host")
			i += strings.Index(tt.want[i:], "\n") + 1
			want := "before" + tt.want[:i] + fixed + tt.want[i:]
			if got := newClient(t, tt.address, tt.options).AppendRequest([]byte("before")); string(got) != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		})
	}
	byHand := &url.URL{Scheme: "ws", Host: "h", Path: "chat"}
	h, err := wire.NewClientHandshake(byHand, nil)
	if err != nil || !strings.HasPrefix(string(h.AppendRequest(nil)), "GET /chat HTTP/1.1\r\n") {
		t.Errorf("path without slash: %v", err)
	}
}

// TestClientKey: every handshake has its own key, and a server accepts its form.
func TestClientKey(t *testing.T) {
	seen := make(map[string]bool)
	for range 100 {
		h, err := wire.NewClientHandshake(parseURL(t, "ws://server.example.com"), nil)
		if err != nil {
			t.Fatal(err)
		}
		request := h.AppendRequest(nil)
		if seen[string(request)] {
			t.Fatal("a key came twice")
		}
		seen[string(request)] = true
		c := wire.NewHandshake(nil)
		if _, n, err := c.Decode(request); n != len(request) || err != nil {
			t.Fatalf("the server says %d, %v", n, err)
		}
		answer := c.AppendReplies(nil)
		if n, err := h.Decode(answer); n != len(answer) || err != nil {
			t.Fatalf("the client says %d, %v", n, err)
		}
	}
}

// TestClientRefusesToSend: options that are invalid in a request are errors, and no part of them can become a line of its own.
func TestClientRefusesToSend(t *testing.T) {
	plain := "ws://server.example.com/"
	header := func(name, value string) *wire.ClientOptions {
		return &wire.ClientOptions{Header: http.Header{name: {value}}}
	}
	for _, tt := range []struct {
		name    string
		u       *url.URL
		options *wire.ClientOptions
		want    string
	}{
		{"no scheme", parseURL(t, "//h/"), nil, "scheme"},
		{"another scheme", parseURL(t, "ftp://h/"), nil, "scheme"},
		{"no host", parseURL(t, "ws:///chat"), nil, "no host"},
		{"port alone", parseURL(t, "ws://:80/"), nil, "no host"},
		{"opaque", parseURL(t, "ws:h"), nil, "no host"},
		{"§3 fragment", parseURL(t, "ws://h/#x"), nil, "fragment"},
		{"international host", parseURL(t, "ws://bücher.example/"), nil, "Punycode"},
		{"line end in the host", &url.URL{Scheme: "ws", Host: "a\r\nb"}, nil, "host"},
		{"line end in the zone", &url.URL{Scheme: "ws", Host: "[::1%\r\n]"}, nil, "host"},
		{"space in the query", &url.URL{Scheme: "ws", Host: "h", RawQuery: "a b"}, nil, "escaped"},
		{"line end in the query", &url.URL{Scheme: "ws", Host: "h", RawQuery: "\r\n"}, nil, "escaped"},
		{"hash in the query", &url.URL{Scheme: "ws", Host: "h", RawQuery: "#"}, nil, "escaped"},
		{"RFC 7617 §2 colon in the user", parseURL(t, "ws://a%3Ab:c@h/"), nil, "colon"},
		{"user twice", parseURL(t, "ws://a:b@h/"), header("authorization", "x"), "one of them"},
		{"empty subprotocol", parseURL(t, plain), &wire.ClientOptions{Subprotocols: []string{""}}, "subprotocol"},
		{"subprotocol that is no token", parseURL(t, plain), &wire.ClientOptions{Subprotocols: []string{"a, b"}}, "subprotocol"},
		{"§4.1 subprotocol twice", parseURL(t, plain), &wire.ClientOptions{Subprotocols: []string{"a", "b", "a"}}, "subprotocol"},
		{"extensions without a name", parseURL(t, plain), &wire.ClientOptions{Extensions: "; a"}, "extensions"},
		{"empty list of extensions", parseURL(t, plain), &wire.ClientOptions{Extensions: " , "}, "extensions"},
		{"extension without its parameter", parseURL(t, plain), &wire.ClientOptions{Extensions: "a; "}, "extensions"},
		{"open quote", parseURL(t, plain), &wire.ClientOptions{Extensions: `a; b="\"`}, "extensions"},
		{"quote that ends in a backslash", parseURL(t, plain), &wire.ClientOptions{Extensions: `a; b="\`}, "extensions"},
		{"line end in the extensions", parseURL(t, plain), &wire.ClientOptions{Extensions: "a; b\r\nc"}, "extensions"},
		{"line end in the origin", parseURL(t, plain), &wire.ClientOptions{Origin: "a\nb"}, "origin"},
		{"name with a space", parseURL(t, plain), header("a b", ""), "token"},
		{"empty name", parseURL(t, plain), header("", "x"), "token"},
		{"line end in a value", parseURL(t, plain), header("X", "a\r\nb: c"), "one line"},
		{"NUL in a value", parseURL(t, plain), header("X", "\x00"), "one line"},
		{"Host", parseURL(t, plain), header("host", "x"), "set by"},
		{"Upgrade", parseURL(t, plain), header("Upgrade", "x"), "set by"},
		{"Connection", parseURL(t, plain), header("CONNECTION", "x"), "set by"},
		{"Origin", parseURL(t, plain), header("Origin", "x"), "set by"},
		{"key", parseURL(t, plain), header("sec-websocket-key", "x"), "set by"},
		{"subprotocol as a field", parseURL(t, plain), header("Sec-WebSocket-Protocol", "x"), "set by"},
		{"length", parseURL(t, plain), header("Content-Length", "1"), "body"},
		{"chunked", parseURL(t, plain), header("Transfer-Encoding", "chunked"), "body"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h, err := wire.NewClientHandshake(tt.u, tt.options)
			if h != nil || err == nil || !strings.HasPrefix(err.Error(), "websocket: handshake: ") || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, %v; want an error about %q", h, err, tt.want)
			}
		})
	}
}

// answer joins the lines of a response: acceptance with edits as request has them.
func answer(edits ...string) string {
	lines := strings.Split(strings.TrimSuffix(acceptance(), "\r\n\r\n"), "\r\n")
	for _, edit := range edits {
		name, _, _ := strings.Cut(strings.TrimPrefix(edit, "-"), ":")
		kept := lines[:0:0]
		for i, line := range lines {
			if old, _, _ := strings.Cut(line, ":"); old != name && (i > 0 || !strings.HasPrefix(edit, "HTTP/")) {
				kept = append(kept, line)
			}
		}
		switch {
		case strings.HasPrefix(edit, "HTTP/"):
			kept = append([]string{edit}, kept...)
		case edit[0] != '-':
			kept = append(kept, edit)
		}
		lines = kept
	}
	return strings.Join(lines, "\r\n") + "\r\n\r\n"
}

// TestClientAccepts: responses in all permitted forms, followed by a frame.
func TestClientAccepts(t *testing.T) {
	interim := "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 100 \r\n\r\n"
	for _, tt := range []struct{ name, response, subprotocol, extensions string }{
		{"§1.3", answer(), "", ""},
		{"§1.3 with a subprotocol", answer("Sec-WebSocket-Protocol: chat"), "chat", ""},
		{"the second subprotocol", answer("sec-websocket-protocol:superchat "), "superchat", ""},
		{"no reason", answer("HTTP/1.1 101 "), "", ""},
		{"reason above ASCII", answer("HTTP/1.1 101 D\xfc\t x"), "", ""},
		{"Upgrade in any case", answer("Upgrade: WebSocket"), "", ""},
		{"Connection in a list", answer("Connection: keep-alive, UPGRADE"), "", ""},
		{"Connection in two lines", strings.Replace(answer(), "Connection:", "Connection: keep-alive\r\nConnection:", 1), "", ""},
		{"no body, said aloud", answer("Content-Length: 0"), "", ""},
		{"other fields", answer("Server: x", "Set-Cookie: a=b"), "", ""},
		{"extensions", answer("Sec-WebSocket-Extensions: b; z, ,a"), "", "b; z, ,a"},
		{"extensions in two fields", answer("Sec-WebSocket-Extensions: a", "sec-websocket-extensions: b;q=\",\""), "", `a, b;q=","`},
		{"no extensions, said aloud", answer("Sec-WebSocket-Extensions:"), "", ""},
		{"RFC 9110 §15.2 interim responses", interim + answer(), "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := agreeClient(t, offer, tt.response+server(fin|text, "hello"))
			r := got.response
			if got.n != len(tt.response) || r == nil {
				t.Fatalf("%+v", got)
			}
			if r.Status != 101 || r.Subprotocol != tt.subprotocol || r.Extensions != tt.extensions || len(r.Header["Upgrade"]) != 1 {
				t.Errorf("%+v", r)
			}
		})
	}
}

// TestClientMalformed: each rule for the form of the response is broken once, with nothing behind the line that breaks it.
func TestClientMalformed(t *testing.T) {
	const first = "HTTP/1.1 101 x\r\n"
	for name, stream := range map[string]string{
		"not HTTP":                        "SSH-2.0-x\r\n",
		"empty line first":                "\r\n",
		"old HTTP":                        "<html>\n",
		"HTTP/2.0":                        "HTTP/2.0 101 x\r\n",
		"version in lower case":           "http/1.1 101 x\r\n",
		"long version":                    "HTTP/1.10 101 x\r\n",
		"no space behind the status":      "HTTP/1.1 101\r\n",
		"two spaces":                      "HTTP/1.1  101 x\r\n",
		"status of four digits":           "HTTP/1.1 1010 x\r\n",
		"status of letters":               "HTTP/1.1 1o1 x\r\n",
		"RFC 9110 §15 status 099":         "HTTP/1.1 099 x\r\n",
		"RFC 9110 §15 status 600":         "HTTP/1.1 600 x\r\n",
		"NUL in the reason":               "HTTP/1.1 101 \x00\r\n",
		"LF alone":                        "HTTP/1.1 101 x\n",
		"CR alone":                        first + "A: b\rC: d\r\n",
		"RFC 9112 §5.1 space at the name": first + "A : b\r\n",
		"RFC 9112 §5.2 folded line":       first + "A: b\r\n c\r\n",
		"line without colon":              first + "A\r\n",
		"NUL in a value":                  first + "A: \x00\r\n",
		"rubbish behind an interim one":   "HTTP/1.1 100 x\r\n\r\nrubbish\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			got := agreeClient(t, offer, stream)
			if got.err == "" || got.failure.Status != 0 || got.failure.Header != nil || got.failure.Reason == "" {
				t.Errorf("%+v", got)
			}
			if more := agreeClient(t, offer, stream+answer()); !reflect.DeepEqual(more, got) {
				t.Errorf("with bytes behind it %+v, without %+v", more, got)
			}
		})
	}
}

// TestClientRefuses: each rule for the fields of a response with status 101 is broken once.
func TestClientRefuses(t *testing.T) {
	twice := func(line string) string { return strings.Replace(answer(line), "\r\n", "\r\n"+line+"\r\n", 1) }
	for _, tt := range []struct{ name, response, want string }{
		{"HTTP/1.0", answer("HTTP/1.0 101 x"), "HTTP/1.1"},
		{"§4.1 no Upgrade", answer("-Upgrade"), "Upgrade"},
		{"§4.1 Upgrade to something else", answer("Upgrade: h2c"), "Upgrade"},
		{"§4.1 Upgrade among others", answer("Upgrade: h2c, websocket"), "Upgrade"},
		{"two Upgrades", twice("Upgrade: websocket"), "Upgrade"},
		{"§4.1 no Connection", answer("-Connection"), "Connection"},
		{"§4.1 Connection without upgrade", answer("Connection: close"), "Connection"},
		{"§4.1 no answer to the key", answer("-Sec-WebSocket-Accept"), "Accept"},
		{"§4.1 wrong answer to the key", answer("Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOO="), "Accept"},
		{"answer in another case", answer("Sec-WebSocket-Accept: S3pPLMBiTxaQ9kYGzzhZRbK+xOo="), "Accept"},
		{"two answers to the key", twice("Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo="), "Accept"},
		{"§4.1 extension that was not offered", answer("Sec-WebSocket-Extensions: a, c"), "extension c"},
		{"name in a quote", answer(`Sec-WebSocket-Extensions: a; x=",b", c`), "extension c"},
		{"malformed extensions", answer("Sec-WebSocket-Extensions: a b"), "malformed"},
		{"extensions with an open quote", answer(`Sec-WebSocket-Extensions: a; x="`), "malformed"},
		{"§4.1 subprotocol that was not offered", answer("Sec-WebSocket-Protocol: x"), `"x" was not`},
		{"empty subprotocol", answer("Sec-WebSocket-Protocol:"), `"" was not`},
		{"subprotocol in another case", answer("Sec-WebSocket-Protocol: Chat"), `"Chat" was not`},
		{"list of subprotocols", answer("Sec-WebSocket-Protocol: chat, superchat"), "was not"},
		{"two subprotocols", twice("Sec-WebSocket-Protocol: chat"), "more than one"},
		{"body", answer("Content-Length: 5"), "body"},
		{"chunked body", answer("Transfer-Encoding: chunked"), "body"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := agreeClient(t, offer, tt.response)
			if got.failure.Status != 101 || got.failure.Header == nil || !strings.Contains(got.failure.Reason, tt.want) ||
				!strings.Contains(got.err, got.failure.Reason) {
				t.Errorf("%+v, want it to be about %q", got, tt.want)
			}
		})
	}
	if got := agreeClient(t, nil, answer("Sec-WebSocket-Protocol: chat")); got.failure.Status != 101 {
		t.Errorf("a subprotocol though none was offered: %+v", got)
	}
	if got := agreeClient(t, nil, answer("Sec-WebSocket-Extensions: a")); got.failure.Status != 101 {
		t.Errorf("an extension though none was offered: %+v", got)
	}
}

// TestClientOtherStatus: the caller gets any other response of the server.
func TestClientOtherStatus(t *testing.T) {
	for _, tt := range []struct{ line, want string }{
		{"HTTP/1.1 200 OK", "no WebSocket"},
		{"HTTP/1.1 302 Found", "redirects"},
		{"HTTP/1.1 401 Unauthorized", "authentication"},
		{"HTTP/1.0 404 nope", "Not Found"},
		{"HTTP/1.1 599 ", "unknown"},
		{"HTTP/1.1 426 x", "Upgrade Required"},
		{"HTTP/1.1 103 x\r\n\r\nHTTP/1.1 503 x", "Service Unavailable"},
	} {
		stream := tt.line + "\r\nLocation: /there\r\nContent-Length: 1500\r\n\r\n"
		got := agreeClient(t, offer, stream)
		if !strings.Contains(stream, fmt.Sprint(" ", got.failure.Status, " ")) || got.failure.Header.Get("Location") != "/there" ||
			!strings.Contains(got.err, tt.want) {
			t.Errorf("%s: %+v", tt.line, got)
		}
		body := strings.Repeat("x", 1500)
		_, err := newClient(t, "ws://h", nil).Decode([]byte(stream + body))
		if e, ok := errors.AsType[*wire.HandshakeError](err); !ok || string(e.Body) != body[:1024] {
			t.Errorf("%s: %v", tt.line, err)
		}
	}
}

// TestClientLimits: the limits are exact to the byte and to the line, and a response is refused as soon as it reaches one.
func TestClientLimits(t *testing.T) {
	pad := func(n int) string { // a response of n bytes
		const name = "X-Pad: "
		return answer(name + strings.Repeat("x", n-len(answer())-len(name)-2))
	}
	lines := func(n int) string { // a response of n header lines
		return strings.Replace(answer(), "Upgrade:", strings.Repeat("A: b\r\n", n-3)+"Upgrade:", 1)
	}
	for _, tt := range []struct {
		name, stream string
		options      *wire.ClientOptions
		ok           bool
	}{
		{"default bytes", pad(8192), nil, true},
		{"default bytes and one", pad(8193), nil, false},
		{"endless line", strings.Repeat("x", 8192), nil, false},
		{"endless interim responses", strings.Repeat("HTTP/1.1 100 x\r\n\r\n", 500), nil, false},
		{"own bytes", pad(300), &wire.ClientOptions{MaxHeaderBytes: 300}, true},
		{"own bytes and one", pad(301), &wire.ClientOptions{MaxHeaderBytes: 300}, false},
		{"no limit of bytes", pad(100_000), &wire.ClientOptions{MaxHeaderBytes: -1}, true},
		{"default lines", lines(100), nil, true},
		{"default lines and one", lines(101), nil, false},
		{"no limit of lines", lines(500), &wire.ClientOptions{MaxHeaderLines: -1}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := agreeClient(t, tt.options, tt.stream); (got.n == len(tt.stream)) != tt.ok || tt.ok != (got.err == "") {
				t.Errorf("%+v", got)
			}
		})
	}
}

// FuzzClientHandshake: the result does not depend on how a response is cut. A response that net/http can read too is read in the same way.
func FuzzClientHandshake(f *testing.F) {
	for _, seed := range []string{
		answer(), answer("Sec-WebSocket-Protocol: chat", "Sec-WebSocket-Extensions: a; b=\"\\\",\", b"), answer("HTTP/1.0 101 x"),
		"HTTP/1.1 100 x\r\n\r\n" + answer(), "HTTP/1.1 302 Found\r\nLocation: /x\r\nContent-Length: 3\r\n\r\nabc", answer("Pragma: no-cache"),
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: A\r\n\r\n0\r\n\r\n", "HTTP/1.1 404\r\n\r\n", answer("Connection: close"),
		strings.ReplaceAll(answer(), "\r", ""), answer("A : b"), answer("X: \xff", "Y:", "Z: \t a\t b \t"), answer("Content-Length: 0"),
	} {
		f.Add(seed)
		f.Add(seed + server(fin|text, "behind"))
	}
	f.Fuzz(func(t *testing.T, stream string) {
		got := agreeClient(t, offer, stream)
		status, header := got.failure.Status, got.failure.Header
		if got.response != nil {
			status, header = got.response.Status, got.response.Header
		}
		if status == 0 {
			return
		}
		behind := bufio.NewReader(strings.NewReader(stream))
		std, err := http.ReadResponse(behind, nil)
		for err == nil && std.StatusCode < 200 && std.StatusCode != 101 {
			std, err = http.ReadResponse(behind, nil)
		}
		if err != nil {
			if got.response != nil {
				t.Errorf("accepted what net/http refuses with %v", err)
			}
			return // an error here too, or the length of a body, which these tests do not check
		}
		if std.StatusCode != status {
			t.Errorf("status %d is %d to net/http", status, std.StatusCode)
		}
		for _, name := range []string{"Cache-Control", "Transfer-Encoding", "Content-Length", "Trailer", "Connection"} { // net/http rewrites them
			std.Header.Del(name)
			header.Del(name)
		}
		if !reflect.DeepEqual(std.Header, header) {
			t.Errorf("header %v is %v to net/http", header, std.Header)
		}
		if got.response != nil && behind.Buffered() != len(stream)-got.n && len(stream) < 4096 {
			t.Errorf("net/http leaves %d bytes, here %d are left", behind.Buffered(), len(stream)-got.n)
		}
	})
}
