package rpc_test

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/rpc"
	"github.com/sluice-push/sluice/session"
)

// accepting calls serve with each connection that arrives at the address it returns, until the test ends.
func accepting(t *testing.T, serve func(net.Conn)) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
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
			serve(conn)
		}
	}()
	return ln.Addr().String()
}

// A call ends, and so does Close, also if the peer resets the connection, or the caller closes it, before the session has opened.
func TestEndsBeforeItOpens(t *testing.T) {
	reset := accepting(t, func(conn net.Conn) {
		_ = conn.(*net.TCPConn).SetLinger(0)
		_ = conn.Close()
	})
	silent := accepting(t, func(conn net.Conn) { t.Cleanup(func() { _ = conn.Close() }) })
	for _, engine := range []session.Engine{session.EngineAuto, session.EngineLoop} {
		o := &rpc.ConnOptions{Session: &session.Options{Engine: engine}}
		for range 100 {
			ctx, cancel := context.WithTimeout(t.Context(), testwait.Bound)
			conn, err := rpc.Dial(ctx, "tcp", reset, o)
			if err == nil {
				err = conn.Call(ctx, "Echo", &text{"hi"}, nil)
				_ = conn.Close()
			}
			cancel()
			if code := rpc.CodeOf(err); code != rpc.Unavailable && code != rpc.Lost {
				t.Fatal(err)
			}
			if conn, err = rpc.Dial(t.Context(), "tcp", silent, o); err != nil {
				t.Fatal(err)
			}
			called := make(chan error, 1)
			go func() { called <- conn.Call(context.Background(), "Echo", &text{"hi"}, nil) }()
			_ = conn.Close()
			if code := rpc.CodeOf(testwait.Receive(t, called)); code != rpc.Unavailable && code != rpc.Lost {
				t.Fatal(code)
			}
		}
	}
}

// If the TLS handshake fails, no Conn is made; the error says why.
func TestHandshakeFails(t *testing.T) {
	address := accepting(t, func(conn net.Conn) {
		_, _ = io.WriteString(conn, "this is not TLS\n")
		_ = conn.Close()
	})
	raw, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	refused := make(chan error, 1)
	conn, err := rpc.NewConn(t.Context(), tls.Client(raw, &tls.Config{ServerName: "localhost", MinVersion: tls.VersionTLS13}), &rpc.ConnOptions{
		Session: &session.Options{Observer: &session.Observer{Refused: func(_ net.Addr, err error) { refused <- err }}},
	})
	var record tls.RecordHeaderError
	if conn != nil || rpc.CodeOf(err) != rpc.Unavailable || !errors.As(err, &record) {
		t.Errorf("%v, %v", conn, err)
	}
	if err := testwait.Receive(t, refused); !errors.As(err, &record) {
		t.Errorf("the observer was told %v", err)
	}
}

// Dial ends with its context, if the peer accepts the connection and then does not answer the handshake.
func TestHandshakeTakesTooLong(t *testing.T) {
	address := accepting(t, func(conn net.Conn) { t.Cleanup(func() { _ = conn.Close() }) })
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, err := rpc.Dial(ctx, "tcp", address, &rpc.ConnOptions{Session: &session.Options{TLS: &tls.Config{ServerName: "localhost", MinVersion: tls.VersionTLS13}}})
	if rpc.CodeOf(err) != rpc.Unavailable || !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
}
