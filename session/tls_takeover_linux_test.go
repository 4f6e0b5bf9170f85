package session_test

import (
	"bufio"
	"crypto/tls"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/sluice-push/sluice/session"
	network "github.com/sluice-push/sluice/transport"
)

// upgraded accepts one connection, completes the TLS handshake, reads a line, and leaves what follows to a session.
func upgraded(t *testing.T, srv *session.Server, secure func(net.Conn) *tls.Conn) (addr string) {
	t.Helper()
	ln := listen(t, "tcp", "127.0.0.1:0")
	var accepting sync.WaitGroup
	t.Cleanup(func() {
		_ = ln.Close()
		accepting.Wait()
	})
	accepting.Go(func() {
		conn, err := ln.Accept()
		if err != nil {
			return
		}
		c := secure(conn)
		in := bufio.NewReaderSize(c, 16)
		first, err := in.ReadString('\n')
		if err != nil || first != "upgrade\n" {
			t.Errorf("the first line is %q, %v", first, err)
		}
		unread, _ := in.Peek(in.Buffered())
		if _, err := srv.ServeConn(c, &session.Attach{Initial: unread}); err != nil {
			t.Errorf("ServeConn: %v", err)
		}
	})
	return ln.Addr().String()
}

// A connection that has spoken TLS already goes on on a loop if ServerTLS of package transport has made it. Nothing is lost, also of what TLS has read before;
// more than one record is answered, and the end is told in order.
func TestTLSIsTakenOver(t *testing.T) {
	tests := []struct {
		name   string
		secure func(net.Conn) *tls.Conn
		engine session.Engine
		loop   bool
	}{
		{"transport", func(c net.Conn) *tls.Conn { return network.ServerTLS(c, serverTLS()) }, session.EngineAuto, true},
		{"goroutine", func(c net.Conn) *tls.Conn { return network.ServerTLS(c, serverTLS()) }, session.EngineGoroutine, false},
		{"crypto/tls", func(c net.Conn) *tls.Conn { return tls.Server(c, serverTLS()) }, session.EngineAuto, false},
		{"a wrapper below", func(c net.Conn) *tls.Conn { return network.ServerTLS(struct{ net.Conn }{c}, serverTLS()) }, session.EngineAuto, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h, sessions := opened(1)
			srv := session.NewServer(line, &h, &session.Options{Engine: tt.engine})
			defer srv.Close()
			c, err := tls.Dial("tcp", upgraded(t, srv, tt.secure), insecure())
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			long := strings.Repeat("x", 40_000) + "\n" // three records, behind the first one at once
			write(t, c, "upgrade\nfirst\n"+long+"second\n")
			expect(t, c, "first\n"+long+"second\n")
			s := receive(t, sessions)
			if session.OnLoop(s) != tt.loop {
				t.Errorf("on a loop: %v", !tt.loop)
			}
			write(t, c, "third\n")
			expect(t, c, "third\n")
			if got, ok := s.Conn().(*tls.Conn); !ok || !got.ConnectionState().HandshakeComplete || s.RemoteAddr().String() != c.LocalAddr().String() {
				t.Errorf("the connection is %T, of %v", s.Conn(), s.RemoteAddr())
			}
			s.End([]byte("bye\n"), nil)
			if got := expectEnd(t, c); got != "bye\n" {
				t.Errorf("in the end came %q", got)
			}
		})
	}
}

// A session that the server refuses, and one of a server that is closed, leave nothing open.
func TestTLSTakeOverIsRefused(t *testing.T) {
	h, _ := opened(1)
	srv := session.NewServer(line, &h, nil)
	_ = srv.Close()
	ln := listen(t, "tcp", "127.0.0.1:0")
	defer ln.Close()
	done := make(chan error, 1)
	go func() {
		conn, err := ln.Accept()
		if err != nil {
			done <- err
			return
		}
		c := network.ServerTLS(conn, serverTLS())
		if err = c.Handshake(); err == nil {
			_, err = srv.ServeConn(c, nil)
		}
		done <- err
	}()
	c, err := tls.Dial("tcp", ln.Addr().String(), insecure())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := receive(t, done); err != session.ErrServerClosed { //nolint:errorlint // exactly that
		t.Errorf("ServeConn: %v", err)
	}
	if _, err := c.Read(make([]byte, 1)); err == nil {
		t.Error("the connection is open")
	}
}
