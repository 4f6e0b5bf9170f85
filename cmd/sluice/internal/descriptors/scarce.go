package descriptors

import (
	"errors"
	"log/slog"
	"net"
	"net/http"
	"syscall"
	"time"

	"github.com/sluice-push/sluice/internal/logsample"
	"github.com/sluice-push/sluice/internal/sockopt"
)

// scarceTime is how long an HTTP server closes idle connections after descriptors were last scarce.
const scarceTime = 10 * time.Second

// Scarce is a listener. It keeps the connections of another listener from taking the last descriptors, which the store needs. While few are left, it closes idle
// connections of an HTTP server, and has others end with their response. While fewer are left, it closes new connections. limits.sessions does not
// count connections without a client. Some have sent no request, or a part of one. Others are for the commands of a client that has a stream, and are
// idle most of the time.
//
// Its connections and its socket are those of the listener below it, so that an upgrade listener can be on top of it: connections that become clients
// at once are bounded, too.
type Scarce struct {
	net.Listener
	below  net.Listener // has the socket
	server *http.Server // nil: there are no idle connections
	log    *slog.Logger
	limit  int                  // descriptors of the process
	newest func(c net.Conn) int // descriptorOf; tests have another

	// Owned by the goroutine in Accept.
	warning logsample.Warning
	closing bool
	until   time.Time // when to let connections be idle again
}

// idleReserve returns how many descriptors have to be left for connections to be idle: less than the default of limits.sessions leaves. With half as
// many there are no new connections.
func idleReserve(limit int) int { return min(Reserved/2, limit/8) }

// NewScarce returns a listener that accepts from another one, for a server that may be nil: then there are no idle connections. It logs when no
// descriptor is left, too. One goroutine at a time may call Accept.
func NewScarce(l net.Listener, server *http.Server, log *slog.Logger) *Scarce {
	return &Scarce{
		Listener: NewSpare(l, false, log), below: l, server: server, log: log, limit: sockopt.FileLimit(), newest: descriptorOf,
	}
}

// SyscallConn implements syscall.Conn: an upgrade listener sets an option of the socket.
func (l *Scarce) SyscallConn() (syscall.RawConn, error) {
	if c, ok := l.below.(syscall.Conn); ok {
		return c.SyscallConn()
	}
	return nil, errors.ErrUnsupported
}

// Accept implements net.Listener.
func (l *Scarce) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		now := time.Now()
		if errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) {
			l.closeIdle(now)
		}
		if err != nil {
			return nil, err
		}
		left := l.limit - l.newest(c)
		switch {
		case left <= idleReserve(l.limit)/2:
			l.closeIdle(now)
			if l.warning.Due(now) {
				l.log.Warn("connection closed: few file descriptors left; raise the limit of open files (ulimit -n), or lower limits.sessions",
					"address", l.Addr().String(), "left", left)
			}
			_ = c.Close()
			continue
		case left <= idleReserve(l.limit):
			l.closeIdle(now)
		case l.closing && now.After(l.until):
			l.keepAlives(true)
			l.closing = false
		}
		return c, nil
	}
}

// closeIdle closes idle connections, and lets none become idle for some time. Once is enough until then.
func (l *Scarce) closeIdle(now time.Time) {
	if !l.closing {
		l.keepAlives(false)
	}
	l.closing, l.until = true, now.Add(scarceTime)
}

func (l *Scarce) keepAlives(enabled bool) {
	if l.server != nil {
		l.server.SetKeepAlivesEnabled(enabled)
	}
}

// descriptorOf returns the descriptor of a new connection, 0 if it is not known. The kernel gives out the lowest free number, so this is about how
// many are in use.
func descriptorOf(c net.Conn) (number int) {
	if sc, ok := Below(c).(syscall.Conn); ok {
		if rc, err := sc.SyscallConn(); err == nil {
			_ = sockopt.WithDescriptor(rc, func(fd int) error { // fails if the connection is closed already
				number = fd
				return nil
			})
		}
	}
	return number
}

// Below returns the connection below all that wrap it and say so, as tls.Conn does.
func Below(c net.Conn) net.Conn {
	for {
		wrapper, ok := c.(interface{ NetConn() net.Conn })
		if !ok {
			return c
		}
		c = wrapper.NetConn()
	}
}
