package session_test

import (
	"io"
	"net"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/sluice-push/sluice/codec"
	"github.com/sluice-push/sluice/session"
)

// BenchmarkEcho is one client with 16 messages of 1 KiB in flight; an operation is one message.
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
					if left > 0 { // of the messages in flight
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

// BenchmarkTryWrite is one shared frame of 256 bytes to 1,000 sessions, whose peers are read by one goroutine; an operation is
// one delivery. "write" is the same with a bare write(2) for each connection: what no server can do without.
func BenchmarkTryWrite(b *testing.B) {
	const sessions = 1000
	frame := [][]byte{make([]byte, 256)}
	b.Run("session", func(b *testing.B) {
		srv := session.NewServer(line, nil, nil)
		defer srv.Close()
		var all []*session.Session
		drain := pairs(b, sessions, func(server net.Conn, _ int) {
			s, err := srv.ServeConn(server, &session.Attach{})
			if err != nil {
				b.Fatal(err)
			}
			all = append(all, s)
		})
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			if taken, err := all[i%sessions].TryWrite(frame); taken != 1 || err != nil {
				b.Fatal(taken, err)
			}
			if i%sessions == sessions-1 {
				drain()
			}
		}
	})
	b.Run("write", func(b *testing.B) {
		var all []int
		drain := pairs(b, sessions, func(server net.Conn, fd int) {
			b.Cleanup(func() { _ = server.Close() })
			all = append(all, fd)
		})
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			if n, err := syscall.Write(all[i%sessions], frame[0]); n != 256 || err != nil {
				b.Fatal(n, err)
			}
			if i%sessions == sessions-1 {
				drain()
			}
		}
	})
}

// pairs makes n connected pairs of Unix sockets, gives one end of each to take, and returns a function that reads 256 bytes from
// each of the others.
func pairs(b *testing.B, n int, take func(server net.Conn, fd int)) (drain func()) {
	b.Helper()
	ln := listen(b, "unix", b.TempDir()+"/s")
	defer ln.Close()
	clients := make([]int, n)
	for i := range n {
		conn, err := net.Dial("unix", ln.Addr().String())
		if err != nil {
			b.Fatal(err)
		}
		server, err := ln.Accept()
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { _ = conn.Close() })
		clients[i] = descriptor(b, conn)
		take(server, descriptor(b, server))
	}
	buf := make([]byte, 256)
	return func() {
		for _, fd := range clients {
			if _, err := syscall.Read(fd, buf); err != nil {
				b.Fatal(err)
			}
		}
	}
}

func descriptor(b *testing.B, conn net.Conn) (n int) {
	b.Helper()
	rc, err := conn.(syscall.Conn).SyscallConn()
	if err == nil {
		err = rc.Control(func(fd uintptr) { n = int(fd) })
	}
	if err != nil {
		b.Fatal(err)
	}
	return n
}

// BenchmarkIdleMemory opens sessions over TCP, lets each echo one message, and reports what one costs when it is idle again: heap and
// stack of the server's side, after garbage collection. The clients' side is measured first and taken off.
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

// memory is what heap and stacks take after collecting garbage.
func memory() int64 {
	var m runtime.MemStats
	for range 3 { // pools give up what they hold after two
		runtime.GC()
	}
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}
