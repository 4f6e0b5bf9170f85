package eventloop_test

import (
	"errors"
	"syscall"
	"testing"
	"time"

	"github.com/sluice-push/sluice/internal/eventloop"
	"github.com/sluice-push/sluice/internal/sockopt"
	"github.com/sluice-push/sluice/internal/testwait"
)

// A waiter waits for input and for the end of input, is interrupted before or during a wait, and leaves the socket as it was.
func TestWaiter(t *testing.T) {
	fd, peer := pair(t)
	l, err := eventloop.NewWaiter(fd, 100)
	if err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 8)
	waits := make(chan bool, 100) // more than the poller asks: a full one would stop the reader
	read := func() (n int, over bool) {
		t.Helper()
		over, err := l.Wait(func(uintptr) bool {
			var err error
			if n, err = syscall.Read(fd, got); errors.Is(err, syscall.EAGAIN) {
				waits <- true
				return false
			}
			return true
		})
		if err != nil {
			t.Fatal(err)
		}
		return n, over
	}
	for range 20 {
		if _, err := syscall.Write(peer, []byte("there")); err != nil {
			t.Fatal(err)
		}
		if n, over := read(); n != 5 || over {
			t.Fatalf("%d bytes that were there, over %t", n, over)
		}
		go func() {
			testwait.Hold(t, waits)
			_, _ = syscall.Write(peer, []byte("come"))
		}()
		if n, over := read(); n != 4 || over {
			t.Fatalf("%d bytes that came, over %t", n, over)
		}
		l.Interrupt()
		if _, over := read(); !over {
			t.Fatal("not over when it was recalled before")
		}
		if err := l.SetTimeout(time.Hour); err != nil {
			t.Fatal(err)
		}
		go func() { testwait.Hold(t, waits); l.Interrupt() }()
		if _, over := read(); !over {
			t.Fatal("not over when it was recalled")
		}
		if err := l.SetTimeout(time.Millisecond); err != nil {
			t.Fatal(err)
		}
		if _, over := read(); !over {
			t.Fatal("not over when its time was")
		}
		select { // it may have looked
		case <-waits:
		default:
		}
		if err := l.SetTimeout(time.Hour); err != nil {
			t.Fatal(err)
		}
	}
	l.Close()
	if _, err := syscall.Write(peer, []byte("x")); err != nil {
		t.Error(err)
	}
	if n, err := syscall.Read(fd, got); n != 1 || err != nil {
		t.Errorf("afterwards %d bytes, %v", n, err)
	}
}

// A waiter is not made if descriptors are few or the poller refuses the socket. Then it leaves no descriptor open.
func TestWaiterRefused(t *testing.T) {
	fd, _ := pair(t)
	before, err := syscall.Dup(fd)
	if err != nil {
		t.Fatal(err)
	}
	_ = syscall.Close(before)
	if _, err := eventloop.NewWaiter(fd, 1); !errors.Is(err, syscall.EMFILE) {
		t.Errorf("error %v", err)
	}
	if _, err := eventloop.NewWaiter(1<<20, 100); err == nil {
		t.Error("one was made for no descriptor")
	}
	null, err := syscall.Open("/dev/null", syscall.O_RDONLY|syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := eventloop.NewWaiter(null, 100); err == nil {
		t.Error("one was made for a device without a poll")
	}
	_ = syscall.Close(null)
	after, err := syscall.Dup(fd)
	if err != nil {
		t.Fatal(err)
	}
	_ = syscall.Close(after)
	if after != before {
		t.Errorf("the next descriptor is %d, it was %d", after, before)
	}
}

// However many sockets there are, Waiters have no more than a part of the descriptors; one that is closed makes room for another.
func TestWaitersAreFew(t *testing.T) {
	fd, _ := pair(t)
	share := sockopt.FileLimit() / 20 // ten Waiters
	var all []*eventloop.Waiter
	defer func() {
		for _, w := range all {
			w.Close()
		}
	}()
	for {
		w, err := eventloop.NewWaiter(fd, share)
		if err != nil {
			if !errors.Is(err, syscall.EMFILE) || len(all) != 10 {
				t.Fatalf("after %d: %v", len(all), err)
			}
			break
		}
		if all = append(all, w); len(all) > 10 {
			t.Fatal("there is no bound")
		}
	}
	all[0].Close()
	w, err := eventloop.NewWaiter(fd, share)
	if err != nil {
		t.Fatalf("after one was closed: %v", err)
	}
	all[0] = w
}
