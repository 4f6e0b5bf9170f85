package session_test

import (
	"crypto/tls"
	"io"
	"net"
	"runtime"
	"testing"

	"github.com/sluice-push/sluice/session"
)

// BenchmarkIdleMemoryTLS opens sessions over TLS, lets each echo one message, and reports the heap and stack of one idle session on the server's
// side: the difference after the server has been closed. The messages are small or large, because crypto/tls keeps the buffer that a record
// needed.
func BenchmarkIdleMemoryTLS(b *testing.B) {
	const sessions = 2000
	for _, engine := range []struct {
		name string
		e    session.Engine
	}{{"loop", session.EngineLoop}, {"goroutine", session.EngineGoroutine}} {
		for _, size := range []struct {
			name  string
			bytes int
		}{{"small", 6}, {"large", 16 << 10}} {
			b.Run(engine.name+"/"+size.name, func(b *testing.B) {
				message := append(make([]byte, size.bytes-1), '\n')
				buf := make([]byte, size.bytes)
				for b.Loop() {
					h := echo()
					srv := session.NewServer(line, &h, &session.Options{Engine: engine.e, TLS: serverTLS()})
					dial := overTLS(serve(b, srv, listen(b, "tcp", "127.0.0.1:0")))
					clients := make([]net.Conn, sessions)
					for i := range clients {
						var err error
						if clients[i], err = dial(); err != nil {
							b.Fatal(err)
						}
						if _, err = clients[i].Write(message); err == nil {
							_, err = io.ReadFull(clients[i], buf)
						}
						if err != nil {
							b.Fatal(err)
						}
					}
					open := memory()
					_ = srv.Close()
					b.ReportMetric(float64(open-memory())/sessions, "B/session")
					b.ReportMetric(0, "ns/op")
					for _, c := range clients {
						_ = c.(*tls.Conn).NetConn().Close()
					}
					runtime.KeepAlive(srv)
				}
			})
		}
	}
}
