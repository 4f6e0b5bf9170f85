package zookeeper_test

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/sluice-push/sluice/internal/testwait"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// server is a process of ZooKeeper.
type server struct {
	t      *testing.T
	folder string // of its configuration and data
	client string // HOST:PORT

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

// newServer starts ZooKeeper on a port that was free, and waits until it answers.
func newServer(t *testing.T) *server {
	t.Helper()
	s := &server{t: t, folder: t.TempDir()}
	for attempt := 0; ; attempt++ {
		s.client = freePort(t)
		s.start()
		if s.answers() {
			break
		}
		s.kill() // another program may have taken the port
		if attempt == 5 {
			t.Fatalf("ZooKeeper does not start:\n%s", s.said)
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
	host, port, _ := net.SplitHostPort(s.client)
	config := filepath.Join(s.folder, "zoo.cfg")
	text := fmt.Sprintf("tickTime=200\ndataDir=%s\nclientPort=%s\nclientPortAddress=%s\nadmin.enableServer=false\n", filepath.Join(s.folder, "data"), port, host)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
	s.cmd = exec.Command("java", "-Xmx64m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", "/usr/share/java/zookeeper.jar:/usr/share/java/slf4j-nop.jar",
		"org.apache.zookeeper.server.quorum.QuorumPeerMain", config)
	s.cmd.Stdout, s.cmd.Stderr = s.said, s.said
	if err := s.cmd.Start(); err != nil {
		s.t.Fatalf("start ZooKeeper, which make deps installs: %v", err)
	}
	cmd, gone := s.cmd, s.gone
	go func() {
		_ = cmd.Wait()
		close(gone)
	}()
}

// answers waits until ZooKeeper answers, and reports false if its process ends.
func (s *server) answers() bool {
	s.t.Helper()
	ok := false
	testwait.True(s.t, "ZooKeeper answers", func() bool {
		select {
		case <-s.gone:
			return true
		default:
		}
		conn, err := new(net.Dialer).DialContext(s.t.Context(), "tcp", s.client)
		if err != nil {
			return false
		}
		defer func() { _ = conn.Close() }()
		_ = conn.SetDeadline(time.Now().Add(time.Second))
		_, _ = conn.Write([]byte("srvr"))
		answer, _ := io.ReadAll(conn)
		ok = bytes.Contains(answer, []byte("Mode: standalone"))
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
		if err := os.RemoveAll(filepath.Join(s.folder, "data")); err != nil {
			s.t.Fatal(err)
		}
	}
	s.start()
	if !s.answers() {
		s.t.Fatalf("ZooKeeper does not start again:\n%s", s.said)
	}
}
