package eventloop

import (
	"runtime"
	"sync/atomic"
	"syscall"
)

// OSThread locks a goroutine to its operating system thread, or not, and tells other goroutines whether that thread sleeps. All methods but IsLocked
// and IsAsleep are for the goroutine alone. The zero value is not locked, and in the end it must not be.
//
// A locked thread that waits in the kernel runs at once when it is woken, even if all processors are busy. But goroutines that are runnable wait for
// its processor until the runtime notices that the thread sleeps.
type OSThread struct {
	YieldTimer
	id atomic.Int32 // 0 while it is not locked
}

// IsLocked reports whether the goroutine is locked to a thread.
func (t *OSThread) IsLocked() bool { return t.id.Load() != 0 }

// SetLocked locks the goroutine to its thread, or unlocks it.
func (t *OSThread) SetLocked(locked bool) {
	switch {
	case locked == t.IsLocked():
	case locked:
		runtime.LockOSThread()
		t.id.Store(int32(syscall.Gettid())) //nolint:gosec // as the kernel's own type
	default:
		t.id.Store(0)
		runtime.UnlockOSThread()
	}
}

// UnlockSelf unlocks the goroutine if it is the calling one, and does nothing otherwise. A goroutine that waits for its peer calls it: a thread for
// each peer that does not read would end the process when there are 10,000.
func (t *OSThread) UnlockSelf() {
	if id := t.id.Load(); id != 0 && int(id) == syscall.Gettid() {
		t.SetLocked(false)
	}
}

// Yield calls the scheduler, and returns the time after that. It unlocks the goroutine meanwhile, because another thread would have to bring a locked
// one back.
func (t *OSThread) Yield(now int64, clock func() int64) int64 {
	locked := t.IsLocked()
	t.SetLocked(false)
	runtime.Gosched()
	t.SetLocked(locked)
	then := clock()
	t.Yielded(now, then)
	return then
}

// IsAsleep reports whether the goroutine is locked to a thread that waits for something other than a processor, or may for all that can be found out.
// A thread that has no goroutine to run, because others compute on all processors, also counts as asleep.
func (t *OSThread) IsAsleep() bool {
	id := t.id.Load()
	return id != 0 && asleep(int(id))
}
