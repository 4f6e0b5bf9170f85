package eventloop_test

import (
	"fmt"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/sluice-push/sluice/internal/eventloop"
	"github.com/sluice-push/sluice/internal/testwait"
)

// list makes a list that is closed with the test.
func list(t testing.TB) *eventloop.Poller {
	t.Helper()
	l, err := eventloop.NewPoller()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}

// pair returns two connected descriptors.
func pair(t testing.TB) (a, b int) {
	t.Helper()
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC|syscall.SOCK_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = syscall.Close(fds[0]), syscall.Close(fds[1]) })
	return fds[0], fds[1]
}

func write(t testing.TB, fd int, p string) {
	t.Helper()
	if _, err := syscall.Write(fd, []byte(p)); err != nil {
		t.Fatal(err)
	}
}

// waits are the ways to wait.
var waits = map[string]func(l *eventloop.Poller, b *eventloop.EventBuffer, d time.Duration) error{
	"wait": (*eventloop.Poller).Wait,
	"park": (*eventloop.Poller).Park,
}

// overWaits runs f for each way to wait.
func overWaits(t *testing.T, f func(t *testing.T, wait func(l *eventloop.Poller, b *eventloop.EventBuffer, d time.Duration) error)) {
	t.Helper()
	for name, wait := range waits {
		t.Run(name, func(t *testing.T) { f(t, wait) })
	}
}

const data = 0xfedcba9876543210

// Interest is level triggered: a ready descriptor is reported again until it is no longer ready. A changed interest counts from then on.
func TestLevels(t *testing.T) {
	overWaits(t, func(t *testing.T, wait func(*eventloop.Poller, *eventloop.EventBuffer, time.Duration) error) {
		l, b := list(t), eventloop.NewEventBuffer(8)
		fd, peer := pair(t)
		if err := l.Add(fd, eventloop.In, data); err != nil {
			t.Fatal(err)
		}
		expect := func(ready uint32) {
			t.Helper()
			if err := wait(l, b, 0); err != nil {
				t.Fatal(err)
			}
			var got uint32
			if b.Len() > 0 {
				ev := b.At(0)
				if got = ev.Ready; ev.ID() != data || ev.IsWake() {
					t.Errorf("an event of %x", ev.ID())
				}
			}
			if got != ready || b.Len() > 1 {
				t.Errorf("%d events, ready for %x, want %x", b.Len(), got, ready)
			}
		}
		expect(0)
		write(t, peer, "hello")
		expect(eventloop.In)
		expect(eventloop.In)
		if err := l.Change(fd, eventloop.In|eventloop.Out|eventloop.OneShot, data); err != nil {
			t.Fatal(err)
		}
		expect(eventloop.In | eventloop.Out)
		expect(0)
		if err := l.Change(fd, eventloop.Out, data); err != nil {
			t.Fatal(err)
		}
		expect(eventloop.Out)
		if err := l.Remove(fd); err != nil {
			t.Fatal(err)
		}
		expect(0)
	})
}

// A goroutine that waits is woken by an event, by Wake before or during the wait, and by the timeout.
func TestWaking(t *testing.T) {
	overWaits(t, func(t *testing.T, wait func(*eventloop.Poller, *eventloop.EventBuffer, time.Duration) error) {
		l, b := list(t), eventloop.NewEventBuffer(8)
		fd, peer := pair(t)
		if err := l.Add(fd, eventloop.In, data); err != nil {
			t.Fatal(err)
		}
		if err := wait(l, b, time.Millisecond); err != nil || b.Len() > 0 {
			t.Fatalf("%d events, %v", b.Len(), err)
		}
		for range 50 {
			go l.Wake()
			if err := wait(l, b, -1); err != nil {
				t.Fatal(err)
			}
			if b.Len() != 1 {
				t.Fatalf("%d events", b.Len())
			}
			if ev := b.At(0); !ev.IsWake() {
				t.Fatalf("an event of %x", ev.ID())
			}
			l.ClearWake()
			done := make(chan struct{})
			go func() { defer close(done); write(t, peer, "x") }()
			if err := wait(l, b, -1); err != nil {
				t.Fatal(err)
			}
			testwait.Receive(t, done)
			var p [1]byte
			if n, err := syscall.Read(fd, p[:]); n != 1 || err != nil || b.Len() != 1 {
				t.Fatalf("%d events, read %d, %v", b.Len(), n, err)
			}
		}
	})
}

// The runtime's poller gets the events for a goroutine that parks, and no others: they would wake a thread that waits there.
func TestPollerIsLeftAlone(t *testing.T) {
	l, b := list(t), eventloop.NewEventBuffer(8)
	fd, peer := pair(t)
	if err := l.Add(fd, eventloop.In|eventloop.Edge, data); err != nil {
		t.Fatal(err)
	}
	if err := l.Park(b, time.Millisecond); err != nil {
		t.Fatal(err)
	}
	poller := list(t)
	if err := poller.Add(eventloop.Relay(l), eventloop.In, data); err != nil {
		t.Fatal(err)
	}
	for round, way := range []string{"wait", "park", "wait", "park", "park", "wait", "wait"} {
		wait := waits[way]
		if err := wait(l, b, time.Millisecond); err != nil || b.Len() > 0 { // this way from now on
			t.Fatalf("round %d: %d events, %v", round, b.Len(), err)
		}
		write(t, peer, "x")
		if err := poller.Poll(b); err != nil || b.Len() > 0 != (way == "park") {
			t.Errorf("round %d, %s: the poller is told of %d events, %v", round, way, b.Len(), err)
		}
		if err := wait(l, b, time.Minute); err != nil || b.Len() != 1 {
			t.Errorf("round %d, %s: %d events, %v", round, way, b.Len(), err)
		}
	}
}

// If the kernel refuses a call, the error names that call.
func TestRefused(t *testing.T) {
	l := list(t)
	file, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if err := l.Add(int(file.Fd()), eventloop.In, data); err == nil { // a file is always ready: epoll_ctl(2)
		t.Error("a file was accepted")
	}
}

func ExamplePoller() {
	l, err := eventloop.NewPoller()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer l.Close()
	l.Wake()
	b := eventloop.NewEventBuffer(8)
	if err := l.Wait(b, -1); err != nil {
		fmt.Println(err)
		return
	}
	ev := b.At(0)
	fmt.Println(b.Len(), ev.IsWake())
	// Output: 1 true
}
