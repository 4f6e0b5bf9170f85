package main_test

import (
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/push/protocol"
)

// TestAddressIsNotDodged: a client that says in X-Forwarded-For that it comes from elsewhere counts by its own address, over each carrier, for the number
// of its connections and for the rate of its connects. If its address is a trusted proxy, it counts by what it says.
func TestAddressIsNotDodged(t *testing.T) {
	t.Parallel()
	const common = "tcp: {listen: \"127.0.0.1:0\"}\nping: {interval: 5m, timeout: 4m}\nbroker: {kind: memory}\nlimits: "
	for name, tt := range map[string]struct {
		config, reason string
		isTrusted      bool
	}{
		"connections":                     {"{sessions_per_address: 1}", "address", false},
		"connections, behind a proxy":     {"{sessions_per_address: 1}\ntrusted_proxies: [127.0.0.1]", "address", true},
		"rate of connects":                {"{connects_per_address: 1}", "ramp", false},
		"rate of connects behind a proxy": {"{connects_per_address: 1}\ntrusted_proxies: [127.0.0.1]", "ramp", true},
	} {
		t.Run(name, func(t *testing.T) {
			node := startNodeWith(t, common+tt.config)
			a, refused := &attacker{t: t, node: node}, 0.0
			connect := func(carrier *attackCarrier, from string) bool {
				a.from = from
				c, v := carrier.connect(a, &protocol.ConnectRequest{})
				if v != accepted {
					refused++
					return false
				}
				t.Cleanup(c.close)
				return true
			}
			witness := commandCarrier("websocket", "json")
			if !connect(&witness, "198.51.100.1") {
				t.Fatal("the first client is refused")
			}
			for i, carrier := range attackCarriers() {
				if tt.isTrusted && carrier.transport == "tcp" {
					continue // there is no header
				}
				others := 0 // connects that say other addresses, before one is refused
				for others < 100 && connect(&carrier, fmt.Sprintf("203.0.%d.%d", 113+i, others+1)) {
					if others++; tt.isTrusted {
						break
					}
				}
				if isTrusted := others > 0; isTrusted != tt.isTrusted && (tt.reason == "address" || others == 100 || tt.isTrusted) {
					t.Errorf("%s: %d clients are connected that say that they come from elsewhere", carrier.name, others)
				}
				if tt.isTrusted && tt.reason == "address" && connect(&carrier, "10.9.9.9, 198.51.100.1") {
					t.Errorf("%s: a second client of an address is connected", carrier.name)
				}
			}
			if got := metric(node.scrape()["sluice_connections_refused_total"], "reason", tt.reason); got != refused {
				t.Errorf("%v clients are counted as refused, want %v", got, refused)
			}
		})
	}
}

// TestHeaderInjection: what a client says does not become a header of the response, in whatever request it says it, and a request whose head can be read in
// two ways is refused.
func TestHeaderInjection(t *testing.T) {
	t.Parallel()
	node := startNodeWith(t, "broker: {kind: memory}\norigins: [\"*\"]\n")
	const upgrade = "GET /connection/websocket HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n" +
		"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
	const events, stream = "GET /connection/uni_sse HTTP/1.1\r\nHost: a\r\n", "POST /connection/uni_http_stream HTTP/1.1\r\nHost: a\r\n"
	requests := map[string]struct {
		request string
		refused bool
	}{
		"a channel with line breaks": {"GET /connection/uni_sse?cf_connect=%7B%22subs%22%3A%7B%22a%5Cr%5CnInjected%3A1%22%3A%7B%7D%7D%7D HTTP/1.1\r\nHost: a\r\n\r\n", true},
		"a query with line breaks":   {"GET /connection/uni_sse?cf_connect=%0D%0AInjected:1%0D%0A HTTP/1.1\r\nHost: a\r\n\r\n", true},
		"a path with line breaks":    {"GET /connection/%0D%0AInjected:1 HTTP/1.1\r\nHost: a\r\n\r\n", true},
		"an event ID":                {events + "Last-Event-ID: a=\rInjected: 1\r\n\r\n", true},
		"an origin":                  {events + "Origin: http://b\rInjected: 1\r\n\r\n", true},
		"an origin of WebSocket":     {upgrade + "Origin: http://b\rInjected: 1\r\n\r\n", true},
		"a subprotocol":              {upgrade + "Sec-WebSocket-Protocol: centrifuge-json\rInjected: 1\r\n\r\n", true},
		"an unknown subprotocol":     {upgrade + "Sec-WebSocket-Protocol: x, Injected\r\n\r\n", false},
		"an extension":               {upgrade + "Sec-WebSocket-Extensions: x; a=\"\rInjected: 1\"\r\n\r\n", true},
		"a zero byte":                {upgrade + "Origin: http://b\x00Injected: 1\r\n\r\n", true},
		"a field on two lines":       {upgrade + "X-A: b\r\n Injected: 1\r\n\r\n", false}, // obsolete, and read as one value
		"a space before the colon":   {upgrade + "Origin : http://b\r\n\r\n", true},
		"two hosts":                  {strings.Replace(upgrade, "Host: a", "Host: a\r\nHost: b", 1) + "\r\n", true},
		"no host":                    {strings.Replace(upgrade, "Host: a\r\n", "", 1) + "\r\n", true},
		"two lengths":                {stream + "Content-Length: 2\r\nContent-Length: 3\r\n\r\n{} ", true},
		"a length that is chunked":   {stream + "Transfer-Encoding: x\r\nContent-Length: 2\r\n\r\n{}", true},
		"asked for by a preflight": {"OPTIONS /emulation HTTP/1.1\r\nHost: a\r\nOrigin: http://b\r\nAccess-Control-Request-Method: POST\r\n" +
			"Access-Control-Request-Headers: a\x0bInjected: 1\r\n\r\n", true},
		"asked for by a preflight, on lines": {"OPTIONS /emulation HTTP/1.1\r\nHost: a\r\nOrigin: http://b\r\nAccess-Control-Request-Method: POST\r\n" +
			"Access-Control-Request-Headers: a,\r\n Injected: 1\r\n\r\n", false},
	}
	conns := map[string]net.Conn{}
	send := func() {
		for name, tt := range requests {
			conn, err := net.Dial("tcp", node.public)
			must(t, err)
			t.Cleanup(func() { _ = conn.Close() })
			must(t, conn.SetDeadline(time.Now().Add(testwait.Bound)))
			_, err = io.WriteString(conn, tt.request)
			must(t, err)
			conns[name] = conn
		}
	}
	receive := func(way string) {
		for name, tt := range requests {
			head := headOf(t, conns[name])
			status, fields, _ := strings.Cut(head, "\r\n")
			refused := strings.HasPrefix(status, "HTTP/1.1 4") || strings.HasPrefix(status, "HTTP/1.1 501")
			if refused != tt.refused || !strings.HasPrefix(status, "HTTP/1.1 ") {
				t.Errorf("%s, %s: answered %q", name, way, status)
			}
			for line := range strings.Lines(strings.ReplaceAll(fields, "\r", "\n")) {
				if strings.HasPrefix(strings.ToLower(line), strings.ToLower(injected)) {
					t.Errorf("%s, %s: the response has the line %q", name, way, line)
				}
			}
		}
	}
	send()
	receive("accepted before it came")
	must(t, node.cmd.Process.Signal(syscall.SIGSTOP)) // what has come when a connection is accepted may be served in place
	send()
	must(t, node.cmd.Process.Signal(syscall.SIGCONT))
	receive("there when it is accepted")
}

// headOf reads the head of a response.
func headOf(t *testing.T, conn net.Conn) string {
	t.Helper()
	var head []byte
	for b := make([]byte, 1); !strings.HasSuffix(string(head), "\r\n\r\n"); head = append(head, b...) {
		if _, err := conn.Read(b); err != nil {
			t.Errorf("after %q: %v", head, err)
			break
		}
	}
	return string(head)
}
