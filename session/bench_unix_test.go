//go:build unix

package session_test

import (
	"net"
	"syscall"
	"testing"

	"github.com/sluice-push/sluice/session"
)

// BenchmarkTryWrite writes one shared frame of 256 bytes to 1,000 sessions, whose peers are read by one goroutine. An operation is one delivery.
// The sub-benchmark "write" does the same with one write(2) for each connection, which is the least that any server needs.
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

// pairs makes n connected pairs of Unix sockets and gives one end of each to take. It returns a function that reads 256 bytes from each of the
// other ends.
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
