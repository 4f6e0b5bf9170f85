package transport_test

import (
	"net"
	"syscall"
	"testing"

	"github.com/sluice-push/sluice/transport"
)

// The cost of a connection at the accepting side. The dial and the close are included in both cases.
func BenchmarkAccept(b *testing.B) {
	l := listen(b, "tcp", "127.0.0.1:0", nil)
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
	b.Run("detached", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			fd := connect(b)
			conn, err := l.Accept()
			if err != nil {
				b.Fatal(err)
			}
			d, _, err := transport.Detach(conn)
			if err != nil {
				b.Fatal(err)
			}
			_ = syscall.Close(fd)
			_ = d.Close()
		}
	})
}

// A round trip in memory, in one goroutine.
func BenchmarkPipe(b *testing.B) {
	x, y := transport.Pipe(0)
	defer x.Close()
	defer y.Close()
	p := make([]byte, 128)
	b.ReportAllocs()
	for b.Loop() {
		_, _ = x.Write(p)
		_, _ = y.Read(p)
	}
}

// The cost of a PROXY header in addition to a connection.
func BenchmarkProxyHeader(b *testing.B) {
	family, body := bodyV2(proxyFrom, proxyTo)
	for name, text := range map[string]string{"1": headerV1(proxyFrom, proxyTo), "2": headerV2(0x21, family, body)} {
		p := []byte(text)
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if h, _, err := transport.ParseProxy(p); h == nil || err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
