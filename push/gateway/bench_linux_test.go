package gateway_test

import (
	"bytes"
	"fmt"
	"net"
	"runtime"
	"syscall"
	"testing"

	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/push/gateway"
)

// BenchmarkIdleClient says what a connected client with a subscription costs while nothing happens: heap and stacks, without what the
// kernel holds. The clients are bare descriptors, which cost this process nothing.
func BenchmarkIdleClient(b *testing.B) {
	const clients = 5000
	p := newPlace(b, &gateway.Options{PingInterval: -1})
	_, port, err := net.SplitHostPort(p.addr)
	must(b, err)
	number, err := net.LookupPort("tcp", port)
	must(b, err)
	to := &syscall.SockaddrInet4{Port: number, Addr: [4]byte{127, 0, 0, 1}}
	p.subscriber("a") // so that the channel is there
	for b.Loop() {
		before := inUse()
		fds := make([]int, clients)
		for i := range fds {
			fds[i] = bareClient(b, to, "a")
		}
		b.ReportMetric(float64(inUse()-before)/clients, "B/client")
		for _, fd := range fds {
			must(b, syscall.Close(fd))
		}
		testwait.True(b, "all have left", func() bool { return p.gateway.Len() == 1 })
	}
}

// bareClient connects, subscribes and waits for the answers.
func bareClient(t testing.TB, to syscall.Sockaddr, names ...string) (fd int) {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	must(t, err)
	must(t, syscall.Connect(fd, to))
	buf := make([]byte, 1024*max(len(names), 1))
	commands := `{"id":1,"connect":{}}`
	for i, name := range names {
		commands += fmt.Sprintf("\n"+`{"id":%d,"subscribe":{"channel":"%s"}}`, i+2, name)
	}
	for _, step := range []struct{ say, hear string }{
		{handshake, "\r\n\r\n"}, {text(commands), fmt.Sprintf(`{"id":%d,"subscribe":{`, len(names)+1)},
	} {
		_, err := syscall.Write(fd, []byte(step.say))
		must(t, err)
		for got := buf[:0]; !bytes.Contains(got, []byte(step.hear)); {
			n, err := syscall.Read(fd, buf[len(got):])
			must(t, err)
			got = buf[:len(got)+n]
		}
	}
	return fd
}

// inUse returns the bytes of the heap and of stacks.
func inUse() int64 {
	runtime.GC()
	runtime.GC() // the first one may leave what finalizers hold
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapInuse + m.StackInuse) //nolint:gosec // far below 2^63
}
