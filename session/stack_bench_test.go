//go:build amd64 && !race

package session_test

import (
	"net"
	"runtime"
	"runtime/debug"
	"testing"

	"github.com/sluice-push/sluice/codec"
	"github.com/sluice-push/sluice/session"
)

// BenchmarkStack reports the stack of a session that has a goroutine and has echoed a message. It fails if that is more than a goroutine begins
// with, because most of the memory of an idle session is its stack. The codec needs little stack. With others, such as codec.Length, the stack
// grows once, until the peer has been silent for a while. With the race detector functions need more stack, and how much depends on the
// processor.
func BenchmarkStack(b *testing.B) {
	const sessions, begin, message = 1000, 2048, "hello"
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // a collection shrinks stacks
	for b.Loop() {
		h := echo()
		srv := session.NewServer(codec.Raw{}, &h, &session.Options{Engine: session.EngineGoroutine})
		ln := listen(b, "tcp", "127.0.0.1:0")
		served := make(chan error, 1)
		go func() { served <- srv.Serve(ln) }()
		clients := make([]net.Conn, sessions)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for i := range clients {
			var err error
			if clients[i], err = net.Dial("tcp", ln.Addr().String()); err != nil {
				b.Fatal(err)
			}
			write(b, clients[i], message)
			expect(b, clients[i], message)
		}
		runtime.ReadMemStats(&after)
		each := float64(after.StackInuse-before.StackInuse) / sessions
		b.ReportMetric(each, "B/session")
		b.ReportMetric(0, "ns/op")
		if each > begin*1.5 { // a larger stack has twice the size
			b.Errorf("a session needs %.0f bytes of stack, more than the %d with which it begins: functions below Message, or Send, need less", each, begin)
		}
		for _, c := range clients {
			_ = c.Close()
		}
		_ = srv.Close()
		<-served
	}
}
