package eventloop_test

import (
	"runtime"
	"sync"
	"syscall"
	"testing"

	"github.com/sluice-push/sluice/internal/eventloop"
	"github.com/sluice-push/sluice/internal/testwait"
)

// A goroutine has a thread to itself while it is locked, through yields too, and other goroutines can tell whether that thread sleeps.
func TestOSThread(t *testing.T) {
	var own eventloop.OSThread
	if own.IsLocked() || own.IsAsleep() {
		t.Error("it is locked from the start")
	}
	for range 3 {
		own.SetLocked(false)
		own.SetLocked(true)
		own.SetLocked(true)
		if now := own.Yield(1, func() int64 { return 2 }); now != 2 {
			t.Errorf("it is %d", now)
		}
		if !own.IsLocked() || own.IsAsleep() || own.Due(3) {
			t.Error("after a yield it is not locked, asleep, or has to yield again")
		}
		own.SetLocked(false)
		if own.Yield(3, func() int64 { return 4 }); own.IsLocked() {
			t.Error("locked after a yield")
		}
	}
	awake, wake := make(chan bool), make(chan bool)
	go func() {
		own.SetLocked(true)
		defer own.SetLocked(false)
		awake <- true
		testwait.Hold(t, wake)
		awake <- true
	}()
	testwait.Receive(t, awake)
	for !own.IsAsleep() {
		runtime.Gosched()
	}
	wake <- true
	testwait.Receive(t, awake)
}

// Only the goroutine that is locked unlocks itself.
func TestUnlockSelf(t *testing.T) {
	var own eventloop.OSThread
	own.SetLocked(true)
	other := make(chan bool)
	go func() { own.UnlockSelf(); other <- own.IsLocked() }()
	if !testwait.Receive(t, other) {
		t.Error("another goroutine has unlocked it")
	}
	if own.UnlockSelf(); own.IsLocked() {
		t.Error("its own goroutine has not unlocked it")
	}
	own.UnlockSelf()
}

// A thread that computes is not asleep. A thread that waits is, and so may be one that does not exist.
func TestAsleep(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if eventloop.Asleep(syscall.Gettid()) {
		t.Error("the thread that asks is asleep")
	}
	if !eventloop.Asleep(1 << 30) {
		t.Error("a thread that does not exist is awake")
	}
	number, done := make(chan int), make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		number <- syscall.Gettid()
		testwait.Hold(t, done)
	})
	for id := testwait.Receive(t, number); !eventloop.Asleep(id); {
		runtime.Gosched()
	}
	close(done)
	testwait.Return(t, wg.Wait)
}
