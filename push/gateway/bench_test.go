package gateway_test

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/sluice-push/sluice/internal/testwait"
	wsclients "github.com/sluice-push/sluice/push/gateway/websocket"
)

// handshake is a client's, to which the answer always has the same length.
const handshake = "GET " + wsclients.Path + " HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n" +
	"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: MDEyMzQ1Njc4OWFiY2RlZg==\r\n\r\n"

// rawClient connects without a library, whose work would be measured too. What is sent comes in frames ready for the wire.
func (p *place) rawClient(commands ...string) net.Conn {
	p.t.Helper()
	conn, err := p.dial(testwait.Context(p.t))
	must(p.t, err)
	p.t.Cleanup(func() { _ = conn.Close() })
	_, err = io.WriteString(conn, handshake)
	must(p.t, err)
	skipTo(p.t, conn, "\r\n\r\n")
	for i, command := range append([]string{`"connect":{}`}, commands...) {
		_, err = io.WriteString(conn, text(fmt.Sprintf(`{"id":%d,%s}`, i+1, command)))
		must(p.t, err)
		skipTo(p.t, conn, fmt.Sprintf(`{"id":%d,`, i+1))
		skipTo(p.t, conn, "}}")
	}
	return conn
}

// skipTo reads up to a text, byte by byte so that nothing behind it is read.
func skipTo(t testing.TB, in io.Reader, end string) {
	t.Helper()
	var got []byte
	for b := make([]byte, 1); !bytes.HasSuffix(got, []byte(end)); got = append(got, b...) {
		if _, err := in.Read(b); err != nil {
			t.Fatalf("after %q: %v", got, err)
		}
	}
}

// exchange measures a command and its answer.
func exchange(b *testing.B, command, answer string) {
	b.Helper()
	p := newPlace(b, nil)
	conn := p.rawClient()
	request, got := []byte(text(command)), make([]byte, 2+len(answer))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := conn.Write(request); err != nil {
			b.Fatal(err)
		}
		if _, err := io.ReadFull(conn, got); err != nil {
			b.Fatal(err)
		}
	}
	if string(got[2:]) != answer {
		b.Fatalf("answered %s", got[2:])
	}
}

// BenchmarkPing is the round trip of the smallest command over loopback.
func BenchmarkPing(b *testing.B) { exchange(b, `{"id":7,"ping":{}}`, `{"id":7,"ping":{}}`) }

// BenchmarkPublish is the round trip of a publish command to a channel without subscribers.
func BenchmarkPublish(b *testing.B) {
	exchange(b, `{"id":7,"publish":{"channel":"a","data":{"price":"1.00"}}}`, `{"id":7,"publish":{}}`)
}

// BenchmarkPipelinedPings are commands that share a message, and answers that share a write.
func BenchmarkPipelinedPings(b *testing.B) {
	const n = 100
	p := newPlace(b, nil)
	conn := p.rawClient()
	one := `{"id":7,"ping":{}}`
	request, got := []byte(text(strings.Repeat(one+"\n", n))), make([]byte, n*(2+len(one)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := conn.Write(request); err != nil {
			b.Fatal(err)
		}
		if _, err := io.ReadFull(conn, got); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/command")
}

// audience counts what clients receive, and tells when a goal is reached.
type audience struct {
	received, goal atomic.Int64
	reached        chan struct{}
}

// read counts publications by a character that occurs once in each.
func (a *audience) read(conn net.Conn) {
	buf := make([]byte, 16<<10)
	for {
		n, err := conn.Read(buf)
		if err != nil {
			return
		}
		count := int64(bytes.Count(buf[:n], []byte{'^'}))
		if goal, now := a.goal.Load(), a.received.Add(count); now >= goal && now-count < goal {
			a.reached <- struct{}{}
		}
	}
}

// BenchmarkFanOut publishes to WebSocket clients on loopback, sixteen publications at a time. The clients' reading is a part of it.
func BenchmarkFanOut(b *testing.B) {
	for _, clients := range []int{1, 100, 1000} {
		b.Run(fmt.Sprintf("clients=%d", clients), func(b *testing.B) {
			p := newPlace(b, nil)
			a := &audience{reached: make(chan struct{}, 1)}
			var reading sync.WaitGroup
			var conns []net.Conn
			for range clients {
				conn := p.rawClient(`"subscribe":{"channel":"a"}`)
				conns = append(conns, conn)
				reading.Go(func() { a.read(conn) })
			}
			const burst = 16
			b.ReportAllocs()
			for b.Loop() {
				a.goal.Add(int64(burst * clients))
				for range burst {
					p.publish("a", `{"price":"^100.25","size":12,"time":1700000000000}`)
				}
				<-a.reached
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*burst*clients), "ns/delivery")
			for _, conn := range conns {
				_ = conn.Close()
			}
			reading.Wait()
		})
	}
}
