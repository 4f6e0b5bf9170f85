package descriptors

import (
	"bufio"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/transport"
)

// While few descriptors are left, an HTTP server closes its idle connections and those whose response is written. With fewer left, it closes new
// connections, and says so.
func TestScarceDescriptors(t *testing.T) {
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	idle := make(chan struct{}, 3)
	server := &http.Server{
		Handler:           http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "fine") }),
		ReadHeaderTimeout: time.Minute,
		ConnState: func(_ net.Conn, s http.ConnState) {
			if s == http.StateIdle {
				idle <- struct{}{}
			}
		},
	}
	numbers := make(chan int, 1) // the descriptor of the next connection
	said := make(chan string, 3)
	l := &Scarce{Listener: tcp, server: server, log: slog.New(slog.NewTextHandler(lineWriter(said), nil)), limit: 1024}
	l.newest = func(net.Conn) int { return <-numbers }
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(l) })
	defer testwait.Return(t, serving.Wait)
	defer func() { _ = server.Close() }()
	const plenty, scarce, none = 895, 896, 960
	ask := func(number int) (in *bufio.Reader, closes bool) {
		t.Helper()
		numbers <- number
		return askHTTP(t, tcp.Addr().String())
	}
	first, closes := ask(plenty)
	if closes {
		t.Error("with enough descriptors a connection ends with its response")
	}
	testwait.Receive(t, idle)
	second, closes := ask(scarce)
	if !closes {
		t.Error("with few descriptors a connection is kept")
	}
	for name, in := range map[string]*bufio.Reader{"idle": first, "answered": second} {
		if b, err := in.ReadByte(); !errors.Is(err, io.EOF) && !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("the %s connection is open: %q, %v", name, b, err)
		}
	}
	if _, closes = ask(plenty); !closes {
		t.Error("right afterwards a connection is kept")
	}
	numbers <- none
	c, err := net.Dial("tcp", tcp.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	_ = c.SetDeadline(time.Now().Add(testwait.Bound))
	if n, err := c.Read(make([]byte, 1)); n > 0 || !errors.Is(err, io.EOF) && !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("without a descriptor to spare: %v", err)
	}
	if line := testwait.Receive(t, said); !strings.Contains(line, "few file descriptors left") {
		t.Errorf("it says %s", line)
	}
}

// askHTTP sends a request over a connection of its own. It returns what is read from the connection, and whether the response ends it.
func askHTTP(t *testing.T, address string) (in *bufio.Reader, closes bool) {
	t.Helper()
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(testwait.Bound))
	if _, err := io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	in = bufio.NewReader(c)
	r, err := http.ReadResponse(in, nil)
	if err != nil {
		t.Fatal(err)
	}
	if body, err := io.ReadAll(r.Body); err != nil || string(body) != "fine" {
		t.Fatalf("%q, %v", body, err)
	}
	return in, r.Close
}

// The socket of a listener on top is that of the listener below, if it has one.
func TestScarceSocket(t *testing.T) {
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tcp.Close() }()
	log := slog.New(slog.DiscardHandler)
	socket, err := NewScarce(tcp, nil, log).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	below, err := tcp.(*net.TCPListener).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	if got, want := descriptorFrom(t, socket), descriptorFrom(t, below); got != want {
		t.Errorf("descriptor %d, want %d", got, want)
	}
	if _, err := NewScarce(transport.NewMemory(0), nil, log).SyscallConn(); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("without a socket: %v", err)
	}
}

// descriptorFrom returns the descriptor, or the handle, of a socket.
func descriptorFrom(t *testing.T, socket syscall.RawConn) (fd uintptr) {
	t.Helper()
	if err := socket.Control(func(f uintptr) { fd = f }); err != nil {
		t.Fatal(err)
	}
	return fd
}

// lineWriter sends each write.
type lineWriter chan string

func (w lineWriter) Write(p []byte) (int, error) {
	w <- string(p)
	return len(p), nil
}

// errListener accepts nothing but errors.
type errListener struct {
	net.Listener
	err error
}

func (l *errListener) Accept() (net.Conn, error) {
	if l.err != nil {
		return nil, l.err
	}
	here, there := net.Pipe()
	_ = there.Close()
	return here, nil
}

// When no descriptor is left, connections are closed, too, for a while.
func TestScarceForAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := &errListener{err: &net.OpError{Op: "accept", Err: syscall.EMFILE}}
		l := &Scarce{Listener: source, server: &http.Server{ReadHeaderTimeout: time.Minute}, limit: 1024, newest: descriptorOf}
		if _, err := l.Accept(); !errors.Is(err, syscall.EMFILE) || !l.closing {
			t.Errorf("%v, %t", err, l.closing)
		}
		source.err = nil
		for _, want := range []bool{true, false} {
			c, err := l.Accept()
			if err != nil || l.closing != want {
				t.Errorf("%v, %t, want %t", err, l.closing, want)
			}
			_ = c.Close()
			<-time.After(scarceTime + 1)
		}
		source.err = errors.New("something else")
		if _, err := l.Accept(); err == nil || !strings.Contains(err.Error(), "else") || l.closing {
			t.Errorf("%v, %t", err, l.closing)
		}
	})
}
