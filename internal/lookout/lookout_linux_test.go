package lookout_test

import (
	"errors"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/sluice-push/sluice/internal/lookout"
	"github.com/sluice-push/sluice/internal/testwait"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func pair(t *testing.T) (a, b int) {
	t.Helper()
	p, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_NONBLOCK|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = syscall.Close(p[0]), syscall.Close(p[1]) })
	return p[0], p[1]
}

// It waits for what comes and for its end, is recalled, before it waits or while it does, and leaves the socket as it was.
func TestLookout(t *testing.T) {
	fd, peer := pair(t)
	l, err := lookout.New(fd, 100)
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
		l.Recall()
		if _, over := read(); !over {
			t.Fatal("not over when it was recalled before")
		}
		if err := l.For(time.Hour); err != nil {
			t.Fatal(err)
		}
		go func() { testwait.Hold(t, waits); l.Recall() }()
		if _, over := read(); !over {
			t.Fatal("not over when it was recalled")
		}
		if err := l.For(time.Millisecond); err != nil {
			t.Fatal(err)
		}
		if _, over := read(); !over {
			t.Fatal("not over when its time was")
		}
		select { // it may have looked
		case <-waits:
		default:
		}
		if err := l.For(time.Hour); err != nil {
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

// It is not made where descriptors are few, nor for what the poller does not take, and leaves none open then.
func TestRefused(t *testing.T) {
	fd, _ := pair(t)
	before, err := syscall.Dup(fd)
	if err != nil {
		t.Fatal(err)
	}
	_ = syscall.Close(before)
	if _, err := lookout.New(fd, 1); !errors.Is(err, syscall.EMFILE) {
		t.Errorf("error %v", err)
	}
	if _, err := lookout.New(1<<20, 100); err == nil {
		t.Error("one was made for no descriptor")
	}
	null, err := syscall.Open("/dev/null", syscall.O_RDONLY|syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := lookout.New(null, 100); err == nil {
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
