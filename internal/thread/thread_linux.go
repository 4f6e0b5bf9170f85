package thread

import (
	"runtime"
	"sync/atomic"
	"syscall"
)

// Thread is that of a goroutine, which is one among others or the only one of its thread. Its methods but Shared and Asleep are the goroutine's.
// The zero value is shared; in the end it has to be shared again.
type Thread struct {
	Offers
	number atomic.Int32 // 0 while it is shared
}

// Shared reports whether the goroutine is one among others.
func (t *Thread) Shared() bool { return t.number.Load() == 0 }

// Share makes it that, or not. A thread that waits in the kernel is woken at once even if all processors are busy; but goroutines that are at
// work wait for its processor meanwhile, until the runtime notices.
func (t *Thread) Share(shared bool) {
	switch {
	case shared == t.Shared():
	case shared:
		t.number.Store(0)
		runtime.UnlockOSThread()
	default:
		runtime.LockOSThread()
		t.number.Store(int32(syscall.Gettid())) //nolint:gosec // as the kernel's own type
	}
}

// Release makes the thread shared if the calling goroutine is the one that has it to itself, and does nothing for other goroutines.
// A goroutine that waits for a peer calls it: a thread for each peer that does not read would end the process at 10,000 of them.
func (t *Thread) Release() {
	if n := t.number.Load(); n != 0 && int(n) == syscall.Gettid() {
		t.Share(true)
	}
}

// Yield calls the scheduler, and returns what time it is then. A goroutine that has a thread to itself would have to be brought back by another.
func (t *Thread) Yield(now int64, clock func() int64) int64 {
	shared := t.Shared()
	t.Share(true)
	runtime.Gosched()
	t.Share(shared)
	then := clock()
	t.Made(now, then)
	return then
}

// Asleep reports whether the goroutine has a thread to itself that waits for something else than a processor, or may for all that can be found
// out. A goroutine to which the runtime has none to give, because others compute, sleeps too.
func (t *Thread) Asleep() bool {
	n := t.number.Load()
	return n != 0 && asleep(int(n))
}
