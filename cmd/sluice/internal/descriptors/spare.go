package descriptors

import (
	"errors"
	"log/slog"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/sluice-push/sluice/internal/logsample"
)

// Spare is a listener. It logs a warning when the process has no descriptor left to accept a connection. If it keeps a spare descriptor, it closes the
// spare and accepts one connection at a time even then. So health checks and metrics still get an answer.
type Spare struct {
	net.Listener
	log       *slog.Logger
	warning   logsample.Warning
	keepSpare bool // whether to keep a spare descriptor

	mu    sync.Mutex
	spare *os.File // guarded by mu; nil while a connection uses the descriptor
}

// NewSpare returns a listener that accepts from another one, and keeps a spare descriptor if keepSpare is set.
func NewSpare(l net.Listener, keepSpare bool, log *slog.Logger) *Spare {
	s := &Spare{Listener: l, log: log, keepSpare: keepSpare}
	s.acquire()
	return s
}

// acquire opens the spare descriptor if there is none. If that fails, Accept and the end of a spareConn try again.
func (s *Spare) acquire() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.keepSpare && s.spare == nil {
		s.spare, _ = os.Open(os.DevNull)
	}
}

// release closes the spare descriptor, and reports whether there was one.
func (s *Spare) release() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.spare == nil {
		return false
	}
	_ = s.spare.Close()
	s.spare = nil
	return true
}

// Accept implements net.Listener.
func (s *Spare) Accept() (net.Conn, error) {
	s.acquire()
	c, err := s.Listener.Accept()
	if !errors.Is(err, syscall.EMFILE) && !errors.Is(err, syscall.ENFILE) {
		return c, err
	}
	if s.warning.Due(time.Now()) {
		s.log.Warn("accept failed: no file descriptors left; raise the limit of open files (ulimit -n), or lower limits.sessions",
			"address", s.Addr().String(), "error", err)
	}
	if !s.release() {
		return nil, err
	}
	if c, err = s.Listener.Accept(); err != nil {
		return nil, err
	}
	return &spareConn{Conn: c, restore: sync.OnceFunc(s.acquire)}, nil
}

// Close implements net.Listener.
func (s *Spare) Close() error {
	s.mu.Lock()
	s.keepSpare = false
	s.mu.Unlock()
	s.release()
	return s.Listener.Close()
}

// spareConn is a connection that was accepted with the spare descriptor. Closing it opens the spare again.
type spareConn struct {
	net.Conn
	restore func()
}

func (c *spareConn) Close() error {
	err := c.Conn.Close()
	c.restore()
	return err
}
