package reconnect_test

import (
	"context"
	"crypto/tls"
	"errors"
	"io/fs"
	"net"
	"path/filepath"
	"testing"
	"time"

	"github.com/sluice-push/sluice/codec"
	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/reconnect"
	"github.com/sluice-push/sluice/session"
)

// over makes a pool with its own client for a test over sockets. Both are closed at the end.
func over(t *testing.T, co *session.Options, o *reconnect.Options) (*reconnect.Pool, *recorder) {
	t.Helper()
	rec := newRecorder()
	client := session.NewClient(codec.Line{}, nil, co)
	o.State, o.Cap = rec.state, 20*time.Millisecond
	pool, err := reconnect.New(client, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = pool.Close()
		if err := rec.end(); err != nil {
			t.Error(err)
		}
		_ = client.Close()
	})
	return pool, rec
}

// A server that starts late is found, and so is a server that takes its place.
func TestServerComesLate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "socket")
	pool, rec := over(t, nil, &reconnect.Options{Network: "unix", Addresses: []string{path}, Sessions: 3, Handler: &session.Handler{}})
	pool.Start()
	if off := rec.await(t, 6, is(reconnect.BackingOff)); !errors.Is(off[0].Err, fs.ErrNotExist) {
		t.Errorf("error %v", off[0].Err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	for range 3 {
		ln, err := net.Listen("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		srv := session.NewServer(codec.Line{}, nil, nil)
		served := make(chan error, 1)
		go func() { served <- srv.Serve(ln) }()
		if err := pool.Wait(ctx, 0); err != nil {
			t.Error(err)
		}
		seen := len(rec.events(is(reconnect.BackingOff)))
		_ = srv.Close()
		_ = testwait.Receive(t, served)
		rec.await(t, seen+3, is(reconnect.BackingOff))
	}
}

// Close ends a dial whose peer is silent, without waiting for the peer.
func TestCloseDuringHandshake(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	pool, _ := over(t, &session.Options{TLS: &tls.Config{ServerName: "nobody", MinVersion: tls.VersionTLS13}, HandshakeTimeout: -1},
		&reconnect.Options{Addresses: []string{ln.Addr().String()}, DialTimeout: -1})
	pool.Start()
	conn, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.Read(make([]byte, 1)); err != nil { // the dial has begun
		t.Fatal(err)
	}
	_ = pool.Close()
}

// A handler that runs on an event loop may close its pool, and shut it down, like any other handler.
func TestCloseFromLoop(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv := session.NewServer(codec.Line{}, &session.Handler{
		Message: func(s *session.Session, msg []byte) { _ = s.Send(msg) },
	}, nil)
	served := make(chan error, 1)
	go func() { served <- srv.Serve(ln) }()
	defer func() {
		_ = srv.Close()
		_ = testwait.Receive(t, served)
	}()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	var pool *reconnect.Pool
	closed := make(chan error, 100)
	pool, _ = over(t, nil, &reconnect.Options{
		Addresses: []string{ln.Addr().String()}, Sessions: 10,
		Handler: &session.Handler{
			Message: func(*session.Session, []byte) { closed <- errors.Join(pool.Shutdown(ctx), pool.Close()) },
		},
	})
	if err := pool.Wait(ctx, 0); err != nil {
		t.Fatal(err)
	}
	for s := range pool.Sessions() {
		_ = s.Send([]byte("close"))
	}
	if err := testwait.Receive(t, closed); err != nil {
		t.Error(err)
	}
	if err := pool.Shutdown(ctx); err != nil {
		t.Error(err)
	}
}
