package epoll_test

import (
	"fmt"
	"os"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/sluice-push/sluice/internal/epoll"
	"github.com/sluice-push/sluice/internal/testwait"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// list makes a list that is closed with the test.
func list(t testing.TB) *epoll.List {
	t.Helper()
	l, err := epoll.New()
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
var waits = map[string]func(l *epoll.List, b *epoll.Buffer, d time.Duration) error{
	"wait": (*epoll.List).Wait,
	"park": (*epoll.List).Park,
}

// overWaits runs f for each way to wait.
func overWaits(t *testing.T, f func(t *testing.T, wait func(l *epoll.List, b *epoll.Buffer, d time.Duration) error)) {
	t.Helper()
	for name, wait := range waits {
		t.Run(name, func(t *testing.T) { f(t, wait) })
	}
}

const data = 0xfedcba9876543210

// Interest is level triggered: what is ready is told again until it is not, and what is changed counts from then on.
func TestLevels(t *testing.T) {
	overWaits(t, func(t *testing.T, wait func(*epoll.List, *epoll.Buffer, time.Duration) error) {
		l, b := list(t), epoll.NewBuffer(8)
		fd, peer := pair(t)
		if err := l.Add(fd, epoll.In, data); err != nil {
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
				if got = ev.Ready; ev.Data() != data || ev.Woken() {
					t.Errorf("an event of %x", ev.Data())
				}
			}
			if got != ready || b.Len() > 1 {
				t.Errorf("%d events, ready for %x, want %x", b.Len(), got, ready)
			}
		}
		expect(0)
		write(t, peer, "hello")
		expect(epoll.In)
		expect(epoll.In)
		if err := l.Change(fd, epoll.In|epoll.Out|epoll.OneShot, data); err != nil {
			t.Fatal(err)
		}
		expect(epoll.In | epoll.Out)
		expect(0)
		if err := l.Change(fd, epoll.Out, data); err != nil {
			t.Fatal(err)
		}
		expect(epoll.Out)
		if err := l.Remove(fd); err != nil {
			t.Fatal(err)
		}
		expect(0)
	})
}

// Who waits is woken by an event, by Wake, before or while he waits, and by the end of his time.
func TestWaking(t *testing.T) {
	overWaits(t, func(t *testing.T, wait func(*epoll.List, *epoll.Buffer, time.Duration) error) {
		l, b := list(t), epoll.NewBuffer(8)
		fd, peer := pair(t)
		if err := l.Add(fd, epoll.In, data); err != nil {
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
			if ev := b.At(0); !ev.Woken() {
				t.Fatalf("an event of %x", ev.Data())
			}
			l.Rested()
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

// The runtime's poller is told of what is reported to somebody who parks, and of nothing else: a thread that waits there would be woken.
func TestPollerIsLeftAlone(t *testing.T) {
	l, b := list(t), epoll.NewBuffer(8)
	fd, peer := pair(t)
	if err := l.Add(fd, epoll.In|epoll.Edge, data); err != nil {
		t.Fatal(err)
	}
	if err := l.Park(b, time.Millisecond); err != nil {
		t.Fatal(err)
	}
	poller := list(t)
	if err := poller.Add(epoll.Relay(l), epoll.In, data); err != nil {
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

// What the kernel refuses is an error that says which call it was.
func TestRefused(t *testing.T) {
	l := list(t)
	file, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if err := l.Add(int(file.Fd()), epoll.In, data); err == nil { // a file is always ready: epoll_ctl(2)
		t.Error("a file was accepted")
	}
}

func ExampleList() {
	l, err := epoll.New()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer l.Close()
	l.Wake()
	b := epoll.NewBuffer(8)
	if err := l.Wait(b, -1); err != nil {
		fmt.Println(err)
		return
	}
	ev := b.At(0)
	fmt.Println(b.Len(), ev.Woken())
	// Output: 1 true
}
