package session_test

import (
	"bytes"
	"errors"
	"net"
	"os"
	"sync/atomic"
	"testing"

	"github.com/sluice-push/sluice/session"
)

// Replies that wait for peers that do not read keep no OS threads: the runtime ends a process that has 10,000.
func TestUnreadPeersKeepNoThreads(t *testing.T) {
	const peers = 200
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var waiting atomic.Int32
	reply := bytes.Repeat([]byte("x"), 1<<20)
	h := &session.Handler{Message: func(s *session.Session, _ []byte) {
		waiting.Add(1)
		for s.Send(reply) == nil {
		}
	}}
	srv := session.NewServer(line, h, &session.Options{Engine: session.EngineLoop, Policy: session.Wait, WriteTimeout: -1})
	served := make(chan error, 1)
	go func() { served <- srv.Serve(ln) }()
	t.Cleanup(func() {
		_ = srv.Close()
		if err := receive(t, served); !errors.Is(err, session.ErrServerClosed) {
			t.Error(err)
		}
	})
	for range peers {
		c, err := net.Dial("tcp", ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		write(t, c, "ask\n")
	}
	await(t, func() bool { return waiting.Load() == peers })
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil {
		t.Fatal(err)
	}
	if len(threads) > 64 {
		t.Errorf("%d threads for %d peers that do not read", len(threads), peers)
	}
}
