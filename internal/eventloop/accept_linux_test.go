package eventloop_test

import (
	"context"
	"errors"
	"net"
	"testing"

	"github.com/sluice-push/sluice/internal/eventloop"
	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/transport"
)

// accepting returns a listener that is registered with a poller under the id 7, and closes both with the test. Connections go to admit.
func accepting(t *testing.T, admit func(transport.Descriptor)) (*transport.Listener, *eventloop.Poller, *eventloop.Acceptor) {
	ln, err := transport.Listen(context.Background(), "tcp", "127.0.0.1:0", nil)
	if err != nil {
		t.Fatal(err)
	}
	p, err := eventloop.NewPoller()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = ln.Close(), p.Close() })
	a, err := eventloop.NewAcceptor(ln, p, 7, func(d transport.Descriptor, _ net.Addr) { admit(d) })
	if err != nil {
		t.Fatal(err)
	}
	return ln, p, a
}

// Connections are accepted some at a time, and the owner of the listener hears when it is closed.
func TestAcceptor(t *testing.T) {
	admitted, open := 0, true
	ln, p, a := accepting(t, func(d transport.Descriptor) {
		if admitted++; !open {
			t.Error("a connection was accepted after the listener was closed")
		}
		_ = d.Close()
	})
	const conns = 100
	for range conns {
		conn, err := net.Dial("tcp", ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
	}
	events := eventloop.NewEventBuffer(4)
	for admitted < conns {
		if err := p.Wait(events, -1); err != nil || events.Len() != 1 {
			t.Fatal(err, events.Len())
		}
		if ev := events.At(0); ev.ID() != 7 {
			t.Fatalf("the event is of %d", ev.ID())
		}
		before := admitted
		a.Accept()
		if n := admitted - before; n > 32 {
			t.Errorf("%d connections were accepted at once", n)
		}
	}
	ended := make(chan struct{})
	go func() {
		a.Wait()
		close(ended)
	}()
	_ = ln.Close()
	testwait.Receive(t, ended)
	open = false
	a.Accept() // an event that was late
	if _, err := eventloop.NewAcceptor(ln, p, 7, nil); !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
}

// If accepting fails, the listener belongs to its owner again.
func TestAcceptorFails(t *testing.T) {
	ln, _, a := accepting(t, func(transport.Descriptor) { t.Error("a connection was accepted") })
	eventloop.Break(a)
	a.Accept()
	testwait.Return(t, a.Wait)
	conn, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	accepted, err := ln.AcceptDescriptor()
	if err != nil {
		t.Fatal(err)
	}
	_ = accepted.Close()
}
