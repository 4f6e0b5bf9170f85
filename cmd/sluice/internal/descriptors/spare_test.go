package descriptors

import (
	"bytes"
	"errors"
	"log/slog"
	"net"
	"strings"
	"syscall"
	"testing"

	"github.com/sluice-push/sluice/internal/testwait"
)

// fullListener has no descriptor for a connection unless the spare one was released.
type fullListener struct {
	net.Listener
	s       *Spare
	refused int
}

func (l *fullListener) Accept() (net.Conn, error) {
	l.s.mu.Lock()
	full := l.s.spare != nil || !l.s.keepSpare
	l.s.mu.Unlock()
	if full {
		l.refused++
		return nil, &net.OpError{Op: "accept", Err: syscall.EMFILE}
	}
	return l.Listener.Accept()
}

// When no descriptors are left, the log says so once, and health checks are still accepted, one at a time.
func TestDescriptorsUsedUp(t *testing.T) {
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	log := slog.New(slog.NewTextHandler(&text, nil))
	l := &fullListener{Listener: tcp}
	l.s = NewSpare(l, true, log)
	for range 3 {
		client, err := net.Dial("tcp", tcp.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		accepted := make(chan net.Conn, 1)
		go func() {
			c, err := l.s.Accept()
			if err != nil {
				t.Error(err)
			}
			accepted <- c
		}()
		c := testwait.Receive(t, accepted)
		_ = client.Close()
		_ = c.Close()
		_ = c.Close()
	}
	if n := strings.Count(text.String(), "no file descriptors left"); n != 1 || l.refused != 3 {
		t.Errorf("said %d times, refused %d times: %s", n, l.refused, &text)
	}
	if err := l.s.Close(); err != nil || l.s.spare != nil {
		t.Errorf("%v, the spare is kept: %v", err, l.s.spare != nil)
	}
	public := &fullListener{Listener: tcp}
	public.s = NewSpare(public, false, log)
	if _, err := public.s.Accept(); !errors.Is(err, syscall.EMFILE) {
		t.Errorf("without a spare: %v", err)
	}
}
