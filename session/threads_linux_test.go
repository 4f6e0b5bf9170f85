package session_test

import (
	"bytes"
	"errors"
	"net"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/sluice-push/sluice/session"
)

// Handlers wait for peers that do not read their replies, without keeping OS threads: the runtime ends a process that has 10,000. Handlers that
// compute before they wait lose their loop to the watchdog.
func TestUnreadPeersKeepNoThreads(t *testing.T) {
	t.Run("after computing", func(t *testing.T) { unreadPeers(t, 30*time.Millisecond) })
	t.Run("at once", func(t *testing.T) { unreadPeers(t, 0) })
}

func unreadPeers(t *testing.T, compute time.Duration) {
	const peers, most = 60, 20
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	reply := bytes.Repeat([]byte("x"), 64<<10)
	h := &session.Handler{Message: func(s *session.Session, _ []byte) {
		for end := time.Now().Add(compute); time.Now().Before(end); { //nolint:revive // it computes
		}
		for err := error(nil); err == nil; {
			err = s.Send(reply)
		}
	}}
	o := &session.Options{Engine: session.EngineLoop, Policy: session.Wait, WriteTimeout: -1, SendBuffer: 8 << 10}
	srv := session.NewServer(line, h, o)
	served := make(chan error, 1)
	go func() { served <- srv.Serve(ln) }()
	t.Cleanup(func() {
		_ = srv.Close()
		if err := receive(t, served); !errors.Is(err, session.ErrServerClosed) {
			t.Error(err)
		}
	})
	before := threads(t)
	for range peers {
		c, err := net.Dial("tcp", ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		write(t, c, "ask\n")
	}
	await(t, func() bool { return srv.Stats().HandedOff+srv.Stats().Moved >= peers })

	if more := threads(t) - before; more > most {
		t.Errorf("%d more threads for %d peers that do not read", more, peers)
	}
}

// On event loops, answers that peers do not read take neither goroutines nor much memory.
func TestUnreadPeersTakeNoGoroutines(t *testing.T) {
	const peers, most = 100, 10
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	h := echo()
	srv := session.NewServer(line, &h, &session.Options{WriteTimeout: -1, SendBuffer: 8 << 10})
	served := make(chan error, 1)
	go func() { served <- srv.Serve(ln) }()
	t.Cleanup(func() {
		_ = srv.Close()
		if err := receive(t, served); !errors.Is(err, session.ErrServerClosed) {
			t.Error(err)
		}
	})
	before := runtime.NumGoroutine()
	questions := bytes.Repeat([]byte("x\n"), 5000)
	for range peers {
		c, err := net.Dial("tcp", ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		_ = c.(*net.TCPConn).SetReadBuffer(4 << 10)
		go func() { // until the connection is closed, because the server does not read any more
			for err := error(nil); err == nil; {
				_, err = c.Write(questions)
			}
		}()
	}
	await(t, func() bool {
		paused := 0
		for s := range srv.Sessions() {
			if s.IsOverloaded() {
				paused++
			}
		}
		return paused == peers
	})
	// On a busy machine some handlers lose their loop, and their goroutines live for a moment longer.
	await(t, func() bool { return runtime.NumGoroutine()-before-peers <= most })
	for s := range srv.Sessions() {
		if n := s.Queued(); n > 64<<10 {
			t.Errorf("%d bytes wait for one", n)
		}
	}
}

// threads returns how many OS threads the process has. The runtime never ends idle ones.
func threads(t *testing.T) int {
	t.Helper()
	all, err := os.ReadDir("/proc/self/task")
	if err != nil {
		t.Fatal(err)
	}
	return len(all)
}
