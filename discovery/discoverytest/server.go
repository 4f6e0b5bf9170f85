package discoverytest

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/sluice-push/sluice/internal/testwait"
)

// Server is the process of a registry, which make deps installs. It is killed at the end of the test.
type Server struct {
	// Addr is where clients connect, HOST:PORT.
	Addr string

	t       testing.TB
	folder  string                        // of all files
	command func() *exec.Cmd              // of the process
	answers func(deadline time.Time) bool // whether the process answers

	cmd  *exec.Cmd
	said *Output
	gone chan struct{} // closed when the process has ended
}

// Output keeps what a program has written. The zero Output is empty and ready. It may be used concurrently.
type Output struct {
	mu   sync.Mutex
	text bytes.Buffer // guarded by mu
}

// Write implements io.Writer.
func (o *Output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

// String returns everything that was written.
func (o *Output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// Logger returns a logger that writes here.
func (o *Output) Logger() *slog.Logger { return slog.New(slog.NewTextHandler(o, nil)) }

// StartEtcd starts etcd on ports that were free, and waits until it answers. The environment variable ETCD names another program than that of the
// system.
func StartEtcd(t testing.TB) *Server {
	t.Helper()
	program := os.Getenv("ETCD")
	if program == "" {
		program = "etcd"
	}
	s := &Server{t: t, folder: t.TempDir()}
	peer := ""
	s.command = func() *exec.Cmd {
		return exec.Command(program, //nolint:gosec // the program is the developer's
			"--data-dir", s.data(), "--listen-client-urls", "http://"+s.Addr, "--advertise-client-urls", "http://"+s.Addr,
			"--listen-peer-urls", "http://"+peer, "--initial-advertise-peer-urls", "http://"+peer, "--initial-cluster", "default=http://"+peer,
			"--heartbeat-interval", "20", "--election-timeout", "200")
	}
	s.answers = func(deadline time.Time) bool {
		ctx, cancel := context.WithDeadline(t.Context(), deadline)
		defer cancel()
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.Addr+"/health", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		request.Close = true
		answer, err := http.DefaultClient.Do(request)
		if err != nil {
			return false
		}
		defer func() { _ = answer.Body.Close() }()
		return answer.StatusCode == http.StatusOK // it has a leader, and reads
	}
	s.startFirst(func() { s.Addr, peer = FreeAddr(t), FreeAddr(t) })
	return s
}

// StartZooKeeper starts ZooKeeper on a port that was free, and waits until it answers.
func StartZooKeeper(t testing.TB) *Server {
	t.Helper()
	s := &Server{t: t, folder: t.TempDir()}
	s.command = func() *exec.Cmd {
		host, port, _ := net.SplitHostPort(s.Addr)
		config := filepath.Join(s.folder, "zoo.cfg")
		text := fmt.Sprintf("tickTime=200\ndataDir=%s\nclientPort=%s\nclientPortAddress=%s\nadmin.enableServer=false\n", s.data(), port, host)
		if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return exec.Command("java", "-Xmx64m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", //nolint:gosec // the file is the test's
			"/usr/share/java/zookeeper.jar:/usr/share/java/slf4j-nop.jar", "org.apache.zookeeper.server.quorum.QuorumPeerMain", config)
	}
	s.answers = func(deadline time.Time) bool {
		conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", s.Addr)
		if err != nil {
			return false
		}
		defer func() { _ = conn.Close() }()
		_ = conn.SetDeadline(deadline)
		_, _ = conn.Write([]byte("srvr"))
		answer, _ := io.ReadAll(conn)
		return bytes.Contains(answer, []byte("Mode: standalone"))
	}
	s.startFirst(func() { s.Addr = FreeAddr(t) })
	return s
}

// data returns the folder of the data.
func (s *Server) data() string { return filepath.Join(s.folder, "data") }

// startFirst starts the process on new ports until it answers: another program may have taken a port.
func (s *Server) startFirst(newPorts func()) {
	s.t.Helper()
	for attempt := 0; ; attempt++ {
		newPorts()
		s.start()
		if s.isUp() {
			break
		}
		s.Kill()
		if attempt == 5 {
			s.t.Fatalf("the registry does not start:\n%s", s.said)
		}
	}
	s.t.Cleanup(s.Kill)
}

// FreeAddr returns an address on loopback, HOST:PORT, at which no program listens for the time being.
func FreeAddr(t testing.TB) string {
	t.Helper()
	ln, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ln.Close() }()
	return ln.Addr().String()
}

// start starts the process. It does not wait for it.
func (s *Server) start() {
	s.t.Helper()
	s.said, s.gone = &Output{}, make(chan struct{})
	s.cmd = s.command()
	s.cmd.Stdout, s.cmd.Stderr = s.said, s.said
	if err := s.cmd.Start(); err != nil {
		s.t.Fatalf("start the registry, which make deps installs: %v", err)
	}
	cmd, gone := s.cmd, s.gone
	go func() {
		_ = cmd.Wait()
		close(gone)
	}()
}

// isUp waits until the process answers, and reports false if it ends.
func (s *Server) isUp() bool {
	s.t.Helper()
	up := false
	testwait.True(s.t, "the registry answers", func() bool {
		select {
		case <-s.gone:
			return true
		default:
		}
		up = s.answers(time.Now().Add(time.Second))
		return up
	})
	return up
}

// Kill ends the process without notice.
func (s *Server) Kill() {
	_ = s.cmd.Process.Kill()
	<-s.gone
}

// Restart ends the process without notice, and starts it again, with its data or without. It returns when the process answers.
func (s *Server) Restart(wiped bool) {
	s.t.Helper()
	s.Kill()
	if wiped {
		if err := os.RemoveAll(s.data()); err != nil {
			s.t.Fatal(err)
		}
	}
	s.start()
	if !s.isUp() {
		s.t.Fatalf("the registry does not start again:\n%s", s.said)
	}
}
