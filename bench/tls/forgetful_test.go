package main

import (
	"crypto/tls"
	"io"
	"net"
	"testing"
)

// forgetful serves TLS connections until the test ends. It gives no tickets, so that no session can be resumed. It returns its address.
func forgetful(t *testing.T, c *certificate) string {
	t.Helper()
	pair, err := tls.LoadX509KeyPair(c.cert, c.key)
	if err != nil {
		t.Fatal(err)
	}
	ln, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{pair}, SessionTicketsDisabled: true})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	t.Cleanup(func() {
		_ = ln.Close()
		<-done
	})
	go func() {
		defer close(done)
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			answerEnd(conn)
		}
	}()
	return ln.Addr().String()
}

// answerEnd reads until the client ends the connection, and closes it.
func answerEnd(conn net.Conn) {
	_, _ = io.Copy(io.Discard, conn)
	_ = conn.Close()
}
