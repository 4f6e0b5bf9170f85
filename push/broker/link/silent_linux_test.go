package link_test

import (
	"io"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/push/broker/link"
	"github.com/sluice-push/sluice/push/broker/memory"
	hublink "github.com/sluice-push/sluice/push/link"
)

// cuttable passes one connection on to a hub. When it is cut, nothing passes, and attempts to connect get no answer.
type cuttable struct {
	net.Listener
	isCut atomic.Bool
}

// newCuttable returns a listener that is closed at the end of the test.
func newCuttable(t *testing.T, target string) *cuttable {
	t.Helper()
	c := &cuttable{Listener: listen(t)}
	raw, err := c.Listener.(*net.TCPListener).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	// The kernel answers attempts to connect only while its queue of connections to accept has room: here, for one.
	if err := raw.Control(func(fd uintptr) { err = syscall.Listen(int(fd), 0) }); err != nil {
		t.Fatal(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	t.Cleanup(func() { testwait.Return(t, running.Wait) })
	t.Cleanup(func() { _ = c.Close() })
	running.Go(func() {
		near, err := c.Accept()
		if err != nil {
			return
		}
		defer func() { _ = near.Close() }()
		far, err := net.Dial("tcp", target)
		if err != nil {
			t.Error(err)
			return
		}
		running.Go(func() { c.pass(near, far) })
		c.pass(far, near)
	})
	return c
}

func (c *cuttable) pass(to io.WriteCloser, from io.Reader) {
	defer func() { _ = to.Close() }()
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		if err != nil {
			return
		}
		if !c.isCut.Load() {
			_, _ = to.Write(buffer[:n])
		}
	}
}

// cut returns when attempts to connect get no answer any more.
func (c *cuttable) cut(t *testing.T) {
	t.Helper()
	c.isCut.Store(true)
	testwait.True(t, "attempts to connect get no answer", func() bool {
		filler, err := net.DialTimeout("tcp", c.Addr().String(), 100*time.Millisecond)
		if err == nil {
			t.Cleanup(func() { _ = filler.Close() })
		}
		return err != nil
	})
}

// When a hub has fallen silent, operations go to the next hub at once, and do not wait for an attempt to reach the first again.
func TestHubFallsSilent(t *testing.T) {
	first := newHub(t, hublink.Options{}, memory.Options{})
	second := &hub{t: t, address: "127.0.0.1:0", broker: first.broker}
	second.serve()
	t.Cleanup(second.stop)
	way := newCuttable(t, first.address)
	hubs := &movable{changed: make(chan struct{})}
	hubs.set(way.Addr().String(), second.address)
	b, err := link.New(&link.Options{Placement: hubs, Timeout: time.Hour, Heartbeat: 50 * time.Millisecond, Connections: 1})
	if err != nil {
		t.Fatal(err)
	}
	closes(t, b)
	f := &follower{}
	attach(t, b, f, "n:a")
	f.reaches(t, publish(t, b, "n:a", 1))
	if first.server.Links() == 0 {
		t.Error("the gateway has no link to the first hub")
	}
	way.cut(t)
	f.reaches(t, publish(t, first.broker, "n:a", 5))
}
