package websocket_test

import (
	"io"
	"net"
	"testing"
	"time"

	"github.com/sluice-push/sluice/websocket"
)

// BenchmarkOpen opens connections and resets them, one after the other, with a minimal client.
func BenchmarkOpen(b *testing.B) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	srv := websocket.NewServer(echo, nil)
	served := make(chan error, 1)
	go func() { served <- srv.Serve(ln) }()
	defer func() {
		_ = srv.Close()
		<-served
	}()
	answer := make([]byte, 129)
	b.ReportAllocs()
	for b.Loop() {
		conn, err := net.Dial("tcp", ln.Addr().String())
		if err != nil {
			b.Fatal(err)
		}
		_ = conn.SetDeadline(time.Now().Add(patience))
		_ = conn.(*net.TCPConn).SetLinger(0)
		if _, err := io.WriteString(conn, request); err != nil {
			b.Fatal(err)
		}
		if _, err := io.ReadFull(conn, answer); err != nil {
			b.Fatal(err)
		}
		_ = conn.Close()
	}
}
