package transport_test

import (
	"bytes"
	"errors"
	"log/slog"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-push/sluice/transport"
)

// failing is a listener whose Accept returns errors, then conn, and then waits for Close.
type failing struct {
	errs   []error
	conn   net.Conn
	at     []time.Time
	closed chan struct{}
}

func (l *failing) Accept() (net.Conn, error) {
	l.at = append(l.at, time.Now())
	if len(l.errs) > 0 {
		err := l.errs[0]
		l.errs = l.errs[1:]
		return nil, &net.OpError{Op: "accept", Net: "fake", Err: os.NewSyscallError("accept4", err)}
	}
	if l.conn != nil {
		return l.conn, nil
	}
	<-l.closed
	return nil, net.ErrClosed
}

func (l *failing) Addr() net.Addr { return &net.UnixAddr{Name: "fake", Net: "fake"} }
func (l *failing) Close() error   { close(l.closed); return nil }

// lockedBuffer is a log that can be read while it is written.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *lockedBuffer) count(word string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return strings.Count(b.b.String(), word)
}

// Without a spare descriptor accepting pauses, longer and longer. An error of a single connection is passed over at once.
func TestPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, server := net.Pipe()
		defer client.Close()
		defer server.Close()
		errs := slices.Concat(
			[]error{syscall.ECONNABORTED, syscall.EPROTO},
			slices.Repeat([]error{syscall.EMFILE}, 5), slices.Repeat([]error{syscall.ENFILE, syscall.ENOBUFS}, 3),
			[]error{syscall.ECONNABORTED, syscall.ENOMEM},
		)
		f := &failing{errs: errs, conn: server, closed: make(chan struct{})}
		log := new(lockedBuffer)
		l, err := transport.Wrap(f, &transport.Options{Logger: slog.New(slog.NewTextHandler(log, nil))})
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		conn, err := l.Accept()
		if conn != server || err != nil {
			t.Fatal(conn, err)
		}
		var pauses []time.Duration
		for i := range f.at[1:] {
			pauses = append(pauses, f.at[i+1].Sub(f.at[i]))
		}
		const ms = time.Millisecond
		want := []time.Duration{0, 0, 5 * ms, 10 * ms, 20 * ms, 40 * ms, 80 * ms, 160 * ms, 320 * ms, 640 * ms, time.Second, time.Second, time.Second, 0, 5 * ms}
		if !slices.Equal(pauses, want) {
			t.Errorf("pauses %v, not %v", pauses, want)
		}
		if got, want := l.Stats(), (transport.Stats{Accepted: 1, Aborted: 3, Exhausted: 12, Pauses: 12}); got != want {
			t.Errorf("%+v, not %+v", got, want)
		}
		if n := log.count("WARN"); n != 1 {
			t.Errorf("%d warnings within five seconds", n)
		}
	})
}

// Close ends a pause.
func TestCloseWhilePausing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &failing{errs: slices.Repeat([]error{syscall.EMFILE}, 100), closed: make(chan struct{})}
		l, err := transport.Wrap(f, nil)
		if err != nil {
			t.Fatal(err)
		}
		start, done := time.Now(), make(chan error)
		go func() {
			_, err := l.Accept()
			done <- err
		}()
		synctest.Wait()
		_ = l.Close()
		if err := <-done; !errors.Is(err, net.ErrClosed) || time.Since(start) != 0 {
			t.Error(err, time.Since(start))
		}
	})
}

// A permanent error ends accepting.
func TestAcceptFails(t *testing.T) {
	f := &failing{errs: []error{syscall.EINVAL}, closed: make(chan struct{})}
	l, err := transport.Wrap(f, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if _, err := l.Accept(); !errors.Is(err, syscall.EINVAL) {
		t.Error(err)
	}
}
