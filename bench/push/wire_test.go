package main_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"github.com/sluice-push/sluice/bench/internal/child"
	"github.com/sluice-push/sluice/bench/internal/load"
	"github.com/sluice-push/sluice/bench/internal/loadtest"
	"github.com/sluice-push/sluice/bench/internal/server"
)

// text makes a text message as a client sends it, and as a server does (RFC 6455 §5.2).
func text(payload string) (masked, plain []byte) {
	n, mask := len(payload), []byte{1, 0xFE, 0, 0x5A}
	plain = []byte{0x81, byte(n)}
	if n > 125 {
		plain = binary.BigEndian.AppendUint16([]byte{0x81, 126}, uint16(n))
	}
	masked = append(bytes.Clone(plain), mask...)
	masked[1] |= 0x80
	for i := range n {
		masked = append(masked, payload[i]^mask[i%4])
	}
	return masked, append(plain, payload...)
}

// want reads a text message.
func want(t *testing.T, conn net.Conn, payload string) {
	t.Helper()
	_, plain := text(payload)
	got := make([]byte, len(plain))
	if _, err := io.ReadFull(conn, got); err != nil || !bytes.Equal(got, plain) {
		t.Fatalf("%q, %v, want %q", got, err, plain)
	}
}

// send writes text messages at once.
func send(t *testing.T, conn net.Conn, payloads ...string) {
	t.Helper()
	var all []byte
	for _, p := range payloads {
		masked, _ := text(p)
		all = append(all, masked...)
	}
	if _, err := conn.Write(all); err != nil {
		t.Fatal(err)
	}
}

// The servers of the plain dialect send to those that are subscribed, in order, whether or not they read, and forget those that left.
func TestPlainServers(t *testing.T) {
	programs := loadtest.Compile(t, "websocket")
	long := strings.Repeat("x", 60000)
	for _, name := range []string{"c1", "c2", "hub"} {
		t.Run(name, func(t *testing.T) {
			addr, settle := loadtest.Serve(t, programs, name, load.Args{Limit: []string{"push"}})
			a, b, left, publisher := loadtest.Upgrade(t, addr), loadtest.Upgrade(t, addr), loadtest.Upgrade(t, addr), loadtest.Upgrade(t, addr)
			send(t, a, "sub 0 7")
			send(t, b, "sub 7")
			send(t, left, "sub 7 9")
			for _, c := range []net.Conn{a, b, left} {
				want(t, c, "ok")
			}
			_ = left.Close()
			if err := settle(3); err != nil {
				t.Fatal(err)
			}
			again := loadtest.Upgrade(t, addr) // where the one that left may have been
			send(t, again, "sub 9")
			want(t, again, "ok")
			send(t, publisher, "pub 0 zero", "pub 7 one", "pub 7 two", "pub 3 nobody", "pub 9 nine", "pub 7 ", "pub 7 three")
			for _, m := range []string{"zero", "one", "two", "", "three"} {
				want(t, a, m)
			}
			for _, m := range []string{"one", "two", "", "three"} {
				want(t, b, m)
			}
			want(t, again, "nine")
			for range 200 { // twelve megabytes, more than sockets take
				send(t, publisher, "pub 0 "+long)
			}
			send(t, publisher, "pub 7 last")
			want(t, b, "last")
			for range 200 {
				want(t, a, long)
			}
			want(t, a, "last")
		})
	}
}

// plainServer is a server of the plain dialect that does what change makes of each delivery: n counts publications, i subscribers.
func plainServer(t *testing.T, change func(n, i int, data []byte) [][]byte) (port string) {
	var upgrader websocket.Upgrader
	var mu sync.Mutex // held while "ok" is written
	var subscribers []*websocket.Conn
	return serve(t, func(w http.ResponseWriter, r *http.Request) {
		conn, err := upgrader.Upgrade(w, r, nil)
		if err != nil {
			return
		}
		defer conn.Close()
		for n := 0; ; n++ {
			_, msg, err := conn.ReadMessage()
			if err != nil {
				return
			}
			if bytes.HasPrefix(msg, []byte("sub ")) {
				mu.Lock()
				subscribers = append(subscribers, conn)
				_ = conn.WriteMessage(websocket.TextMessage, []byte("ok"))
				mu.Unlock()
				continue
			}
			mu.Lock()
			to := slices.Clone(subscribers)
			mu.Unlock()
			data := bytes.SplitN(msg, []byte(" "), 3)[2]
			for i, c := range to {
				for _, d := range change(n, i, bytes.Clone(data)) {
					if d == nil {
						_ = c.Close()
					} else {
						_ = c.WriteMessage(websocket.TextMessage, d) // the client finds out what does not arrive
					}
				}
			}
		}
	})
}

// serve serves on a port until the test ends.
func serve(t *testing.T, h http.HandlerFunc) (port string) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.UnderHTTP(ln, h))
	_, port, err = net.SplitHostPort(ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// subscribers runs the client with three subscribers of one channel, and has it publish ten times.
func subscribers(t *testing.T, p *load.Programs, port, dialect string) (*load.Load, error) {
	t.Helper()
	c, err := child.Start(context.Background(), nil, p.Client, port, dialect, "100", "1", "1")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Stop() }() // it ends with an error when it finds one
	if err := c.Ask(&struct{}{}, "connect 3"); err != nil {
		return nil, err
	}
	l := new(load.Load)
	if err := c.Ask(l, "publish 50 200 1 3000"); err != nil {
		return nil, err
	}
	return l, l.Wrong()
}

// only changes one delivery.
func only(at int, change func(data []byte) [][]byte) func(n, i int, data []byte) [][]byte {
	return func(n, i int, data []byte) [][]byte {
		if n == at && i == 1 {
			return change(data)
		}
		return [][]byte{data}
	}
}

// swapped delivers two in the wrong order.
func swapped() func(n, i int, data []byte) [][]byte {
	var held []byte
	return func(n, i int, data []byte) [][]byte {
		switch {
		case i == 1 && n == 4:
			held = data
			return nil
		case i == 1 && n == 5:
			return [][]byte{data, held}
		default:
			return [][]byte{data}
		}
	}
}

// The client notices whatever is wrong with deliveries.
func TestDeliveries(t *testing.T) {
	programs := loadtest.Compile(t, "websocket", "subscribers")
	flip := func(n, at int) func(n, i int, data []byte) [][]byte {
		return only(n, func(data []byte) [][]byte {
			data[at] ^= 1
			return [][]byte{data}
		})
	}
	for _, tt := range []struct {
		name   string
		change func(n, i int, data []byte) [][]byte
		had    int64
		want   string
	}{
		{name: "right", change: only(-1, nil), had: 30},
		{
			name: "one lost", change: only(4, func([]byte) [][]byte { return nil }), had: 29,
			want: "besides 29 deliveries 1 were lost, 0 came twice, 0 out of order",
		},
		{
			name: "the last lost", change: only(9, func([]byte) [][]byte { return nil }), had: 29,
			want: "besides 29 deliveries 1 were lost, 0 came twice, 0 out of order",
		},
		{
			name: "one twice", change: only(4, func(data []byte) [][]byte { return [][]byte{data, data} }), had: 30,
			want: "besides 30 deliveries 0 were lost, 1 came twice, 0 out of order",
		},
		{name: "out of order", change: swapped(), had: 30, want: "besides 30 deliveries 0 were lost, 0 came twice, 1 out of order"},
		{
			name: "nothing", change: func(int, int, []byte) [][]byte { return nil },
			want: "besides 0 deliveries 30 were lost, 0 came twice, 0 out of order",
		},
		{name: "cut", change: only(4, func([]byte) [][]byte { return [][]byte{nil} }), want: "recv: "},
		{name: "first byte", change: flip(4, 0), want: "wrong bytes in a publication"},
		{name: "number of another", change: flip(5, 13), want: "wrong bytes in a publication"},
		{name: "number to come", change: flip(4, 6), want: "a wrong publication"},
		{name: "channel", change: flip(4, 18), want: "wrong bytes in a publication"},
		{name: "sequence", change: flip(4, 27), want: "wrong bytes in a publication"},
		{name: "pattern", change: flip(4, 60), want: "wrong bytes in a publication"},
		{name: "last byte", change: flip(4, 99), want: "wrong bytes in a publication"},
		{name: "short", change: only(4, func(data []byte) [][]byte { return [][]byte{data[:99]} }), want: "a wrong publication"},
		{name: "ok", change: only(4, func([]byte) [][]byte { return [][]byte{[]byte("ok")} }), want: "an answer to nothing"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel() // some wait for what does not come
			l, err := subscribers(t, programs, plainServer(t, tt.change), "plain")
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.HasPrefix(err.Error(), tt.want)) {
				t.Errorf("%v, want %q", err, tt.want)
			}
			if l != nil && (l.Messages != tt.had || l.All.Total() != tt.had) {
				t.Errorf("%d deliveries, %d latencies, want %d", l.Messages, l.All.Total(), tt.had)
			}
		})
	}
}

// script is a server that wants a message with the first text of each step on a connection, unless it is empty, and sends the second.
type script [][2]string

func (s script) run(t *testing.T, kind int) http.HandlerFunc {
	var upgrader websocket.Upgrader
	return func(w http.ResponseWriter, r *http.Request) {
		conn, err := upgrader.Upgrade(w, r, nil)
		if err != nil {
			return
		}
		defer conn.Close()
		for _, step := range s {
			if step[0] != "" {
				_, msg, err := conn.ReadMessage()
				if err != nil {
					return // the client has ended
				}
				if !strings.Contains(string(msg), step[0]) {
					t.Errorf("%q, want %q", msg, step[0])
				}
			}
			if conn.WriteMessage(kind, []byte(step[1])) != nil {
				return
			}
		}
		_, _, _ = conn.ReadMessage() // until the client is gone
	}
}

// Clients answer pings, without which the scripts do not go on, and end when they are refused.
func TestDialects(t *testing.T) {
	programs := loadtest.Compile(t, "websocket", "subscribers")
	for _, tt := range []struct {
		name, dialect string
		kind          int
		script        script
		want          string
	}{
		{
			name: "ping", dialect: "centrifuge", kind: websocket.TextMessage,
			script: script{{`{"id":1,"connect":{}}`, "{}"}, {"{}", `{"id":1,"error":{"code":100}}`}},
			want:   "the server refused a command",
		},
		{
			name: "ping", dialect: "nats", kind: websocket.BinaryMessage,
			script: script{{"CONNECT {", "INFO {}\r\nPI"}, {"", "NG\r\n"}, {"PONG\r\n", "-ERR 'x'\r\n"}},
			want:   "the server refused a command",
		},
		{
			name: "refused", dialect: "centrifuge", kind: websocket.TextMessage,
			script: script{{"connect", "{\"id\":1,\"connect\":{}}\n{\"id\":1,\"error\":{}}"}}, want: "the server refused a command",
		},
		{
			name: "something else", dialect: "centrifuge", kind: websocket.TextMessage,
			script: script{{"connect", `{"push":{}}`}}, want: "something else than a publication",
		},
	} {
		t.Run(tt.dialect+" "+tt.name, func(t *testing.T) {
			_, err := subscribers(t, programs, serve(t, tt.script.run(t, tt.kind)), tt.dialect)
			if err == nil || !strings.HasPrefix(err.Error(), tt.want) {
				t.Errorf("%v, want %q", err, tt.want)
			}
		})
	}
	if _, err := subscribers(t, programs, serve(t, closes), "plain"); err == nil || !strings.HasPrefix(err.Error(), "the server closes a connection") {
		t.Error(err)
	}
}

// closes upgrades connections and ends them in order.
func closes(w http.ResponseWriter, r *http.Request) {
	var upgrader websocket.Upgrader
	conn, err := upgrader.Upgrade(w, r, nil)
	if err != nil {
		return
	}
	_ = conn.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(websocket.CloseGoingAway, ""), time.Now().Add(time.Minute))
	_ = conn.Close()
}
