package proxydial_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluice-push/sluice/internal/proxydial"
	"github.com/sluice-push/sluice/internal/testwait"
)

// exchange is one step of a scripted peer: it waits for want bytes, and sends answer.
type exchange struct {
	want   int
	answer string
}

// record, as the number of bytes, means one TLS record.
const record = -1

// perform plays a script on the far end of a pipe, calls end, and reads until the pipe is closed. It returns the received bytes.
func perform(conn net.Conn, script []exchange, end func()) string {
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(testTimeout))
	var got bytes.Buffer
	for _, step := range script {
		want := step.want
		if want == record {
			if _, err := io.CopyN(&got, conn, 5); err != nil {
				return got.String()
			}
			want = int(binary.BigEndian.Uint16(got.Bytes()[got.Len()-2:])) // RFC 8446 §5.1
		}
		if _, err := io.CopyN(&got, conn, int64(want)); err != nil {
			return got.String()
		}
		if step.answer == "" { // on a pipe even an empty write waits for a read
			continue
		}
		if _, err := io.WriteString(conn, step.answer); err != nil {
			return got.String()
		}
	}
	end()
	_, _ = io.Copy(&got, conn)
	return got.String()
}

// play connects to server with the scripted peer as the proxy. It calls end after the script.
func play(ctx context.Context, t *testing.T, urls [2]string, script []exchange, end func(far net.Conn)) (got string, err error) {
	t.Helper()
	var wg sync.WaitGroup
	tr := tracker{dial: func(context.Context, string, string) (net.Conn, error) {
		near, far := net.Pipe()
		wg.Go(func() { got = perform(far, script, func() { end(far) }) })
		return near, nil
	}}
	d := &proxydial.Dialer{Dial: tr.Dial}
	if urls[1] != "" {
		d.Proxy = func(*url.URL) (*url.URL, error) { return url.Parse(urls[1]) }
	}
	conn, err := d.Connect(ctx, parseURL(t, urls[0]))
	if (conn != nil) != (err == nil) || err != nil && tr.leaks() != 0 {
		t.Errorf("got %v, %v, with %d connections open", conn, err, tr.leaks())
	}
	if conn != nil {
		_ = conn.Close()
	}
	testwait.Return(t, wg.Wait)
	return got, err
}

const (
	connectRequest = "CONNECT h:80 HTTP/1.1\r\nHost: h:80\r\n\r\n"
	socksRequest   = "\x05\x01\x00\x03\x01h\x00\x50"
	socksOK        = "\x05\x00\x00\x01\x7f\x00\x00\x01\x00\x50"
)

// nothing lets the script end with a silent peer, which closes when the client closes.
func nothing(net.Conn) {}

// hangUp closes the far end.
func hangUp(far net.Conn) { _ = far.Close() }

// TestHostileHTTP checks valid and invalid responses to CONNECT.
func TestHostileHTTP(t *testing.T) {
	fill := func(n int) string { // an answer of n bytes
		const start, end = "HTTP/1.1 200 OK\r\nX: ", "\r\n\r\n"
		return start + strings.Repeat("x", n-len(start)-len(end)) + end
	}
	for _, tt := range []struct{ name, answer, want string }{
		{"established", "HTTP/1.1 200 Connection established\r\n\r\n", accepted},
		{"HTTP/1.0 without a reason", "HTTP/1.0 200\r\nA: b\r\n\r\n", accepted},
		{"RFC 9110 §9.3.6 another 2xx", "HTTP/1.1 299 x\r\n\r\n", accepted},
		{"RFC 9110 §9.3.6 lengths are ignored", "HTTP/1.1 200 x\r\nContent-Length: 9\r\nTransfer-Encoding: x\r\n\r\n", accepted},
		{"as large as may be", fill(8192), accepted},
		{"larger", fill(8193), "8192 bytes"},
		{"endless line", "HTTP/1.1 200 " + strings.Repeat("x", 9000), "8192 bytes"},
		{"endless lines", "HTTP/1.1 200 x\r\n" + strings.Repeat("A: b\r\n", 2000), "8192 bytes"},
		{"bytes behind", "HTTP/1.1 200 OK\r\n\r\nx", "after its response"},
		{"refused with a body", "HTTP/1.1 403 Forbidden\r\nContent-Length: 1\r\n\r\nx", "status 403 Forbidden"},
		{"credentials", "HTTP/1.1 407 x\r\nproxy-authenticate: Basic realm=\"a\"\r\n\r\n", `authentication required ("Basic realm=\"a\"")`},
		{"interim", "HTTP/1.1 100 Continue\r\n\r\n", "status 100"},
		{"TLS alert", "\x15\x03\x01\x00\x02\x02\x46", "not an HTTP/1.1 proxy"},
		{"SOCKS5", "\x05\xff", "not an HTTP/1.1 proxy"},
		{"HTTP/2", "HTTP/2.0 200 x\r\n\r\n", "not an HTTP/1.1 proxy"},
		{"no minor version", "HTTP/1. 200 x\r\n\r\n", "status line"},
		{"letter for a version", "HTTP/1.x 200 x\r\n\r\n", "status line"},
		{"no status", "HTTP/1.1\r\n\r\n", "status line"},
		{"status of letters", "HTTP/1.1 2oo x\r\n\r\n", "status line"},
		{"negative status", "HTTP/1.1 -20 x\r\n\r\n", "status line"},
		{"status of four digits", "HTTP/1.1 0200 x\r\n\r\n", "status line"},
		{"status 099", "HTTP/1.1 099 x\r\n\r\n", "status line"},
		{"LF alone", "HTTP/1.1 200 x\n\n", "CRLF"},
		{"line without colon", "HTTP/1.1 200 x\r\nA\r\n\r\n", "malformed"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := play(bounded(t), t, [2]string{"ws://h", "http://p"}, []exchange{{len(connectRequest), tt.answer}}, nothing)
			if got != connectRequest {
				t.Errorf("the proxy was asked %q", got)
			}
			checkHop(t, err, "CONNECT", tt.want)
		})
	}
	const answer = "HTTP/1.1 200 x\r\nA: b\r\n\r\n"
	_, err := play(bounded(t), t, [2]string{"ws://h", "http://p"}, nil, hangUp)
	checkHop(t, err, "CONNECT", "")
	for i := range len(answer) {
		_, err := play(bounded(t), t, [2]string{"ws://h", "http://p"}, []exchange{{len(connectRequest), answer[:i]}}, hangUp)
		if checkHop(t, err, "CONNECT", "unexpected EOF"); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("closed behind %q: %v", answer[:i], err)
		}
	}
}

// accepted is the check of a case in which nothing fails.
const accepted = "accepted"

// checkHop checks that a step failed at the proxy, with a given text.
func checkHop(t *testing.T, err error, step, want string) {
	t.Helper()
	if want == accepted && err == nil {
		return
	}
	e, ok := errors.AsType[*proxydial.Error](err)
	if !ok || want == accepted || e.Hop != "proxy" || e.Step != step || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want an error of the proxy, at %s, about %q", err, step, want)
	}
}

// TestHostileSOCKS checks valid and invalid answers of SOCKS5 proxies.
func TestHostileSOCKS(t *testing.T) {
	const anonymous, known = "socks5://p", "socks5://u:p@p"
	for _, tt := range []struct {
		name, proxy string
		answers     []string // to the greeting, to the login if there is one, and to the request
		want        string
	}{
		{"IPv4", anonymous, []string{"\x05\x00", socksOK}, accepted},
		{"IPv6", anonymous, []string{"\x05\x00", "\x05\x00\x00\x04" + strings.Repeat("x", 18)}, accepted},
		{"name", anonymous, []string{"\x05\x00", "\x05\x00\x00\x03\xff" + strings.Repeat("x", 257)}, accepted},
		{"empty name", anonymous, []string{"\x05\x00", "\x05\x00\x00\x03\x00xx"}, accepted},
		{"login", known, []string{"\x05\x02", "\x01\x00", socksOK}, accepted},
		{"no login wanted", known, []string{"\x05\x00", socksOK}, accepted},
		{"version 4", anonymous, []string{"\x00\x5a"}, "version 0"},
		{"HTTP", anonymous, []string{"HT"}, "version 72"},
		{"nobody may", anonymous, []string{"\x05\xff"}, "put user and password"},
		{"not this way either", known, []string{"\x05\xff"}, "neither"},
		{"login though nobody is known", anonymous, []string{"\x05\x02"}, "method 2"},
		{"another method", known, []string{"\x05\x01"}, "method 1"},
		{"RFC 1929 §2 version", known, []string{"\x05\x02", "\x05\x00"}, "with version 5"},
		{"RFC 1929 §2 refused", known, []string{"\x05\x02", "\x01\x07"}, "status 7"},
		{"version of the reply", anonymous, []string{"\x05\x00", "\x04\x00\x00\x01"}, "version 4"},
		{"§6 failure", anonymous, []string{"\x05\x00", "\x05\x01\x00\x01"}, "general failure"},
		{"§6 rules", anonymous, []string{"\x05\x00", "\x05\x02\x00\x01"}, "rules"},
		{"§6 address type", anonymous, []string{"\x05\x00", "\x05\x08\x00\x01"}, "address type"},
		{"unknown failure", anonymous, []string{"\x05\x00", "\x05\x09\x00\x01"}, "reply 9"},
		{"reserved byte", anonymous, []string{"\x05\x00", "\x05\x00\x01\x01"}, "reserved"},
		{"unknown address type", anonymous, []string{"\x05\x00", "\x05\x00\x00\x02"}, "type 2"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			said := []string{"\x05\x01\x00", socksRequest}
			switch {
			case tt.proxy == known && tt.answers[0] == "\x05\x02":
				said = []string{"\x05\x02\x00\x02", "\x01\x01u\x01p", socksRequest}
			case tt.proxy == known:
				said[0] = "\x05\x02\x00\x02"
			}
			said = said[:len(tt.answers)]
			var script []exchange
			for i, answer := range tt.answers {
				script = append(script, exchange{len(said[i]), answer})
			}
			got, err := play(bounded(t), t, [2]string{"ws://h", tt.proxy}, script, nothing)
			if got != strings.Join(said, "") {
				t.Errorf("the client said %q, want %q", got, said)
			}
			checkHop(t, err, "SOCKS5", tt.want)
		})
	}
	for _, script := range [][]exchange{
		{},
		{{3, ""}},
		{{3, "\x05"}},
		{{3, "\x05\x00"}},
		{{3, "\x05\x00"}, {len(socksRequest), ""}},
		{{3, "\x05\x00"}, {len(socksRequest), "\x05\x00\x00\x03"}},
		{{3, "\x05\x00"}, {len(socksRequest), "\x05\x00\x00\x03\x02hi\x00"}},
	} {
		_, err := play(bounded(t), t, [2]string{"ws://h", anonymous}, script, hangUp)
		checkHop(t, err, "SOCKS5", "")
	}
	for i := range len(socksOK) {
		_, err := play(bounded(t), t, [2]string{"ws://h", anonymous}, []exchange{{3, "\x05\x00"}, {len(socksRequest), socksOK[:i]}}, hangUp)
		checkHop(t, err, "SOCKS5", "unexpected EOF")
	}
	_, err := play(bounded(t), t, [2]string{"ws://h", known}, []exchange{{4, "\x05\x02"}, {5, "\x01"}}, hangUp)
	checkHop(t, err, "SOCKS5", "unexpected EOF")
}

// TestSOCKSAddress checks that addresses are sent as addresses, and names as names.
func TestSOCKSAddress(t *testing.T) {
	for server, want := range map[string]string{
		"ws://192.0.2.1:8000":    "\x05\x01\x00\x01\xc0\x00\x02\x01\x1f\x40",
		"wss://[2001:db8::1]":    "\x05\x01\x00\x04\x20\x01\x0d\xb8" + strings.Repeat("\x00", 11) + "\x01\x01\xbb",
		"ws://server.example:99": "\x05\x01\x00\x03\x0eserver.example\x00\x63",
	} {
		got, err := play(bounded(t), t, [2]string{server, "socks5://p"}, []exchange{{3, "\x05\x00"}, {len(want), "\x05\x01\x00\x01"}}, nothing)
		if got != "\x05\x01\x00"+want {
			t.Errorf("%s: asked %q, want %q", server, got, want)
		}
		checkHop(t, err, "SOCKS5", "general failure")
	}
}

// TestCancel checks that the end of the context ends every kind of wait, and closes the connection.
func TestCancel(t *testing.T) {
	for _, tt := range []struct {
		name   string
		urls   [2]string
		script []exchange // after the script the peer is silent
		hop    string
		step   string
	}{
		{"writing to TLS", [2]string{"wss://h"}, []exchange{{5, ""}}, "server", "TLS"},
		{"TLS to the server", [2]string{"wss://h"}, []exchange{{record, ""}}, "server", "TLS"},
		{"within TLS", [2]string{"wss://h"}, []exchange{{record, "\x16\x03\x03"}}, "server", "TLS"},
		{"TLS to the proxy", [2]string{"ws://h", "https://p"}, []exchange{{record, ""}}, "proxy", "TLS"},
		{"writing CONNECT", [2]string{"ws://h", "http://p"}, []exchange{{5, ""}}, "proxy", "CONNECT"},
		{"CONNECT", [2]string{"ws://h", "http://p"}, []exchange{{len(connectRequest), ""}}, "proxy", "CONNECT"},
		{"within the answer", [2]string{"ws://h", "http://p"}, []exchange{{len(connectRequest), "HTTP/1.1 200 OK\r\nA"}}, "proxy", "CONNECT"},
		{"greeting", [2]string{"ws://h", "socks5://p"}, []exchange{{3, ""}}, "proxy", "SOCKS5"},
		{"login", [2]string{"ws://h", "socks5://u:p@p"}, []exchange{{4, "\x05\x02"}, {5, ""}}, "proxy", "SOCKS5"},
		{"request", [2]string{"ws://h", "socks5://p"}, []exchange{{3, "\x05\x00"}, {len(socksRequest), ""}}, "proxy", "SOCKS5"},
		{
			"within the reply",
			[2]string{"ws://h", "socks5://p"},
			[]exchange{{3, "\x05\x00"}, {len(socksRequest), socksOK[:7]}},
			"proxy", "SOCKS5",
		},
		{
			"TLS behind a proxy",
			[2]string{"wss://h", "socks5://p"},
			[]exchange{{3, "\x05\x00"}, {len(socksRequest), socksOK}, {record, ""}},
			"server", "TLS",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(bounded(t))
			defer cancel()
			_, err := play(ctx, t, tt.urls, tt.script, func(net.Conn) { cancel() })
			e, ok := errors.AsType[*proxydial.Error](err)
			if !ok || !errors.Is(err, context.Canceled) || e.Hop != tt.hop || e.Step != tt.step {
				t.Errorf("got %v", err)
			}
		})
	}
}

// TestCancelDial also covers a Dial that returns another error, a Dial that succeeds nevertheless, and a context that has ended before.
func TestCancelDial(t *testing.T) {
	for _, tt := range []struct {
		name  string
		urls  [2]string
		after bool // Dial succeeds
	}{
		{"server", [2]string{"ws://h"}, false},
		{"proxy", [2]string{"ws://h", "http://p"}, false},
		{"too late", [2]string{"ws://h"}, true},
		{"too late for a proxy", [2]string{"ws://h", "http://p"}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(bounded(t))
			defer cancel()
			tr := tracker{dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
				cancel()
				<-ctx.Done()
				if !tt.after {
					return nil, errors.New("interrupted")
				}
				near, far := net.Pipe()
				t.Cleanup(func() { _ = far.Close() })
				return near, nil
			}}
			d := &proxydial.Dialer{Dial: tr.Dial}
			if tt.urls[1] != "" {
				d.Proxy = func(*url.URL) (*url.URL, error) { return url.Parse(tt.urls[1]) }
			}
			conn, err := d.Connect(ctx, parseURL(t, tt.urls[0]))
			if conn != nil || !errors.Is(err, context.Canceled) || tr.leaks() != 0 {
				t.Errorf("got %v, %v, with %d connections open", conn, err, tr.leaks())
			}
		})
	}
	ctx, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer cancel()
	if conn, err := new(proxydial.Dialer).Connect(ctx, parseURL(t, "ws://127.0.0.1:1")); conn != nil || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("after its time: %v, %v", conn, err)
	}
}
