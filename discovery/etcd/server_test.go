package etcd_test

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/sluice-push/sluice/internal/testwait"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// program returns the etcd server to test with: that of the system, or another one that the environment names.
func program() string {
	if path := os.Getenv("ETCD"); path != "" {
		return path
	}
	return "etcd"
}

// server is a process of etcd.
type server struct {
	t      *testing.T
	folder string // of its data
	client string // HOST:PORT
	peer   string

	cmd  *exec.Cmd
	said *output
	gone chan struct{} // closed when the process has ended
}

// output keeps what a process has said.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer // guarded by mu
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// logger returns a logger that writes here.
func (o *output) logger() *slog.Logger { return slog.New(slog.NewTextHandler(o, nil)) }

// newServer starts etcd on ports that were free, and waits until it answers.
func newServer(t *testing.T) *server {
	t.Helper()
	s := &server{t: t, folder: filepath.Join(t.TempDir(), "data")}
	for attempt := 0; ; attempt++ {
		s.client, s.peer = freePort(t), freePort(t)
		s.start()
		if s.answers() {
			break
		}
		s.kill() // another program may have taken a port
		if attempt == 5 {
			t.Fatalf("etcd does not start:\n%s", s.said)
		}
	}
	t.Cleanup(s.kill)
	return s
}

func freePort(t *testing.T) string {
	t.Helper()
	ln, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ln.Close() }()
	return ln.Addr().String()
}

// start starts the process. It does not wait for it.
func (s *server) start() {
	s.t.Helper()
	s.said, s.gone = &output{}, make(chan struct{})
	s.cmd = exec.Command(program(),
		"--data-dir", s.folder, "--listen-client-urls", "http://"+s.client, "--advertise-client-urls", "http://"+s.client,
		"--listen-peer-urls", "http://"+s.peer, "--initial-advertise-peer-urls", "http://"+s.peer, "--initial-cluster", "default=http://"+s.peer,
		"--heartbeat-interval", "20", "--election-timeout", "200")
	s.cmd.Stdout, s.cmd.Stderr = s.said, s.said
	if err := s.cmd.Start(); err != nil {
		s.t.Fatalf("start etcd, which make deps installs: %v", err)
	}
	cmd, gone := s.cmd, s.gone
	go func() {
		_ = cmd.Wait()
		close(gone)
	}()
}

// answers waits until etcd answers, and reports false if its process ends.
func (s *server) answers() bool {
	s.t.Helper()
	client := s.connect()
	defer func() { _ = client.Close() }()
	ok := false
	testwait.True(s.t, "etcd answers", func() bool {
		select {
		case <-s.gone:
			return true
		default:
		}
		ctx, cancel := context.WithTimeout(s.t.Context(), time.Second)
		defer cancel()
		_, err := client.Get(ctx, "any")
		ok = err == nil
		return ok
	})
	return ok
}

// kill ends the process without notice.
func (s *server) kill() {
	_ = s.cmd.Process.Kill()
	<-s.gone
}

// restart ends the process without notice, and starts it again, with its data or without.
func (s *server) restart(wiped bool) {
	s.t.Helper()
	s.kill()
	if wiped {
		if err := os.RemoveAll(s.folder); err != nil {
			s.t.Fatal(err)
		}
	}
	s.start()
	if !s.answers() {
		s.t.Fatalf("etcd does not start again:\n%s", s.said)
	}
}

// connect returns a client, which the caller closes.
func (s *server) connect() *clientv3.Client {
	s.t.Helper()
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{s.client}})
	if err != nil {
		s.t.Fatal(err)
	}
	return client
}
