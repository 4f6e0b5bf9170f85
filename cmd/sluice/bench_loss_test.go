package main_test

import (
	"net"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	sluice "github.com/sluice-push/sluice/cmd/sluice"
	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/session"
	"github.com/sluice-push/sluice/websocket"
)

// lossyServer is a WebSocket server that passes each message on to all clients, except every fifth, which it drops.
type lossyServer struct {
	mu    sync.Mutex
	conns map[*websocket.Conn]bool
	count atomic.Uint64
	lost  atomic.Uint64
}

func (s *lossyServer) handler() *websocket.Handler {
	return &websocket.Handler{
		Open: func(c *websocket.Conn, _ *websocket.Request) error {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.conns[c] = true
			return nil
		},
		Message: func(_ *websocket.Conn, m websocket.Message) {
			if s.count.Add(1)%5 == 0 {
				s.lost.Add(1)
				return
			}
			s.mu.Lock()
			defer s.mu.Unlock()
			for c := range s.conns {
				_ = c.Send(m.Op, m.Data) // an error is ignored: the client has left
			}
		},
		Close: func(c *websocket.Conn, _ *session.CloseInfo) {
			s.mu.Lock()
			defer s.mu.Unlock()
			delete(s.conns, c)
		},
	}
}

// A run against a server that loses messages does not pass. The summary, the exit code and the file say so.
func TestBenchFindsLoss(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	lossy := &lossyServer{conns: map[*websocket.Conn]bool{}}
	srv := websocket.NewServer(lossy.handler(), nil)
	served := make(chan struct{})
	go func() { defer close(served); _ = srv.Serve(ln) }()
	defer func() { _ = srv.Close(); testwait.Receive(t, served) }()

	file := filepath.Join(t.TempDir(), "a.json")
	args := benchArgs("ws://"+ln.Addr().String(), "--protocol", "plain", "--publish", "client", "--patience", "300ms", "--json", file)
	code, stdout, stderr := sluice.RunCommand("", nil, args...)
	verdict, _, _ := strings.Cut(stdout, "\n")
	if code != 1 || !strings.Contains(verdict, " lost") || !strings.Contains(stderr, "sluice: the server failed the test; see the summary") {
		t.Errorf("code %d\n%s%s", code, stdout, stderr)
	}
	r := openResult(t, file)
	want := 20 * lossy.lost.Load() // including those of the warm-up
	if d := r.Deliveries; want == 0 || d.Lost != want || d.Received == 0 || d.Received >= d.Expected {
		t.Errorf("%+v, want %d lost", d, want)
	}
}
