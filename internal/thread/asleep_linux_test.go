package thread_test

import (
	"runtime"
	"sync"
	"syscall"
	"testing"

	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/internal/thread"
)

// A goroutine has a thread to itself while it does not share it, through offers too, and others can tell whether that sleeps.
func TestThread(t *testing.T) {
	var own thread.Thread
	if !own.Shared() || own.Asleep() {
		t.Error("it is not shared from the start")
	}
	for range 3 {
		own.Share(true)
		own.Share(false)
		own.Share(false)
		if now := own.Yield(1, func() int64 { return 2 }); now != 2 {
			t.Errorf("it is %d", now)
		}
		if own.Shared() || own.Asleep() || own.Due(3) {
			t.Error("shared, asleep or to be offered after an offer")
		}
		own.Share(true)
		if own.Yield(3, func() int64 { return 4 }); !own.Shared() {
			t.Error("not shared after an offer")
		}
	}
	awake, wake := make(chan bool), make(chan bool)
	go func() {
		own.Share(false)
		defer own.Share(true)
		awake <- true
		testwait.Hold(t, wake)
		awake <- true
	}()
	testwait.Receive(t, awake)
	for !own.Asleep() {
		runtime.Gosched()
	}
	wake <- true
	testwait.Receive(t, awake)
}

// Only the goroutine that has the thread to itself gives it back.
func TestRelease(t *testing.T) {
	var own thread.Thread
	own.Share(false)
	other := make(chan bool)
	go func() { own.Release(); other <- own.Shared() }()
	if testwait.Receive(t, other) {
		t.Error("another goroutine gave the thread back")
	}
	if own.Release(); !own.Shared() {
		t.Error("its own goroutine did not give it back")
	}
	own.Release()
}

// A thread that computes is not asleep, one that waits is, and one that there is not may be for all that is known.
func TestAsleep(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if thread.Asleep(syscall.Gettid()) {
		t.Error("the thread that asks is asleep")
	}
	if !thread.Asleep(1 << 30) {
		t.Error("of a thread that does not exist something is known")
	}
	number, done := make(chan int), make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		number <- syscall.Gettid()
		testwait.Hold(t, done)
	})
	for id := testwait.Receive(t, number); !thread.Asleep(id); {
		runtime.Gosched()
	}
	close(done)
	testwait.Return(t, wg.Wait)
}
