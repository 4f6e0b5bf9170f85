package session_test

import (
	"io"
	"net"
	"runtime"
	"strings"
	"testing"

	"github.com/sluice-push/sluice/codec"
	"github.com/sluice-push/sluice/session"
)

// BenchmarkEcho echoes messages of 1 KiB to one client, which has 16 in flight. An operation is one message.
func BenchmarkEcho(b *testing.B) {
	for _, tr := range transports {
		for _, inFlight := range []int{1, 16} {
			b.Run(tr.name+"/"+map[int]string{1: "1", 16: "16"}[inFlight], func(b *testing.B) {
				f := newFixture(b, tr, codec.Length{}, echo(), nil)
				frame, err := codec.Length{}.AppendEncode(nil, make([]byte, 1024))
				if err != nil {
					b.Fatal(err)
				}
				out := []byte(strings.Repeat(string(frame), inFlight))
				in := make([]byte, len(out))
				b.ReportAllocs()
				b.SetBytes(1024)
				left := 0
				for b.Loop() {
					if left > 0 { // some messages are in flight
						left--
						continue
					}
					left = inFlight - 1
					if _, err := f.client.Write(out); err != nil {
						b.Fatal(err)
					}
					if _, err := io.ReadFull(f.client, in); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// BenchmarkIdleMemory opens sessions over TCP, lets each echo one message, and reports the heap and stack of one idle session on the server's
// side, after garbage collection. The memory of the clients is measured first and subtracted.
func BenchmarkIdleMemory(b *testing.B) {
	const sessions = 8000
	ln := listen(b, "tcp", "127.0.0.1:0")
	defer ln.Close()
	for b.Loop() {
		before := memory()
		clients := make([]net.Conn, sessions)
		servers := make([]net.Conn, sessions)
		for i := range clients {
			var err error
			if clients[i], err = net.Dial("tcp", ln.Addr().String()); err != nil {
				b.Fatal(err)
			}
			if servers[i], err = ln.Accept(); err != nil {
				b.Fatal(err)
			}
		}
		conns := memory()
		srv := session.NewServer(line, &session.Handler{
			Message: func(s *session.Session, msg []byte) { _ = s.Send(msg) },
		}, nil)
		buf := make([]byte, 6)
		for i, c := range clients {
			if _, err := srv.ServeConn(servers[i], nil); err != nil {
				b.Fatal(err)
			}
			if _, err := io.WriteString(c, "hello\n"); err != nil {
				b.Fatal(err)
			}
			if _, err := io.ReadFull(c, buf); err != nil {
				b.Fatal(err)
			}
		}
		after := memory()
		b.ReportMetric(float64(after-conns)/sessions, "B/session")
		b.ReportMetric(float64(conns-before)/(2*sessions), "B/net.Conn")
		b.ReportMetric(0, "ns/op")
		for _, c := range clients {
			_ = c.Close()
		}
		_ = srv.Close()
		runtime.KeepAlive(servers)
	}
}

// memory returns the bytes in heap and stacks after garbage collection.
func memory() int64 {
	var m runtime.MemStats
	for range 3 { // a pool releases its objects after two collections
		runtime.GC()
	}
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}
