package gateway_test

import (
	"context"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-push/sluice/push/gateway"
)

// pipes is a listener without sockets, for tests in fake time.
type pipes struct {
	wrap   func(net.Conn) net.Conn // of the server's side
	accept chan net.Conn
	closed chan struct{}
}

func (l *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-l.accept:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *pipes) Close() error {
	select {
	case <-l.closed:
	default:
		close(l.closed)
	}
	return nil
}

func (l *pipes) Addr() net.Addr { return pipeAddr{} }

type pipeAddr struct{}

func (pipeAddr) Network() string { return "pipe" }
func (pipeAddr) String() string  { return "pipe" }

func (l *pipes) dial(ctx context.Context) (net.Conn, error) {
	near, far := net.Pipe()
	select {
	case l.accept <- l.wrap(far):
		return near, nil
	case <-l.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// inFakeTime runs a test against a node whose clients are connected by pipes, and whose time passes only when all of it waits.
func inFakeTime(t *testing.T, o *gateway.Options, test func(t *testing.T, p *place)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ln := &pipes{accept: make(chan net.Conn), closed: make(chan struct{})}
		p := newPlaceOn(t, ln, o, nil)
		ln.wrap = func(c net.Conn) net.Conn {
			if p.wrap != nil {
				return p.wrap(c)
			}
			return c
		}
		p.dial, p.limit = ln.dial, 24*time.Hour
		test(t, p)
	})
}

// stopwatch tells how much time has passed in whole seconds, rounded down.
func stopwatch() func() int {
	began := time.Now()
	return func() int { return int(time.Since(began) / time.Second) }
}

// within fails the test unless seconds are in a range: the heartbeat looks once a second, so nothing is exact.
func within(t *testing.T, what string, got, least, most int) {
	t.Helper()
	if got < least || got > most {
		t.Errorf("%s after %d s, want %d–%d s", what, got, least, most)
	}
}

// pass lets fake time pass.
func pass(d time.Duration) { <-time.After(d) }
