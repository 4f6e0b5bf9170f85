package slowness_test

import (
	"runtime"
	"sync"
	"syscall"
	"testing"

	"github.com/sluice-push/sluice/internal/slowness"
)

// A thread that computes is not asleep, one that waits is, and one that there is not counts as asleep.
func TestAsleep(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if slowness.Asleep(syscall.Gettid()) {
		t.Error("the thread that asks is asleep")
	}
	if !slowness.Asleep(1 << 30) {
		t.Error("a thread that does not exist computes")
	}
	thread, done := make(chan int), make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		thread <- syscall.Gettid()
		<-done
	})
	for id := <-thread; !slowness.Asleep(id); {
		runtime.Gosched()
	}
	close(done)
	wg.Wait()
}
