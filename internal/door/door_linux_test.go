package door_test

import (
	"context"
	"errors"
	"net"
	"testing"

	"github.com/sluice-push/sluice/internal/door"
	"github.com/sluice-push/sluice/internal/epoll"
	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/transport"
)

// opened returns a listener with a door to a list, number 7, and closes both with the test.
func opened(t *testing.T) (*transport.Listener, *epoll.List, *door.Door) {
	ln, err := transport.Listen(context.Background(), "tcp", "127.0.0.1:0", nil)
	if err != nil {
		t.Fatal(err)
	}
	list, err := epoll.New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = ln.Close(), list.Close() })
	d, err := door.Open(ln, list, 7)
	if err != nil {
		t.Fatal(err)
	}
	return ln, list, d
}

// A loop admits who has come, not all at once, and its owner hears when the listener is closed.
func TestDoor(t *testing.T) {
	ln, list, d := opened(t)
	const conns = 100
	for range conns {
		conn, err := net.Dial("tcp", ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
	}
	events := epoll.NewBuffer(4)
	admitted := 0
	for admitted < conns {
		if err := list.Wait(events, -1); err != nil || events.Len() != 1 {
			t.Fatal(err, events.Len())
		}
		if ev := events.At(0); ev.Data() != 7 {
			t.Fatalf("a report is of %d", ev.Data())
		}
		before := admitted
		d.Admit(func(conn transport.Descriptor) {
			admitted++
			_ = conn.Close()
		})
		if n := admitted - before; n > 32 {
			t.Errorf("%d were admitted at once", n)
		}
	}
	ended := make(chan struct{})
	go func() {
		d.Wait()
		close(ended)
	}()
	_ = ln.Close()
	testwait.Receive(t, ended)
	d.Admit(func(transport.Descriptor) { t.Error("somebody was admitted") }) // a report that came late
	if _, err := door.Open(ln, list, 7); !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
}

// Where the acceptor fails the loop leaves the door, and the listener is its owner's again.
func TestLeft(t *testing.T) {
	ln, _, d := opened(t)
	d.Break()
	d.Admit(func(transport.Descriptor) { t.Error("somebody was admitted") })
	testwait.Return(t, d.Wait)
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
