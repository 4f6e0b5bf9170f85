package wire_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/sluice-push/sluice/websocket/wire"
)

// shake performs a raw handshake and returns the codec, the response and the error.
func shake(o *wire.Options, request string) (*wire.Codec, string, error) {
	c := wire.NewHandshake(o)
	_, _, err := c.Decode([]byte(request))
	return c, string(c.AppendReplies(nil)), err
}

func TestOrigins(t *testing.T) {
	list := []string{"https://app.example.com", "https://*.example.org", "*.example.net", "app.example.info", "https://*example.dev"}
	for _, tt := range []struct {
		origin  string
		origins []string
		ok      bool
	}{
		{"https://app.example.com", list, true},
		{"HTTPS://APP.example.com", list, true},
		{"http://app.example.com", list, false},
		{"https://app.example.com:8443", list, false},
		{"https://app.example.com.evil.org", list, false},
		{"https://a.example.org", list, true},
		{"https://a.b.EXAMPLE.org", list, true},
		{"https://example.org", list, false},
		{"https://.example.org", list, false},
		{"https://evilexample.org", list, false},
		{"http://a.example.org", list, false},
		{"https://a.example.net", list, false},
		{"https://app.example.info", list, false},
		{"https://evilexample.dev", list, false},
		{"https://server.example.com", list, true},
		{"null", list, false},
		{"null", []string{"null"}, true},
		{"", nil, false},
		{"null", []string{"*"}, true},
		{"https://anything", []string{"*"}, true},
	} {
		t.Run(tt.origin, func(t *testing.T) {
			_, response, err := shake(&wire.Options{Origins: tt.origins}, request("Origin: "+tt.origin))
			if ok := err == nil; ok != tt.ok || ok != strings.HasPrefix(response, "HTTP/1.1 101 ") {
				t.Errorf("%v, response %.30q; want accepted %t", err, response, tt.ok)
			}
		})
	}
	if _, _, err := shake(&wire.Options{Origins: list}, request()); err != nil {
		t.Errorf("without Origin: %v", err)
	}
	if _, _, err := shake(nil, request("Host: [::1]", "Origin: http://[::1]")); err != nil {
		t.Errorf("the same address: %v", err)
	}
	if _, _, err := shake(nil, request("Host: [::1]", "Origin: http://{::1}")); err == nil {
		t.Error("brackets have no other case") // as ASCII letters have, by the same bit
	}
}

func TestCheckOrigin(t *testing.T) {
	asked := ""
	o := &wire.Options{Origins: []string{"*"}, CheckOrigin: func(r *wire.Request) bool {
		asked += r.Origin + ";"
		return r.Origin == "https://friend"
	}}
	for origin, want := range map[string]int{"Origin: https://friend": 101, "Origin: https://server.example.com": 403, "-Origin": 403} {
		_, response, _ := shake(o, request(origin))
		if got := status(t, response); got != want {
			t.Errorf("%s: status %d, want %d", origin, got, want)
		}
	}
	if strings.Count(asked, ";") != 3 {
		t.Errorf("CheckOrigin was asked about %q", asked)
	}
}

// status returns the status code of a response.
func status(t *testing.T, response string) int {
	t.Helper()
	for code := 100; code < 600; code++ {
		if strings.HasPrefix(response, "HTTP/1.1 "+string([]byte{byte('0' + code/100), byte('0' + code/10%10), byte('0' + code%10), ' '})) {
			return code
		}
	}
	t.Fatalf("no response: %q", response)
	return 0
}

func TestSubprotocols(t *testing.T) {
	for _, tt := range []struct {
		name, want string
		server     []string
		client     []string // lines
	}{
		{"the server prefers", "b", []string{"b", "a"}, []string{"Sec-WebSocket-Protocol: a, b"}},
		{"in two lines", "b", []string{"b", "a"}, []string{"Sec-WebSocket-Protocol: a\r\nSec-WebSocket-Protocol: b"}},
		{"the second choice", "a", []string{"b", "a"}, []string{"Sec-WebSocket-Protocol: c,a"}},
		{"in that case only", "", []string{"a"}, []string{"Sec-WebSocket-Protocol: A"}},
		{"none in common", "", []string{"a"}, []string{"Sec-WebSocket-Protocol: c"}},
		{"none offered", "", []string{"a"}, nil},
		{"none spoken", "", nil, []string{"Sec-WebSocket-Protocol: a"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, response, err := shake(&wire.Options{Subprotocols: tt.server}, request(tt.client...))
			want := acceptance()
			if tt.want != "" {
				want = acceptance("Sec-WebSocket-Protocol: " + tt.want)
			}
			if err != nil || response != want || c.Subprotocol() != tt.want {
				t.Errorf("%q, %v, response %q", c.Subprotocol(), err, response)
			}
		})
	}
}

// TestAcceptChanges: the changes of Accept are sent and applied, except changes that would break the response.
func TestAcceptChanges(t *testing.T) {
	shared := http.Header{"Server": {"sluice"}, "Upgrade": {"h2c"}, "Sec-Websocket-Accept": {"forged"}, "Bad Name": {"x"}}
	o := &wire.Options{
		Header:       shared,
		Subprotocols: []string{"json", "protobuf"},
		Accept: func(r *wire.Request, res *wire.Response) error {
			res.Header.Set("Set-Cookie", "a=b\r\nInjected: yes")
			res.Header.Add("X-Path", r.Path)
			res.Header.Add("X-Path", "again")
			res.Subprotocol, res.Opcode = "protobuf", wire.OpBinary
			return nil
		},
	}
	c, response, err := shake(o, request("Sec-WebSocket-Protocol: json, protobuf"))
	want := acceptance("Sec-WebSocket-Protocol: protobuf", "Server: sluice", "Set-Cookie: a=b  Injected: yes", "X-Path: /chat", "X-Path: again")
	if response != want || err != nil {
		t.Errorf("response\n%s, %v, want\n%s", response, err, want)
	}
	if frame, err := c.AppendEncode(nil, []byte("x")); string(frame) != server(fin|bin, "x") || err != nil {
		t.Errorf("AppendEncode: %q, %v", frame, err)
	}
	if c.Subprotocol() != "protobuf" || len(shared) != 4 {
		t.Errorf("subprotocol %q, shared header %v", c.Subprotocol(), shared)
	}
}

func TestAcceptRefuses(t *testing.T) {
	cause := errors.New("secret cause")
	for _, tt := range []struct {
		name string
		err  error
		want string
	}{
		{"by any error", cause, "HTTP/1.1 403 Forbidden\r\nConnection: close\r\nContent-Length: 10\r\n" +
			"Content-Type: text/plain; charset=utf-8\r\nX-Content-Type-Options: nosniff\r\n\r\nForbidden\n"},
		{"as it likes", &wire.Refusal{
			Status: 503, Reason: "too many connections", Err: cause,
			Header: http.Header{"Retry-After": {"5"}, "Connection": {"keep-alive"}, "Content-Length": {"7"}},
		}, "HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nContent-Length: 21\r\n" +
			"Content-Type: text/plain; charset=utf-8\r\nRetry-After: 5\r\nX-Content-Type-Options: nosniff\r\n\r\ntoo many connections\n"},
		{"with a status that is no refusal", &wire.Refusal{Status: 200, Err: cause}, "HTTP/1.1 500 Internal Server Error\r\nConnection: close\r\n" +
			"Content-Length: 22\r\nContent-Type: text/plain; charset=utf-8\r\nX-Content-Type-Options: nosniff\r\n\r\nInternal Server Error\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o := &wire.Options{Accept: func(*wire.Request, *wire.Response) error { return tt.err }}
			_, response, err := shake(o, request())
			if response != tt.want {
				t.Errorf("response\n%q, want\n%q", response, tt.want)
			}
			if !errors.Is(err, cause) || !strings.Contains(err.Error(), "secret cause") {
				t.Errorf("Decode returned %v, which does not tell the cause", err)
			}
			w := httptest.NewRecorder()
			if _, err := wire.Upgrade(w, httpRequest(t, request()), o); !errors.Is(err, cause) {
				t.Errorf("Upgrade returned %v", err)
			}
			if got := w.Body.String(); !strings.HasSuffix(tt.want, "\r\n\r\n"+got) || w.Code != status(t, tt.want) {
				t.Errorf("Upgrade answered %d %q", w.Code, got)
			}
		})
	}
}

// TestAcceptPanics: the client gets an answer, and the server a report.
func TestAcceptPanics(t *testing.T) {
	_, response, err := shake(&wire.Options{Accept: func(*wire.Request, *wire.Response) error { panic("boom") }}, request())
	if status(t, response) != 500 || strings.Contains(response, "boom") {
		t.Errorf("response %q", response)
	}
	if err == nil || !strings.Contains(err.Error(), "boom") || !strings.Contains(err.Error(), "accept_test.go") {
		t.Errorf("the report lacks the value or the place: %v", err)
	}
}
