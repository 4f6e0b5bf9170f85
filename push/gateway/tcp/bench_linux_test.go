package tcp_test

import (
	"net"
	"runtime"
	"syscall"
	"testing"

	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/push/gateway"
	"github.com/sluice-push/sluice/push/gateway/tcp"
	"github.com/sluice-push/sluice/push/protocol"
	"github.com/sluice-push/sluice/push/protocol/protobuf"
)

// BenchmarkIdleClient says what a connected client with a subscription costs while nothing happens: heap and stacks, without what the kernel
// holds. The clients are bare descriptors, which cost this process nothing.
func BenchmarkIdleClient(b *testing.B) {
	const clients = 1000
	for name, engine := range engines {
		b.Run(name, func(b *testing.B) {
			p := newPlace(b, &gateway.Options{PingInterval: -1}, &tcp.Options{Engine: engine})
			to := &syscall.SockaddrInet4{Port: p.address.(*net.TCPAddr).Port, Addr: [4]byte{127, 0, 0, 1}}
			p.subscribe("a") // so that the channel is there
			for b.Loop() {
				before := inUse()
				fds := make([]int, clients)
				for i := range fds {
					fds[i] = bareClient(b, to)
				}
				b.ReportMetric(float64(inUse()-before)/clients, "B/client")
				for _, fd := range fds {
					must(b, syscall.Close(fd))
				}
				testwait.True(b, "all have left", func() bool { return p.gateway.Len() == 1 })
			}
		})
	}
}

// bareClient connects, subscribes and waits for the answers.
func bareClient(t testing.TB, to syscall.Sockaddr) (fd int) {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	must(t, err)
	must(t, syscall.Connect(fd, to))
	commands := protobuf.AppendCommand(nil, &protocol.Command{ID: 1, Kind: protocol.KindConnect})
	commands = protobuf.AppendCommand(commands, &protocol.Command{ID: 2, Kind: protocol.KindSubscribe, Subscribe: protocol.SubscribeRequest{Channel: "a"}})
	_, err = syscall.Write(fd, commands)
	must(t, err)
	buf := make([]byte, 1024)
	for got, answers := buf[:0], 0; answers < 2; {
		n, err := syscall.Read(fd, buf[len(got):])
		must(t, err)
		got, answers = buf[:len(got)+n], 0
		for rest := got; len(rest) > 0; answers++ {
			if _, rest, err = protobuf.Next(rest); err != nil {
				break // more is to come
			}
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
