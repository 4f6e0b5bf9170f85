package nats_test

import (
	"bufio"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/push/pushtest"
)

// serverBinary builds the stand-alone server, once, from the module that the embedded one comes from.
var serverBinary = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "sluice-nats-server-")
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "nats-server")
	out, err := exec.Command("go", "build", "-o", path, "github.com/nats-io/nats-server/v2").CombinedOutput()
	if err != nil {
		err = fmt.Errorf("build the server: %w: %s", err, out)
	}
	return path, err
})

// TestMain is also the main function of the child processes that tests start and kill.
func TestMain(m *testing.M) {
	if isChild() {
		os.Exit(runChild())
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		if path, err := serverBinary(); err == nil {
			_ = os.RemoveAll(filepath.Dir(path))
		}
		os.Exit(code)
	}))
}

const serverToken = "secret-of-the-tests"

// process is a stand-alone server that keeps its data in a folder of its own, behind a proxy whose address stays the same when
// the server is started again.
type process struct {
	t     *testing.T
	store string
	extra string // of its configuration
	proxy *proxy
	cmd   *exec.Cmd
	read  chan struct{} // closed when its output has ended
}

// startProcess starts a server on an empty store.
func startProcess(t *testing.T, extra string) *process {
	t.Helper()
	p := &process{t: t, store: t.TempDir(), extra: extra, proxy: newProxy(t)}
	p.start()
	t.Cleanup(p.kill)
	return p
}

var (
	listening = regexp.MustCompile(`Listening for client connections on (\S+)`)
	ready     = regexp.MustCompile(`Server is ready`)
)

// start starts the server on its store and waits until it is ready.
func (p *process) start() {
	p.t.Helper()
	path, err := serverBinary()
	if err != nil {
		p.t.Fatal(err)
	}
	config := filepath.Join(p.t.TempDir(), "server.conf")
	text := fmt.Sprintf("listen: \"127.0.0.1:-1\"\nmax_payload: %d\nauthorization { token: %q }\n%s\n",
		maxPublication+64<<10, serverToken, p.extra)
	if p.store != "" {
		text += fmt.Sprintf("jetstream { store_dir: %q }\n", p.store)
	}
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		p.t.Fatal(err)
	}
	p.cmd = exec.Command(path, "-c", config)
	out, err := p.cmd.StderrPipe()
	if err != nil {
		p.t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	address, isReady := make(chan string, 1), make(chan struct{})
	p.read = make(chan struct{})
	go func() {
		defer close(p.read)
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			if found := listening.FindStringSubmatch(lines.Text()); found != nil {
				address <- found[1]
			}
			if ready.MatchString(lines.Text()) {
				close(isReady)
			}
		}
		_, _ = io.Copy(io.Discard, out)
	}()
	timer := time.NewTimer(pushtest.Patience)
	defer timer.Stop()
	select {
	case <-isReady:
		p.proxy.leadTo(testwait.Receive(p.t, address))
	case <-p.read:
		p.t.Fatal("the server does not start")
	case <-timer.C:
		p.t.Fatal("the server takes too long to start")
	}
}

// kill ends the server at once, if it runs.
func (p *process) kill() {
	if p.cmd == nil {
		return
	}
	p.proxy.leadTo("")
	_ = p.cmd.Process.Kill()
	testwait.Receive(p.t, p.read)
	_ = p.cmd.Wait() // it returns an error because the server was killed
	p.cmd = nil
}

// url returns the address of the server.
func (p *process) url() string {
	u := url.URL{Scheme: "nats", User: url.User(serverToken), Host: p.proxy.address()}
	return u.String()
}

// startPlain starts a server without JetStream.
func startPlain(t *testing.T) *process {
	t.Helper()
	p := &process{t: t, proxy: newProxy(t)}
	p.start()
	t.Cleanup(p.kill)
	return p
}
