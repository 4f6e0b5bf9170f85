package websocket_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/session"
	"github.com/sluice-push/sluice/websocket"
)

// tally counts the calls of a handler.
type tally struct{ opened, closed, wrong atomic.Int64 }

// handler acts on messages and counts.
func (n *tally) handler() *websocket.Handler {
	return &websocket.Handler{
		Open: func(c *websocket.Conn, _ *websocket.Request) error {
			c.SetValue(new(atomic.Bool))
			n.opened.Add(1)
			return nil
		},
		Message: func(c *websocket.Conn, m websocket.Message) {
			switch string(m.Data) {
			case "close":
				_ = c.Close(4000, "as you say")
			case "now":
				c.CloseNow()
			case "panic":
				panic("as you say")
			default:
				_ = c.Send(m.Op, m.Data)
			}
		},
		Close: func(c *websocket.Conn, _ *session.CloseInfo) {
			n.closed.Add(1)
			if c.Value().(*atomic.Bool).Swap(true) {
				n.wrong.Add(1)
			}
		},
	}
}

// frame is a short frame of a client, masked with zeros.
func frame(first byte, payload string) string {
	return string([]byte{first, 0x80 | byte(len(payload)), 0, 0, 0, 0}) + payload
}

// lives are the ways in which a connection may end: the bytes sent, how it goes on, and how the answer begins and ends.
var lives = []struct {
	name, sent string
	half       bool // the client half-closes then
	cut        bool // or is gone
	ends       string
}{
	{name: "closed by the client", sent: request + frame(0x81, "hello") + frame(0x88, "\x03\xe8"), ends: "\x81\x05hello\x88\x02\x03\xe8"},
	{name: "closed by the server", sent: request + frame(0x81, "close") + frame(0x88, "\x0f\xa0"), ends: "\x88\x0c\x0f\xa0as you say"},
	{name: "the client is gone", sent: request + frame(0x81, "hello"), cut: true},
	{name: "the client is gone at once", cut: true},
	{name: "half a request", sent: request[:50], half: true},
	{name: "half a request, gone", sent: request[:50], cut: true},
	{name: "no request", sent: "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n", half: true, ends: "WebSocket upgrade is required\n"},
	{name: "half-closed", sent: request + frame(0x81, "hello"), half: true, ends: "\x81\x05hello"},
	{name: "half a frame", sent: request + frame(0x81, "hello")[:8], half: true, ends: "\r\n\r\n"},
	{name: "a fragment", sent: request + frame(0x01, "hello"), half: true, ends: "\r\n\r\n"},
	{name: "a broken rule", sent: request + frame(0x83, ""), ends: "reserved"},
	{name: "a panic", sent: request + frame(0x81, "panic")},
	{name: "ended at once", sent: request + frame(0x81, "now")},
}

// live goes through one life from an address of its own, so that ports do not run out.
func live(address string, i int) error {
	life := lives[i%len(lives)]
	from := &net.TCPAddr{IP: net.IPv4(127, 1, byte(i>>8), byte(i)|1)}
	conn, err := (&net.Dialer{LocalAddr: from, Timeout: patience}).Dial("tcp", address)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.(*net.TCPConn).SetLinger(0); err != nil {
		return err
	}
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	if _, err := io.WriteString(conn, life.sent); err != nil {
		return err
	}
	if life.cut {
		return nil
	}
	if life.half {
		if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
			return err
		}
	}
	answer, err := io.ReadAll(bufio.NewReader(conn))
	if err != nil && life.ends != "" && !strings.Contains(err.Error(), "reset") {
		return fmt.Errorf("%s: %q, %w", life.name, answer, err)
	}
	if !bytes.HasSuffix(answer, []byte(life.ends)) && life.name != "a broken rule" {
		return fmt.Errorf("%s: %q", life.name, answer)
	}
	return nil
}

// descriptors returns the number of open descriptors, if it is known.
func descriptors() int {
	entries, _ := os.ReadDir("/proc/self/fd")
	return len(entries)
}

// heap returns the size of the heap after a garbage collection.
func heap() int {
	for range 3 { // pools are emptied in two
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

// TestOpensAndCloses checks that each opened connection is closed exactly once, in whatever way it ends, and leaves no resources. With the tag
// proof it makes a million connections.
func TestOpensAndCloses(t *testing.T) {
	for _, way := range ways {
		t.Run(strings.ReplaceAll(way.name, " ", "-"), func(t *testing.T) {
			var n tally
			o := &websocket.Options{Session: session.Options{Engine: way.engine}}
			start := serve
			if way.http {
				start = serveHTTP
			}
			srv, url := start(t, n.handler(), o)
			address := strings.TrimSuffix(strings.TrimPrefix(url, "ws://"), "/some/path?q=1")
			rounds(t, address, opens/10) // what a server needs once is there then
			settle(t, srv, &n)
			heapBefore, before := heap(), descriptors()
			began := time.Now()
			rounds(t, address, opens-opens/10)
			took := time.Since(began)
			settle(t, srv, &n)
			if now := descriptors(); now > before+2 {
				t.Errorf("%d descriptors, %d before", now, before)
			}
			grown := heap() - heapBefore
			if grown > 1<<20 {
				t.Errorf("the heap has grown by %d bytes", grown)
			}
			t.Logf("%d opened and closed, %.0f a second; the heap has grown by %d bytes", n.closed.Load(), float64(opens)*0.9/took.Seconds(), grown)
		})
	}
}

// rounds makes many connections, some of them at the same time.
func rounds(t *testing.T, address string, count int) {
	t.Helper()
	var next, failed atomic.Int64
	var group sync.WaitGroup
	for range 16 {
		group.Go(func() {
			for i := next.Add(1); i <= int64(count); i = next.Add(1) {
				if err := live(address, int(i)); err != nil && failed.Add(1) < 5 {
					t.Error(err)
				}
			}
		})
	}
	testwait.Return(t, group.Wait)
	http.DefaultClient.CloseIdleConnections()
}

// settle waits until all connections have ended.
func settle(t *testing.T, srv *websocket.Server, n *tally) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for srv.Len() > 0 || n.opened.Load() != n.closed.Load() {
		if time.Now().After(deadline) {
			t.Fatalf("%d are left; %d were opened and %d closed", srv.Len(), n.opened.Load(), n.closed.Load())
		}
		runtime.Gosched()
	}
	if n.wrong.Load() > 0 {
		t.Errorf("%d were closed twice", n.wrong.Load())
	}
}
