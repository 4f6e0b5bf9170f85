package transport_test

import (
	"net"
	"syscall"
	"testing"
)

// What a connection costs the accepting side; the dial and the close are in both.
func BenchmarkAccept(b *testing.B) {
	l := wrap(b, "tcp", "127.0.0.1:0", nil) // MPTCP
	to := &syscall.SockaddrInet4{Port: l.Addr().(*net.TCPAddr).Port, Addr: [4]byte{127, 0, 0, 1}}
	connect := func(b *testing.B) int {
		fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
		if err == nil {
			err = syscall.SetsockoptLinger(fd, syscall.SOL_SOCKET, syscall.SO_LINGER, &syscall.Linger{Onoff: 1})
		}
		if err == nil {
			err = syscall.Connect(fd, to)
		}
		if err != nil {
			b.Fatal(err)
		}
		return fd
	}
	b.Run("descriptor", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			fd := connect(b)
			d, err := l.AcceptDescriptor()
			if err != nil {
				b.Fatal(err)
			}
			_ = syscall.Close(fd)
			_ = d.Close()
		}
	})
	b.Run("conn", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			fd := connect(b)
			conn, err := l.Accept()
			if err != nil {
				b.Fatal(err)
			}
			_ = syscall.Close(fd)
			_ = conn.Close()
		}
	})
}
